//! What of a clause is not about a packet, in words: whom its policy is for, whom it names, which ports.
//! Peers and ports are looked up as a resolution does it.

use super::{
    CidrMatch, ClausePeers, ClausePorts, IdentityView, Peer, Policy, Requirement, Selector, Test,
    named::numbers,
    packet::{Misfit, PacketQuestion, RulePart},
    ports::{PortRange, protocol},
    rule::{Clause, PortMatch, Rule},
    selector::SelectorKey,
};
use crate::model::{Direction, Families, Labels, NamedPorts};

/// Keys of labels that people know by a shorter name.
const SHORT: [(&str, &str); 2] =
    [("io.kubernetes.pod.namespace", "namespace"), ("io.cilium.k8s.policy.cluster", "cluster")];

/// What of a clause is not about a packet; nothing if the clause is about it.
pub(super) fn misfits(
    question: &PacketQuestion,
    view: &IdentityView,
    families: Families,
    (policy, rule, clause): (&Policy, &Rule, &Clause),
) -> Vec<Misfit> {
    let mut found = Vec::new();
    if !rule.selects(&question.subject.labels) {
        found.push(subject(rule, &question.subject.labels));
    }
    let peer = peer(question, view, families, clause);
    let port = port(question, view, clause);
    // Where a part is not supported, what the clause says of peers and ports is not all that is written.
    let unsupported = unsupported(policy, clause).filter(|_| peer.is_some() || port.is_some());
    match unsupported {
        Some(problem) => {
            let says_nothing =
                |ports: &ClausePorts| matches!(ports, ClausePorts::Of(it) if it.is_empty());
            let nobody = matches!(&clause.peers, ClausePeers::Of(it) if it.is_empty());
            found.extend(peer.filter(|_| !nobody));
            found.extend(port.filter(|_| !says_nothing(&clause.ports)));
            found.push(Misfit { part: RulePart::Unsupported, problem, distance: 1 });
        }
        None => found.extend(peer.into_iter().chain(port)),
    }
    found
}

