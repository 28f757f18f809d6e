//! NetworkPolicy of `networking.k8s.io/v1`.

use k8s_openapi::{
    api::networking::v1::{NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::{
    cidr::with_typed_except,
    label_selector::label_selector,
    port::{self, Given},
    scope::{NAMESPACE_LABEL, ParseContext},
    selector::Keys,
};
use crate::{
    model::{Direction, field::Fault, place::Place},
    policy::rules::{
        ClauseAction, PolicyRank, Selector, SelectorKey,
        peer::Peer,
        ports::protocol,
        rule::{Bound, Clause, ClausePeers, ClausePorts, PortMatch, Rule},
    },
};

/// Reads a `spec`.
pub(super) fn rule(
    at: &Place<'_>,
    spec: &NetworkPolicySpec,
    scope: &ParseContext<'_>,
) -> Result<Rule, Fault> {
    let subject = subject(at, spec, namespace(scope))?;
    let (ingress, egress) = policy_types(at, spec)?;
    let mut clauses = Vec::new();
    let side = at.key("ingress");
    for (at, rule) in side.each(spec.ingress.as_ref()) {
        let (peers, ports) = (rule.from.as_ref(), rule.ports.as_ref());
        let clause = clause(&at, (Direction::Ingress, peers), ports, scope)?;
        clauses.extend(ingress.then_some(clause));
    }
    let side = at.key("egress");
    for (at, rule) in side.each(spec.egress.as_ref()) {
        let (peers, ports) = (rule.to.as_ref(), rule.ports.as_ref());
        let clause = clause(&at, (Direction::Egress, peers), ports, scope)?;
        clauses.extend(egress.then_some(clause));
    }
    Ok(Rule {
        subject: Some(Bound::Endpoints(subject)),
        default_deny_ingress: ingress,
        default_deny_egress: egress,
        rank: PolicyRank::default(),
        clauses,
    })
}

/// Whom the policy is for. One that does not say it is for all pods of its namespace.
pub(super) fn subject(
    at: &Place<'_>,
    spec: &NetworkPolicySpec,
    namespace: &str,
) -> Result<Selector, Fault> {
    let said = spec.pod_selector.as_ref();
    let selected = said.map(|it| label_selector(&at.key("podSelector"), it, Keys::Pod));
    let mut subject = selected.transpose()?.unwrap_or_default();
    ParseContext::in_namespace(&mut subject, namespace);
    Ok(subject)
}

fn namespace<'a>(scope: &ParseContext<'a>) -> &'a str {
    scope.name.namespace.as_deref().unwrap_or("default")
}

/// Whether the policy is about ingress, and about egress. Unless it says so itself it is about
/// ingress, and about egress if it has a rule for it.
fn policy_types(at: &Place<'_>, spec: &NetworkPolicySpec) -> Result<(bool, bool), Fault> {
    let types = spec.policy_types.as_ref().filter(|types| !types.is_empty());
    if types.is_none() {
        return Ok((true, spec.egress.as_ref().is_some_and(|rules| !rules.is_empty())));
    }
    let (mut ingress, mut egress) = (false, false);
    for (at, text) in at.key("policyTypes").each(types) {
        match text.as_str() {
            "Ingress" => ingress = true,
            "Egress" => egress = true,
            other => {
                return Err(
                    at.fault(format!("unknown policy type {other:?}"), "write Ingress or Egress")
                );
            }
        }
    }
    Ok((ingress, egress))
}

fn clause(
    at: &Place<'_>,
    (direction, peers): (Direction, Option<&Vec<NetworkPolicyPeer>>),
    ports: Option<&Vec<NetworkPolicyPort>>,
    scope: &ParseContext<'_>,
) -> Result<Clause, Fault> {
    // For Kubernetes an empty list is no list: everybody, every port.
    let named = at.key(if direction == Direction::Ingress { "from" } else { "to" });
    let peers = named.each(peers).map(|(at, it)| peer(&at, it, scope));
    let peers = peers.collect::<Result<Vec<_>, _>>()?;
    let named = at.key("ports");
    let ports = named.each(ports).map(|(at, it)| port(&at, it)).collect::<Result<Vec<_>, _>>()?;
    Ok(Clause {
        direction,
        action: ClauseAction::Allow,
        peers: if peers.is_empty() { ClausePeers::Any } else { ClausePeers::Of(peers) },
        ports: if ports.is_empty() { ClausePorts::Any } else { ClausePorts::Of(ports) },
        origin: scope.origin(direction, &at.path()),
    })
}

fn peer(at: &Place<'_>, peer: &NetworkPolicyPeer, scope: &ParseContext<'_>) -> Result<Peer, Fault> {
    let (pods, namespaces) = (peer.pod_selector.as_ref(), peer.namespace_selector.as_ref());
    match (&peer.ip_block, pods, namespaces) {
        (Some(block), None, None) => with_typed_except(&at.key("ipBlock"), block).map(Peer::Cidr),
        (Some(_), ..) => Err(at.key("ipBlock").fault(
            "ipBlock beside podSelector or namespaceSelector",
            "write two entries of the list",
        )),
        (None, None, None) => {
            Err(at.fault("the peer names nobody", "add podSelector, namespaceSelector or ipBlock"))
        }
        (None, pods, namespaces) => {
            pods_in_namespaces(at, pods, namespaces, scope).map(Peer::Labels)
        }
    }
}

fn pods_in_namespaces(
    at: &Place<'_>,
    pods: Option<&LabelSelector>,
    namespaces: Option<&LabelSelector>,
    scope: &ParseContext<'_>,
) -> Result<Selector, Fault> {
    let read = |key, said: Option<&LabelSelector>, keys| {
        said.map(|said| label_selector(&at.key(key), said, keys)).transpose()
    };
    let mut expected = read("podSelector", pods, Keys::Pod)?.unwrap_or_default();
    match read("namespaceSelector", namespaces, Keys::Namespace)? {
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

fn port(at: &Place<'_>, said: &NetworkPolicyPort) -> Result<PortMatch, Fault> {
    let number = match said.protocol.as_deref() {
        None | Some("TCP") => protocol::TCP,
        Some("UDP") => protocol::UDP,
        Some("SCTP") => protocol::SCTP,
        Some(other) => {
            return Err(at
                .key("protocol")
                .fault(format!("unknown protocol {other:?}"), "write TCP, UDP or SCTP"));
        }
    };
    let given = match (&said.port, said.end_port) {
        (Some(port), end) => port::typed(at, port, end)?,
        (None, None) => Given::ALL,
        (None, Some(_)) => return Err(at.key("endPort").fault("endPort without port", "add port")),
    };
    Ok(given.of(number))
}
