//! CiliumNetworkPolicy and CiliumClusterwideNetworkPolicy.

use super::{
    cilium_peers, cilium_ports,
    scope::{NAMESPACE_LABEL, ParseContext},
    selector::{Keys, selector},
    side::Side,
};
use crate::{
    model::{
        Direction,
        field::{Fault, Field, Mapping},
    },
    policy::rules::{
        ClauseAction, Effect, PolicyRank, Selector, SelectorKey,
        rule::{Bound, Clause, ClausePeers, ClausePorts, Rule},
    },
};

const SPEC: &[&str] = &[
    "description",
    "egress",
    "egressDeny",
    "enableDefaultDeny",
    "endpointSelector",
    "ingress",
    "ingressDeny",
    "labels",
    "log",
    "nodeSelector",
];

/// Reads a `spec`.
pub(super) fn rule(field: &Field<'_>, scope: &mut ParseContext<'_>) -> Result<Rule, Fault> {
    let spec = field.mapping(SPEC)?;
    let subject = subject(field, &spec, scope)?;
    let for_init = subject.as_ref().is_some_and(|bound| {
        bound.selector().keys().any(|key| *key == SelectorKey::new("reserved", "init"))
    });
    let (ingress, egress) = default_deny(&spec)?;
    let mut rule = Rule {
        subject,
        default_deny_ingress: ingress.unwrap_or(false),
        default_deny_egress: egress.unwrap_or(false),
        rank: PolicyRank::default(),
        clauses: Vec::new(),
    };
    for side in Side::ALL {
        for field in spec.list(side.field())?.unwrap_or_default() {
            rule.clauses.push(clause(&field, side, for_init, scope)?);
            // A direction that is spoken of is enforced, unless the policy says otherwise.
            match side.direction {
                Direction::Ingress => rule.default_deny_ingress = ingress.unwrap_or(true),
                Direction::Egress => rule.default_deny_egress = egress.unwrap_or(true),
            }
        }
    }
    Ok(rule)
}

fn subject(
    field: &Field<'_>,
    spec: &Mapping<'_>,
    scope: &mut ParseContext<'_>,
) -> Result<Option<Bound>, Fault> {
    match (spec.get("endpointSelector"), spec.get("nodeSelector")) {
        (Some(endpoints), None) => {
            let mut selected = selector(&endpoints, Keys::Cilium)?;
            if let Some(namespace) = &scope.name.namespace {
                in_own_namespace(&endpoints, &mut selected, namespace)?;
            }
            Ok(Some(Bound::Endpoints(selected)))
        }
        (None, Some(nodes)) if scope.name.namespace.is_some() => Err(nodes.fault(
            "a policy of a namespace cannot select nodes",
            "write a CiliumClusterwideNetworkPolicy",
        )),
        (None, Some(nodes)) => {
            let selected = selector(&nodes, Keys::Cilium)?;
            if scope.settings.host_firewall {
                return Ok(Some(Bound::Nodes(selected)));
            }
            scope.not_supported(&nodes.path(), Effect::SelectsNothing);
            Ok(None)
        }
        (Some(_), Some(nodes)) => Err(nodes.fault(
            "a rule is for endpoints or for nodes, this one selects both",
            "write two policies",
        )),
        (None, None) => Err(field.fault(
            "the rule selects nobody",
            "add endpointSelector; an empty one, {}, selects every endpoint of the namespace",
        )),
    }
}

fn in_own_namespace(
    field: &Field<'_>,
    selector: &mut Selector,
    namespace: &str,
) -> Result<(), Fault> {
    let key = SelectorKey::new("k8s", NAMESPACE_LABEL);
    if let Some(other) = selector.labels.get(&key).filter(|other| *other != namespace) {
        return Err(field.fault(
            format!("a policy of namespace {namespace:?} cannot select pods of {other:?}"),
            "move the policy there, or write a CiliumClusterwideNetworkPolicy",
        ));
    }
    ParseContext::in_namespace(selector, namespace);
    Ok(())
}

fn default_deny(spec: &Mapping<'_>) -> Result<(Option<bool>, Option<bool>), Fault> {
    let Some(field) = spec.get("enableDefaultDeny") else { return Ok((None, None)) };
    let mapping = field.mapping(&["ingress", "egress"])?;
    let side = |name| mapping.get(name).map(|field| field.truth()).transpose();
    Ok((side("ingress")?, side("egress")?))
}

fn clause(
    field: &Field<'_>,
    side: Side,
    for_init: bool,
    scope: &mut ParseContext<'_>,
) -> Result<Clause, Fault> {
    let mapping = field.mapping(&clause_fields(side))?;
    let peers = cilium_peers::peers(&mapping, side, for_init, scope)?;
    let ports = cilium_ports::ports(&mapping, side, scope)?;
    let peers = match (peers, &ports) {
        _ if needs_authentication(&mapping, scope)? => ClausePeers::Of(Vec::new()),
        (Some(peers), _) => peers,
        // Without peers a clause is about everybody, but only if it says something of ports.
        (None, Some(_)) => ClausePeers::Any,
        (None, None) => ClausePeers::Of(Vec::new()),
    };
    Ok(Clause {
        direction: side.direction,
        action: if side.deny { ClauseAction::Deny } else { ClauseAction::Allow },
        peers,
        ports: ports.unwrap_or(ClausePorts::Any),
        origin: scope.origin(side.direction, &field.path()),
    })
}

fn clause_fields(side: Side) -> Vec<&'static str> {
    let mut fields = cilium_peers::fields(side);
    fields.extend(["toPorts", "icmps"]);
    if !side.deny {
        fields.push("authentication");
    }
    fields
}

fn needs_authentication(
    mapping: &Mapping<'_>,
    scope: &mut ParseContext<'_>,
) -> Result<bool, Fault> {
    let Some(field) = mapping.get("authentication") else { return Ok(false) };
    let mode = field.mapping(&["mode"])?.need("mode")?;
    match mode.text()? {
        "disabled" => Ok(false),
        "required" | "test-always-fail" => {
            scope.not_supported(&field.path(), Effect::AllowsNothing);
            Ok(true)
        }
        other => Err(mode.fault(
            format!("unknown authentication mode {other:?}"),
            "write disabled, required or test-always-fail",
        )),
    }
}
