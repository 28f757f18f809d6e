//! What policies mean, told again straight from their words: the datapath must agree.

use std::{fmt, net::IpAddr};

use serde_json::{Value, json};

use super::NAMESPACE;
use crate::random::Random;

/// The label `app` of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum App {
    /// It has none.
    None,
    /// `web`.
    Web,
    /// `db`.
    Db,
    /// `mail`.
    Mail,
}

impl App {
    /// Those that have a name.
    pub const NAMED: [Self; 3] = [Self::Web, Self::Db, Self::Mail];

    /// The label's value.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Web => "web",
            Self::Db => "db",
            Self::Mail => "mail",
        }
    }
}

/// Addresses outside of the cluster that packets are tried with.
pub const OUTSIDE: [&str; 5] =
    ["192.0.2.7", "192.0.2.200", "198.51.100.9", "203.0.113.5", "2001:db8::9"];

/// What is tried of each pair: protocol and port, a bit of a mask each.
pub const PROBES: [(u8, u16); 4] = [(6, 80), (6, 81), (17, 53), (17, 80)];

/// All probes.
pub const ALL: u8 = (1 << PROBES.len()) - 1;

/// The way of a packet, seen from the pod that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// To the pod.
    In,
    /// From the pod.
    Out,
}

/// The other side of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// A pod with that label.
    Pod(App),
    /// An address of the cluster that is nobody's, for all one knows: the world.
    Unknown,
    /// One of [`OUTSIDE`], by its place.
    Outside(usize),
}

/// What a rule says of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// They pass.
    Allow,
    /// They are dropped.
    Deny,
    /// Only in a tier that has an order: the next tier says it.
    Pass,
}

/// When the rules of a policy with an order are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Behind the policies without an order, for whom these say nothing of.
    is_baseline: bool,
    priority: u16,
}

/// A rule: some packets pass, or are denied.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    way: Way,
    says: Says,
    peers: Peers,
    /// Protocol and port, with an end if it is a range; `None` is any.
    port: Option<(u8, u16, Option<u16>)>,
}

/// The other sides of the packets that a rule is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Peers {
    /// Anybody.
    Any,
    /// Pods of that label.
    App(App),
    /// Pods of the namespace.
    Namespace,
    /// Whoever is outside of the cluster.
    World,
    /// Addresses of a network.
    Net {
        /// The network.
        net: &'static str,
        /// A part of it that is not meant.
        except: Option<&'static str>,
    },
}

/// A policy for the pods of one label, or for all.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// None if a denial of it wins whatever comes first.
    rank: Option<Rank>,
    subject: Option<App>,
    clauses: Vec<Clause>,
}

impl Clause {
    /// A rule; a port is a protocol, a port, and the last one if it is a range.
    pub fn new(way: Way, says: Says, peers: Peers, port: Option<(u8, u16, Option<u16>)>) -> Self {
        Self { way, says, peers, port }
    }

    fn draw(random: &mut Random) -> Self {
        let way = random.one_of(&[Way::In, Way::In, Way::Out]);
        let peers = match random.roll(9) {
            0..=3 => Peers::App(random.one_of(&App::NAMED)),
            4 => Peers::Namespace,
            5 => Peers::World,
            6 => Peers::Any,
            _ => random.one_of(&[
                Peers::Net { net: "192.0.2.0/24", except: None },
                Peers::Net { net: "192.0.2.0/24", except: Some("192.0.2.128/25") },
                Peers::Net { net: "192.0.2.0/25", except: None },
                Peers::Net { net: "198.51.100.0/24", except: None },
                Peers::Net { net: "2001:db8::/32", except: None },
            ]),
        };
        let port = random.one_of(&[
            None,
            Some((6, 80, None)),
            Some((6, 80, Some(81))),
            Some((17, 53, None)),
        ]);
        // A rule that says neither with whom nor what is about nothing.
        let port = if peers == Peers::Any { port.or(Some((6, 80, None))) } else { port };
        let says = if random.roll(4) == 0 { Says::Deny } else { Says::Allow };
        Self { way, says, peers, port }
    }

    /// A rule of a tier that has an order.
    fn draw_ranked(random: &mut Random) -> Self {
        let way = random.one_of(&[Way::In, Way::Out]);
        let peers = match random.roll(8) {
            0..=3 => Peers::App(random.one_of(&App::NAMED)),
            4 | 5 => Peers::Namespace,
            _ if way == Way::In => Peers::Namespace,
            6 => Peers::Any,
            _ => {
                let net = random.one_of(&["192.0.2.0/24", "192.0.2.0/25", "2001:db8::/32"]);
                Peers::Net { net, except: None }
            }
        };
        let port = random.one_of(&[
            None,
            None,
            Some((6, 80, None)),
            Some((6, 80, Some(81))),
            Some((17, 53, None)),
        ]);
        let says = random.one_of(&[Says::Allow, Says::Deny, Says::Pass]);
        Self { way, says, peers, port }
    }

