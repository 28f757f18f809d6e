//! What policies mean, told again without rows, tables or selectors: the engine must agree.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use serde_json::{Value, json};

use super::world::{NAMED, Other, PODS};
use crate::model::Direction;

/// A policy as it is drawn at random.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) clauses: Vec<DrawnClause>,
    /// `enableDefaultDeny` of ingress and egress.
    pub(super) default_deny: [Option<bool>; 2],
    /// Whether it is for pods of another app than the one that is asked about.
    pub(super) for_others: bool,
}

#[derive(Clone, Debug)]
pub(super) struct DrawnClause {
    pub(super) egress: bool,
    pub(super) deny: bool,
    pub(super) peers: DrawnPeers,
    pub(super) ports: DrawnPorts,
}

#[derive(Clone, Debug)]
pub(super) enum DrawnPeers {
    /// No field about peers.
    Missing,
    /// `fromEndpoints` with these apps of the policy's own namespace.
    Apps(Vec<&'static str>),
    /// `fromEndpoints: [{}]`.
    OwnNamespace,
    /// `fromEntities`.
    Entities(Vec<&'static str>),
    /// `fromCIDRSet`.
    Cidrs(Vec<(Ipv4Net, Vec<Ipv4Net>)>),
    /// `toServices`: names, or none for the label `tier`; and namespaces, or none for all.
    Services(Vec<(Option<&'static str>, Option<&'static str>)>),
}

/// A service: name, namespace, whether it is labelled `tier`, the app that it selects, and
/// addresses that are listed for it.
type Served = (&'static str, &'static str, bool, Option<&'static str>, &'static [[u8; 4]]);

const SERVICES: [Served; 5] = [
    ("db", "default", true, Some("db"), &[[10, 0, 0, 1]]),
    ("db", "other", true, Some("db"), &[]),
    ("mail", "default", false, Some("mail"), &[]),
    ("lan", "default", true, None, &[[10, 0, 0, 1], [11, 240, 48, 1]]),
    ("lan", "other", false, None, &[[11, 0, 16, 1]]),
];

/// The services as manifests, and an EndpointSlice of each.
pub(super) fn services() -> Vec<Value> {
    let all = SERVICES.into_iter().flat_map(|(name, namespace, tier, app, addresses)| {
        let labels = if tier { json!({ "tier": "data" }) } else { json!({}) };
        let selector = app.map(|app| json!({ "app": app }));
        let text = |address: &[u8; 4]| Ipv4Addr::from(*address).to_string();
        let listed: Vec<Value> =
            addresses.iter().map(|it| json!({ "addresses": [text(it)] })).collect();
        let slice = json!({ "name": format!("{name}-1"), "namespace": namespace,
                            "labels": { "kubernetes.io/service-name": name } });
        [
            json!({ "apiVersion": "v1", "kind": "Service",
                    "metadata": { "name": name, "namespace": namespace, "labels": labels },
                    "spec": { "selector": selector } }),
            json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                    "metadata": slice, "addressType": "IPv4", "endpoints": listed }),
        ]
    });
    all.collect()
}

#[derive(Clone, Debug)]
pub(super) enum DrawnPorts {
    /// No field about ports.
    Missing,
    /// `toPorts`: protocol, port, `endPort`.
    Ports(Vec<(&'static str, u16, u16)>),
    /// `toPorts`: protocol and name.
    Named(Vec<(&'static str, &'static str)>),
    /// `icmps`, types of IPv4.
    Icmp(Vec<u8>),
}

/// A packet between `web` of namespace `default` and another side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) egress: bool,
    pub(super) other: Other,
    pub(super) protocol: u8,
    pub(super) port: u16,
}

/// What must become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Pass,
    Deny,
    NoMatch,
}