/// The parts of a clause that are not supported.
fn unsupported(policy: &Policy, clause: &Clause) -> Option<String> {
    let path = clause.origin.path.as_str();
    let inside = |at: &str| {
        at.strip_prefix(path).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    let parts = policy.unsupported.iter().filter(|it| inside(&it.path));
    let texts: Vec<_> = parts.map(|it| format!("{}: {}", it.path, it.effect)).collect();
    if texts.is_empty() { None } else { Some(format!("not supported yet: {}", texts.join("; "))) }
}

fn subject(rule: &Rule, labels: &Labels) -> Misfit {
    let (problem, unmet) = match &rule.subject {
        None => ("the policy is for nodes, which are not held to policy".to_owned(), 4),
        Some(bound) => {
            let unmet = unmet(bound.selector(), labels);
            match unmet.is_empty() {
                true => ("the policy is for nodes, or for all but these".to_owned(), 4),
                false => (format!("the policy is for others: {}", unmet.join("; ")), unmet.len()),
            }
        }
    };
    let distance = 2 + u32::try_from(unmet).unwrap_or(u32::MAX / 8);
    Misfit { part: RulePart::Subject, problem, distance }
}

fn peer(
    question: &PacketQuestion,
    view: &IdentityView,
    families: Families,
    clause: &Clause,
) -> Option<Misfit> {
    let ClausePeers::Of(peers) = &clause.peers else { return None };
    let id = question.peer;
    if peers.iter().any(|peer| view.is_selected(peer, id, families)) {
        return None;
    }
    let labels = view.get(id).map(|facts| &*facts.labels);
    let judged = peers.iter().map(|peer| of_peer(peer, question, labels));
    let (problem, distance) = judged
        .min_by_key(|(_, distance)| *distance)
        .unwrap_or_else(|| ("the rule names nobody".to_owned(), 4));
    Some(Misfit { part: RulePart::Peer, problem, distance })
}

/// Why a peer of a clause does not mean who is at the other end, and how far off it is.
fn of_peer(peer: &Peer, question: &PacketQuestion, labels: Option<&Labels>) -> (String, u32) {
    match peer {
        Peer::Labels(selector) => {
            let Some(labels) = labels else {
                return (format!("no labels are known of identity {}", question.peer), 4);
            };
            let unmet = unmet(selector, labels);
            let distance = u32::try_from(unmet.len()).unwrap_or(u32::MAX / 8);
            (unmet.join("; "), distance.max(1))
        }
        Peer::Cidr(cidr) => of_cidr(cidr, question),
        Peer::Group(group) => {
            let nets = group.nets.iter().map(|cidr| of_cidr(cidr, question));
            nets.min_by_key(|(_, distance)| *distance)
                .unwrap_or_else(|| (format!("{group} has no prefix"), 3))
        }
        Peer::Service(service) => {
            let inside = service.peers.iter().map(|peer| of_peer(peer, question, labels));
            let nearest = inside.min_by_key(|(_, distance)| *distance);
            let why = nearest.map_or_else(|| "nobody serves it".to_owned(), |(why, _)| why);
            (format!("{service} is meant: {why}"), 2)
        }
    }
}

fn of_cidr(cidr: &CidrMatch, question: &PacketQuestion) -> (String, u32) {
    let PacketQuestion { address, peer, .. } = question;
    let except = cidr.except.iter().find(|except| except.contains(address));
    let net = cidr.net;
    match (net.contains(address), except, peer.is_outside()) {
        (true, _, false) => {
            (format!("{net} is meant: a CIDR never means pods and nodes of the cluster"), 2)
        }
        (true, Some(except), true) => (format!("{net} is meant, but {except} of it is not"), 1),
        (true, None, true) => {
            (format!("{net} is meant, but {address} is not known as a part of it yet"), 1)
        }
        (false, ..) => (format!("{net} is meant, and {address} is not in it"), 2),
    }
}

fn port(question: &PacketQuestion, view: &IdentityView, clause: &Clause) -> Option<Misfit> {
    let ClausePorts::Of(ports) = &clause.ports else { return None };
    let nothing = NamedPorts::new();
    let receiver = match question.direction {
        Direction::Ingress => &question.subject.named_ports,
        Direction::Egress => view.get(question.peer).map_or(&nothing, |facts| &*facts.named_ports),
    };
    let PacketQuestion { protocol, port, .. } = *question;
    let fits = |it: &PortMatch| match it {
        PortMatch::Range(range) => range.cells().any(|cell| cell.contains(protocol, port)),
        PortMatch::Named { name, protocol: of } => {
            *of == protocol && numbers(receiver, name, *of).any(|number| number == port)
        }
    };
    if ports.iter().any(fits) {
        return None;
    }
    let same = ports.iter().any(|it| match it {
        PortMatch::Range(range) => range.protocol == protocol,
        PortMatch::Named { protocol: of, .. } => *of == protocol,
    });
    let mut texts: Vec<_> = ports.iter().map(|it| port_text(it, receiver)).collect();
    texts.dedup();
    let asked = port_text(&PortMatch::Range(PortRange::one(protocol, port)), receiver);
    let problem = match texts.is_empty() {
        true => "the rule names no port".to_owned(),
        false => format!("{} is meant, and not {asked}", texts.join(", ")),
    };
    Some(Misfit { part: RulePart::Port, problem, distance: if same { 1 } else { 2 } })
}

fn port_text(port: &PortMatch, receiver: &NamedPorts) -> String {
    match port {
        PortMatch::Range(PortRange { protocol: of, first, last }) => {
            let (name, icmp) =
                (protocol::name(*of), [protocol::ICMP, protocol::ICMPV6].contains(of));
            let what = if icmp { " type" } else { "" };
            match (first, last) {
                (0, &u16::MAX) => format!("every {name}"),
                (first, last) if first == last => format!("{name}{what} {first}"),
                _ => format!("{name}{what} {first}-{last}"),
            }
        }
        PortMatch::Named { name, protocol: of } => {
            let found: Vec<_> = numbers(receiver, name, *of).map(|it| it.to_string()).collect();
            let of = protocol::name(*of);
            match found.is_empty() {
                true => format!("{of} {name:?} (the receiver has no port of that name)"),
                false => format!("{of} {name:?} (that is {})", found.join(", ")),
            }
        }
    }
}

/// What a selector asks for that labels do not have, each in words.
fn unmet(selector: &Selector, labels: &Labels) -> Vec<String> {
    let exact = selector.labels.iter().filter_map(|(key, value)| {
        let test = Test::In([value.clone()].into());
        let requirement = Requirement { key: key.clone(), test };
        (!requirement.matches(labels)).then(|| words(&requirement, labels))
    });
    let tested = selector.expressions.iter().filter(|it| !it.matches(labels));
    exact.chain(tested.map(|it| words(it, labels))).collect()
}

fn words(requirement: &Requirement, labels: &Labels) -> String {
    let Requirement { key, test } = requirement;
    let name = key_text(key);
    let list = |values: &std::collections::BTreeSet<String>| {
        values.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    let wanted = match test {
        Test::In(values) if values.len() == 1 => label_text(&name, &list(values)),
        Test::In(values) => format!("{name} in ({})", list(values)),
        Test::NotIn(values) => format!("{name} not in ({})", list(values)),
        Test::Exists => format!("any {name}"),
        Test::DoesNotExist => format!("no {name}"),
    };
    let has = match key.value_in(labels) {
        Some(value) => label_text(&name, value),
        None if key.source == "reserved" => kind_text(labels),
        None => format!("no {name}"),
    };
    format!("{wanted} is wanted, and it has {has}")
}

fn label_text(name: &str, value: &str) -> String {
    if value.is_empty() { name.to_owned() } else { format!("{name}={value}") }
}

/// Which entity it is, or that it is a pod.
fn kind_text(labels: &Labels) -> String {
    let reserved: Vec<_> =
        labels.iter().filter(|label| label.source == "reserved").map(|it| it.key.clone()).collect();
    match reserved.is_empty() {
        true => "labels of a pod".to_owned(),
        false => format!("reserved:{}", reserved.join(", reserved:")),
    }
}

fn key_text(SelectorKey { source, key }: &SelectorKey) -> String {
    match SHORT.iter().find(|(long, _)| key == long) {
        Some((_, short)) => (*short).to_owned(),
        None if source == "any" || source == "k8s" => key.clone(),
        None => format!("{source}:{key}"),
    }
}