    /// As the definition of ClusterNetworkPolicy has it.
    fn ranked_value(&self) -> Value {
        let action = match self.says {
            Says::Allow => "Accept",
            Says::Deny => "Deny",
            Says::Pass => "Pass",
        };
        let peer = match &self.peers {
            Peers::Any | Peers::World => json!({ "networks": ["0.0.0.0/0", "::/0"] }),
            Peers::App(app) => json!({ "pods": {
                "namespaceSelector": {}, "podSelector": { "matchLabels": { "app": app.name() } },
            } }),
            Peers::Namespace => json!({ "namespaces": {} }),
            Peers::Net { net, .. } => json!({ "networks": [net] }),
        };
        let side = if self.way == Way::Out { "to" } else { "from" };
        let mut value = json!({ "action": action, side: [peer] });
        if let Some((protocol, port, end)) = self.port {
            let name = if protocol == 6 { "tcp" } else { "udp" };
            let port = match end {
                None => json!({ "number": port }),
                Some(end) => json!({ "range": { "start": port, "end": end } }),
            };
            value["protocols"] = json!([{ name: { "destinationPort": port } }]);
        }
        value
    }

    fn meets(&self, way: Way, peer: Peer, probe: (u8, u16)) -> bool {
        let port = self.port.is_none_or(|(protocol, first, end)| {
            protocol == probe.0 && (first..=end.unwrap_or(first)).contains(&probe.1)
        });
        let holds = |net: &str, place: usize| {
            let net: ipnet::IpNet = net.parse().expect("a prefix");
            net.contains(&OUTSIDE[place].parse::<IpAddr>().expect("an address"))
        };
        let peers = match (&self.peers, peer) {
            (Peers::Any, _) => true,
            (Peers::App(app), Peer::Pod(other)) => *app == other,
            (Peers::Namespace, Peer::Pod(_)) => true,
            (Peers::World, Peer::Unknown | Peer::Outside(_)) => true,
            (Peers::Net { net, except }, Peer::Outside(place)) => {
                holds(net, place) && !except.is_some_and(|except| holds(except, place))
            }
            _ => false,
        };
        self.way == way && port && peers
    }

    fn value(&self) -> Value {
        let side = if self.way == Way::Out { "to" } else { "from" };
        let mut value = json!({});
        let peers = match &self.peers {
            Peers::Any => None,
            Peers::App(app) => {
                Some(("Endpoints", json!([{ "matchLabels": { "app": app.name() } }])))
            }
            Peers::Namespace => Some(("Endpoints", json!([{}]))),
            Peers::World => Some(("Entities", json!(["world"]))),
            Peers::Net { net, except } => Some((
                "CIDRSet",
                json!([{ "cidr": net, "except": except.iter().collect::<Vec<_>>() }]),
            )),
        };
        if let Some((field, list)) = peers {
            value[format!("{side}{field}")] = list;
        }
        if let Some((protocol, port, end)) = self.port {
            let protocol = if protocol == 6 { "TCP" } else { "UDP" };
            let mut port = json!({ "port": port.to_string(), "protocol": protocol });
            if let Some(end) = end {
                port["endPort"] = json!(end);
            }
            value["toPorts"] = json!([{ "ports": [port] }]);
        }
        value
    }
}

impl Policy {
    /// A policy at random.
    pub fn draw(random: &mut Random) -> Self {
        let subject = random.one_of(&[None, Some(App::Web), Some(App::Db), Some(App::Mail)]);
        let clauses = (0..=random.roll(3)).map(|_| Clause::draw(random)).collect();
        Self { rank: None, subject, clauses }
    }

    /// A policy of a tier that has an order, at random. Priorities are few, so that some are equal.
    pub fn draw_ranked(random: &mut Random) -> Self {
        let rank =
            Rank { is_baseline: random.roll(3) == 0, priority: random.one_of(&[0, 7, 7, 1000]) };
        let subject = random.one_of(&[None, None, Some(App::Web), Some(App::Db)]);
        let clauses = (0..=random.roll(3)).map(|_| Clause::draw_ranked(random)).collect();
        Self { rank: Some(rank), subject, clauses }
    }

    /// A policy for the pods of one label, or for all.
    pub fn of(subject: Option<App>, clauses: Vec<Clause>) -> Self {
        Self { rank: None, subject, clauses }
    }

    /// Packets to pods of that label from another are left to the policies without an order, and all others
    /// are dropped.
    pub fn passes_on(subject: App, peer: App) -> Self {
        let clause = |says, peers| Clause { way: Way::In, says, peers, port: None };
        Self {
            rank: Some(Rank { is_baseline: false, priority: 7 }),
            subject: Some(subject),
            clauses: vec![
                clause(Says::Pass, Peers::App(peer)),
                clause(Says::Deny, Peers::Namespace),
            ],
        }
    }

    /// One rule: pods of that label get packets from, or send them to, pods of another.
    pub fn about(subject: App, way: Way, deny: bool, peer: App, port: Option<u16>) -> Self {
        let port = port.map(|port| (6, port, None));
        let says = if deny { Says::Deny } else { Says::Allow };
        let clause = Clause { way, says, peers: Peers::App(peer), port };
        Self { rank: None, subject: Some(subject), clauses: vec![clause] }
    }