/// The meaning of policies, straight from their words.
pub(super) fn expected(policies: &[Drawn], packet: Packet) -> Expected {
    let mine = || policies.iter().filter(|policy| !policy.for_others);
    let clauses = || mine().flat_map(|policy| &policy.clauses);
    let enforced = mine().any(|policy| {
        let speaks = policy.clauses.iter().any(|clause| clause.egress == packet.egress);
        policy.default_deny[usize::from(packet.egress)].unwrap_or(speaks)
    });
    let from_host = !packet.egress && packet.other == Other::Identity(1);
    if clauses().any(|clause| clause.deny && clause.meets(packet)) {
        Expected::Deny
    } else if from_host || !enforced || clauses().any(|it| !it.deny && it.meets(packet)) {
        Expected::Pass
    } else {
        Expected::NoMatch
    }
}

impl DrawnClause {
    /// Whether the clause is about this packet.
    pub(super) fn meets(&self, packet: Packet) -> bool {
        if let (DrawnPeers::Missing, DrawnPorts::Missing) = (&self.peers, &self.ports) {
            return false;
        }
        self.egress == packet.egress && self.peers.meet(packet.other) && self.ports.meet(packet)
    }

    /// Whether its peers, and its ports, are about this packet.
    pub(super) fn fits(&self, packet: Packet) -> (bool, bool) {
        if let (DrawnPeers::Missing, DrawnPorts::Missing) = (&self.peers, &self.ports) {
            return (false, true);
        }
        (self.peers.meet(packet.other), self.ports.meet(packet))
    }

    pub(super) fn direction(&self) -> Direction {
        if self.egress { Direction::Egress } else { Direction::Ingress }
    }
}

impl DrawnPeers {
    fn meet(&self, other: Other) -> bool {
        let pod = |id| PODS.into_iter().find(|pod| pod.0 == id);
        match (self, other) {
            (Self::Missing, _) => true,
            (Self::Apps(apps), Other::Identity(id)) => {
                pod(id).is_some_and(|(_, app, ns)| ns == "default" && apps.contains(&app))
            }
            (Self::OwnNamespace, Other::Identity(id)) => {
                pod(id).is_some_and(|(_, _, ns)| ns == "default")
            }
            (Self::Apps(_) | Self::OwnNamespace, Other::Address(_)) => false,
            (Self::Entities(names), other) => names.iter().any(|name| match (*name, other) {
                ("all", _) => true,
                ("world", Other::Address(_)) => true,
                ("host", Other::Identity(1)) => true,
                ("cluster", Other::Identity(id)) => id == 1 || pod(id).is_some(),
                _ => false,
            }),
            (Self::Cidrs(sets), Other::Address(IpAddr::V4(address))) => {
                let holds = |net: &Ipv4Net| net.contains(&address);
                sets.iter().any(|(net, except)| holds(net) && !except.iter().any(holds))
            }
            (Self::Cidrs(_), _) => false,
            (Self::Services(expected), other) => {
                SERVICES.iter().any(|(name, ns, tier, app, at)| {
                    let is_meant = expected.iter().any(|(by_name, inside)| {
                        by_name.map_or(*tier, |expected| expected == *name)
                            && inside.is_none_or(|expected| expected == *ns)
                    });
                    is_meant
                        && match (app, other) {
                            (Some(app), Other::Identity(id)) => {
                                pod(id).is_some_and(|(_, of, place)| (of, place) == (*app, *ns))
                            }
                            (None, Other::Address(IpAddr::V4(it))) => at.contains(&it.octets()),
                            _ => false,
                        }
                })
            }
        }
    }
}

impl DrawnPorts {
    fn meet(&self, packet: Packet) -> bool {
        let Packet { protocol, port, .. } = packet;
        match self {
            Self::Missing => true,
            Self::Icmp(types) => protocol == 1 && types.iter().any(|it| u16::from(*it) == port),
            Self::Ports(ports) => ports.iter().any(|(name, first, end)| {
                let whole = (*first, *end) == (0, 0);
                is_called(protocol, name) && (whole || (*first..=*first.max(end)).contains(&port))
            }),
            Self::Named(ports) => {
                let receiver = if packet.egress { packet.other } else { Other::Identity(1000) };
                ports.iter().any(|(called, name)| {
                    is_called(protocol, called)
                        && NAMED.iter().any(|&(id, its, of, number)| {
                            (Other::Identity(id), its, of, number)
                                == (receiver, *name, protocol, port)
                        })
                })
            }
        }
    }
}

