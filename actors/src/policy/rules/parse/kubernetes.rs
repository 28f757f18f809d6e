//! NetworkPolicy of `networking.k8s.io/v1`.

use super::{
    cidr::with_except,
    port::{self, Given},
    scope::{NAMESPACE_LABEL, ParseContext},
    selector::{Keys, selector},
};
use crate::{
    model::{
        Direction,
        field::{Fault, Field, Mapping},
    },
    policy::rules::{
        ClauseAction, PolicyRank, Selector, SelectorKey,
        peer::Peer,
        ports::protocol,
        rule::{Bound, Clause, ClausePeers, ClausePorts, PortMatch, Rule},
    },
};

/// Reads a `spec`.
pub(super) fn rule(field: &Field<'_>, scope: &mut ParseContext<'_>) -> Result<Rule, Fault> {
    let spec = field.mapping(&["podSelector", "policyTypes", "ingress", "egress"])?;
    let mut subject = selector(&spec.need("podSelector")?, Keys::Pod)?;
    ParseContext::in_namespace(&mut subject, namespace(scope));
    let (ingress, egress) = policy_types(&spec)?;
    let mut clauses = Vec::new();
    for (direction, name, expected) in
        [(Direction::Ingress, "ingress", ingress), (Direction::Egress, "egress", egress)]
    {
        for field in spec.list(name)?.unwrap_or_default() {
            let clause = clause(&field, direction, scope)?;
            if expected {
                clauses.push(clause);
            }
        }
    }
    Ok(Rule {
        subject: Some(Bound::Endpoints(subject)),
        default_deny_ingress: ingress,
        default_deny_egress: egress,
        rank: PolicyRank::default(),
        clauses,
    })
}

fn namespace<'a>(scope: &ParseContext<'a>) -> &'a str {
    scope.name.namespace.as_deref().unwrap_or("default")
}

/// Whether the policy is about ingress, and about egress. Unless it says so itself it is about
/// ingress, and about egress if it has a rule for it.
fn policy_types(spec: &Mapping<'_>) -> Result<(bool, bool), Fault> {
    let types = spec.list("policyTypes")?.unwrap_or_default();
    if types.is_empty() {
        return Ok((true, spec.list("egress")?.is_some_and(|rules| !rules.is_empty())));
    }
    let (mut ingress, mut egress) = (false, false);
    for field in types {
        match field.text()? {
            "Ingress" => ingress = true,
            "Egress" => egress = true,
            other => {
                return Err(field
                    .fault(format!("unknown policy type {other:?}"), "write Ingress or Egress"));
            }
        }
    }
    Ok((ingress, egress))
}

fn clause(
    field: &Field<'_>,
    direction: Direction,
    scope: &ParseContext<'_>,
) -> Result<Clause, Fault> {
    let peers_name = if direction == Direction::Ingress { "from" } else { "to" };
    let mapping = field.mapping(&[peers_name, "ports"])?;
    // For Kubernetes an empty list is no list: everybody, every port.
    let peers = mapping.list(peers_name)?.unwrap_or_default();
    let peers = peers.iter().map(|field| peer(field, scope)).collect::<Result<Vec<_>, _>>()?;
    let ports = mapping.list("ports")?.unwrap_or_default();
    let ports = ports.iter().map(port).collect::<Result<Vec<_>, _>>()?;
    Ok(Clause {
        direction,
        action: ClauseAction::Allow,
        peers: if peers.is_empty() { ClausePeers::Any } else { ClausePeers::Of(peers) },
        ports: if ports.is_empty() { ClausePorts::Any } else { ClausePorts::Of(ports) },
        origin: scope.origin(direction, &field.path()),
    })
}

fn peer(field: &Field<'_>, scope: &ParseContext<'_>) -> Result<Peer, Fault> {
    let mapping = field.mapping(&["ipBlock", "namespaceSelector", "podSelector"])?;
    let (pods, namespaces) = (mapping.get("podSelector"), mapping.get("namespaceSelector"));
    match (mapping.get("ipBlock"), pods, namespaces) {
        (Some(block), None, None) => {
            let block = block.mapping(&["cidr", "except"])?;
            let except = block.list("except")?.unwrap_or_default();
            with_except(&block.need("cidr")?, &except).map(Peer::Cidr)
        }
        (Some(block), ..) => Err(block.fault(
            "ipBlock beside podSelector or namespaceSelector",
            "write two entries of the list",
        )),
        (None, None, None) => {
            Err(field
                .fault("the peer names nobody", "add podSelector, namespaceSelector or ipBlock"))
        }
        (None, pods, namespaces) => {
            pods_in_namespaces(pods.as_ref(), namespaces.as_ref(), scope).map(Peer::Labels)
        }
    }
}

fn pods_in_namespaces(
    pods: Option<&Field<'_>>,
    namespaces: Option<&Field<'_>>,
    scope: &ParseContext<'_>,
) -> Result<Selector, Fault> {
    let mut expected =
        pods.map(|field| selector(field, Keys::Pod)).transpose()?.unwrap_or_default();
    match namespaces.map(|field| selector(field, Keys::Namespace)).transpose()? {
        None => ParseContext::in_namespace(&mut expected, namespace(scope)),
        Some(some) => {
            // Who has no namespace is no pod: the world has none of the labels that are not to be there.
            let is_asked = some.needs_a_label();
            expected.labels.extend(some.labels);
            expected.expressions.extend(some.expressions);
            if !is_asked {
                expected = expected.and_exists(SelectorKey::new("k8s", NAMESPACE_LABEL));
            }
        }
    }
    scope.in_cluster(&mut expected);
    Ok(expected)
}

fn port(field: &Field<'_>) -> Result<PortMatch, Fault> {
    let mapping = field.mapping(&["endPort", "port", "protocol"])?;
    let number = match mapping.get("protocol") {
        None => protocol::TCP,
        Some(field) => match field.text()? {
            "TCP" => protocol::TCP,
            "UDP" => protocol::UDP,
            "SCTP" => protocol::SCTP,
            other => {
                return Err(
                    field.fault(format!("unknown protocol {other:?}"), "write TCP, UDP or SCTP")
                );
            }
        },
    };
    let end = mapping.get("endPort");
    let given = match (mapping.get("port"), &end) {
        (Some(port), end) => port::given(&port, end.as_ref())?,
        (None, None) => Given::ALL,
        (None, Some(end)) => return Err(end.fault("endPort without port", "add port")),
    };
    Ok(given.of(number))
}