    /// One rule: pods of that label get packets from that network.
    pub fn from_net(subject: App, net: &'static str) -> Self {
        let peers = Peers::Net { net, except: None };
        let clause = Clause { way: Way::In, says: Says::Allow, peers, port: None };
        Self { rank: None, subject: Some(subject), clauses: vec![clause] }
    }

    /// The manifest.
    pub fn document(&self, name: &str) -> Value {
        if let Some(rank) = self.rank {
            return self.ranked_document(name, rank);
        }
        let list = |way, deny| {
            let expected =
                self.clauses.iter().filter(|it| it.way == way && (it.says == Says::Deny) == deny);
            expected.map(Clause::value).collect::<Vec<_>>()
        };
        let mut spec = json!({ "endpointSelector": self.subject.map_or(json!({}), |app| {
            json!({ "matchLabels": { "app": app.name() } })
        }) });
        for (field, way, deny) in [
            ("ingress", Way::In, false),
            ("ingressDeny", Way::In, true),
            ("egress", Way::Out, false),
            ("egressDeny", Way::Out, true),
        ] {
            let rules = list(way, deny);
            if !rules.is_empty() {
                spec[field] = json!(rules);
            }
        }
        json!({
            "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": spec,
        })
    }

    fn ranked_document(&self, name: &str, rank: Rank) -> Value {
        let list = |way| {
            let rules = self.clauses.iter().filter(|it| it.way == way);
            rules.map(Clause::ranked_value).collect::<Vec<_>>()
        };
        let subject = match self.subject {
            None => json!({ "namespaces": {} }),
            Some(app) => json!({ "pods": {
                "namespaceSelector": {}, "podSelector": { "matchLabels": { "app": app.name() } },
            } }),
        };
        json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
            "metadata": { "name": name },
            "spec": {
                "tier": if rank.is_baseline { "Baseline" } else { "Admin" },
                "priority": rank.priority, "subject": subject,
                "ingress": list(Way::In), "egress": list(Way::Out),
            },
        })
    }

    fn is_for(&self, app: App) -> bool {
        self.subject.is_none_or(|subject| subject == app)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Rank { is_baseline, priority }) = self.rank {
            let tier = if is_baseline { "baseline" } else { "admin" };
            write!(f, "{tier} {priority}, ")?;
        }
        write!(f, "{}:", self.subject.map_or("all pods", App::name))?;
        for Clause { way, says, peers, port } in &self.clauses {
            let what = match says {
                Says::Allow => "allow",
                Says::Deny => "deny",
                Says::Pass => "pass on",
            };
            let side = if *way == Way::Out { "to" } else { "from" };
            let peers = match peers {
                Peers::Any => "anybody".to_owned(),
                Peers::App(app) => app.name().to_owned(),
                Peers::Namespace => "the namespace".to_owned(),
                Peers::World => "the world".to_owned(),
                Peers::Net { net, except: None } => (*net).to_owned(),
                Peers::Net { net, except: Some(except) } => format!("{net} without {except}"),
            };
            write!(f, " {what} {side} {peers}")?;
            match port {
                None => {}
                Some((protocol, port, None)) => write!(f, " {protocol}/{port}")?,
                Some((protocol, port, Some(end))) => write!(f, " {protocol}/{port}-{end}")?,
            }
            f.write_str(";")?;
        }
        Ok(())
    }
}

/// Which probes pass between a pod of that label and a peer. Of policies with one rank the first is asked
/// first: they come in the order of their names.
pub fn passes<'a>(
    policies: impl Iterator<Item = &'a Policy> + Clone,
    way: Way,
    app: App,
    peer: Peer,
) -> u8 {
    let mine: Vec<&Policy> = policies.filter(|policy| policy.is_for(app)).collect();
    let plain = mine.iter().filter(|it| it.rank.is_none()).flat_map(|it| &it.clauses);
    let enforced = plain.clone().any(|clause| clause.way == way);
    let mut ranked: Vec<&Policy> = mine.iter().copied().filter(|it| it.rank.is_some()).collect();
    ranked.sort_by_key(|policy| policy.rank);
    let first = |baseline: bool, probe: (u8, u16)| {
        let tier = ranked
            .iter()
            .filter(|it| it.rank.is_some_and(|rank| rank.is_baseline == baseline))
            .flat_map(|it| &it.clauses);
        let mut about = tier.filter(|clause| clause.meets(way, peer, probe));
        about.next().map(|clause| clause.says)
    };
    let verdict = |probe: (u8, u16)| {
        match first(false, probe) {
            Some(Says::Allow) => return true,
            Some(Says::Deny) => return false,
            Some(Says::Pass) | None => {}
        }
        let mut about = plain.clone().filter(|clause| clause.meets(way, peer, probe));
        if about.clone().any(|clause| clause.says == Says::Deny) {
            return false;
        }
        if enforced || about.clone().next().is_some() {
            return about.any(|clause| clause.says == Says::Allow);
        }
        first(true, probe) != Some(Says::Deny)
    };
    let bits = PROBES.iter().enumerate().filter(|(_, probe)| verdict(**probe));
    bits.fold(0, |mask, (place, _)| mask | 1 << place)
}