fn is_called(protocol: u8, name: &str) -> bool {
    match name {
        "TCP" => protocol == 6,
        "UDP" => protocol == 17,
        _ => [6, 17, 132].contains(&protocol),
    }
}

impl Drawn {
    /// The policy as a manifest.
    pub(super) fn document(&self, number: usize) -> Value {
        let app = if self.for_others { "mail" } else { "web" };
        let list = |egress, deny| {
            let expected = self.clauses.iter().filter(|it| it.egress == egress && it.deny == deny);
            expected.map(DrawnClause::value).collect::<Vec<_>>()
        };
        json!({
            "apiVersion": "cilium.io/v2",
            "kind": "CiliumNetworkPolicy",
            "metadata": { "name": format!("policy-{number}"), "namespace": "default" },
            "spec": {
                "endpointSelector": { "matchLabels": { "app": app } },
                "enableDefaultDeny": {
                    "ingress": self.default_deny[0], "egress": self.default_deny[1],
                },
                "ingress": list(false, false),
                "ingressDeny": list(false, true),
                "egress": list(true, false),
                "egressDeny": list(true, true),
            },
        })
    }
}

impl DrawnClause {
    fn value(&self) -> Value {
        let mut value = json!({});
        let side = if self.egress { "to" } else { "from" };
        let peers = match &self.peers {
            DrawnPeers::Missing | DrawnPeers::Services(_) => None,
            DrawnPeers::Apps(apps) => Some((
                "Endpoints",
                json!(
                    apps.iter()
                        .map(|app| json!({ "matchLabels": { "app": app } }))
                        .collect::<Vec<_>>()
                ),
            )),
            DrawnPeers::OwnNamespace => Some(("Endpoints", json!([{}]))),
            DrawnPeers::Entities(names) => Some(("Entities", json!(names))),
            DrawnPeers::Cidrs(sets) => Some((
                "CIDRSet",
                json!(
                    sets.iter()
                        .map(|(net, except)| json!({
                            "cidr": net.to_string(),
                            "except": except.iter().map(Ipv4Net::to_string).collect::<Vec<_>>(),
                        }))
                        .collect::<Vec<_>>()
                ),
            )),
        };
        if let DrawnPeers::Services(expected) = &self.peers {
            let entry = |(name, namespace): &(Option<&str>, Option<&str>)| match name {
                Some(name) => {
                    json!({ "k8sService": { "serviceName": name, "namespace": namespace } })
                }
                None => json!({ "k8sServiceSelector": {
                    "selector": { "matchLabels": { "tier": "data" } }, "namespace": namespace,
                } }),
            };
            value["toServices"] = expected.iter().map(entry).collect();
        }
        if let Some((field, list)) = peers {
            value[format!("{side}{field}")] = list;
        }
        match &self.ports {
            DrawnPorts::Missing => {}
            DrawnPorts::Ports(ports) => {
                let ports = ports.iter().map(|(protocol, port, end)| {
                    json!({ "port": port.to_string(), "endPort": end, "protocol": protocol })
                });
                value["toPorts"] = json!([{ "ports": ports.collect::<Vec<_>>() }]);
            }
            DrawnPorts::Named(ports) => {
                let ports = ports.iter();
                let ports =
                    ports.map(|(protocol, name)| json!({ "port": name, "protocol": protocol }));
                value["toPorts"] = json!([{ "ports": ports.collect::<Vec<_>>() }]);
            }
            DrawnPorts::Icmp(types) => {
                let fields = types.iter().map(|code| json!({ "type": code }));
                value["icmps"] = json!([{ "fields": fields.collect::<Vec<_>>() }]);
            }
        }
        value
    }
}

/// An address as it is drawn: few, so that prefixes meet.
pub(super) fn drawn_address(bits: u8) -> IpAddr {
    Ipv4Addr::new(10 + (bits & 1), bits & 0xf0, (bits << 4) & 0xf0, 1).into()
}
