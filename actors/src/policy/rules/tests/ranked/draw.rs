//! Objects and packets at random: few words, so that they meet.

use serde_json::{Value, json};

use super::{super::world::Other, RankedPacket, ranked};

/// Numbers that follow from a seed.
pub(super) struct Draws(u64);

/// Ports close to each other and to the ends of ranges.
const PORTS: [u16; 12] = [1, 2, 3, 8, 53, 79, 80, 81, 82, 443, 8080, 65535];

const NETS: [&str; 9] = [
    "0.0.0.0/0",
    "::/0",
    "192.0.2.0/24",
    "192.0.2.128/25",
    "192.0.2.200/32",
    "192.0.0.0/8",
    "2001:db8::/32",
    "2001:db8:1::/48",
    "198.51.100.0/24",
];

const ADDRESSES: [&str; 6] =
    ["192.0.2.7", "192.0.2.200", "192.99.0.1", "203.0.113.5", "2001:db8::9", "2001:db8:1::9"];

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: usize) -> usize {
        // Marsaglia's xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 20) % end as u64).unwrap()
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Objects of all kinds of policy.
    pub(super) fn documents(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        for number in 0..1 + self.below(3) {
            all.push(self.ranked_policy(&format!("admin-{number}"), "Admin"));
        }
        for number in 0..1 + self.below(3) {
            all.push(self.ranked_policy(&format!("baseline-{number}"), "Baseline"));
        }
        for number in 0..self.below(3) {
            all.push(self.network_policy(number));
        }
        for number in 0..self.below(2) {
            all.push(self.cilium_policy(number));
        }
        all
    }

    fn ranked_policy(&mut self, name: &str, tier: &str) -> Value {
        let priority = self.of(&[0, 1, 1, 10, 500, 1000]);
        let list = |draws: &mut Self, egress| -> Vec<Value> {
            (0..draws.below(4)).map(|_| draws.ranked_rule(egress)).collect()
        };
        let (ingress, egress) = (list(self, false), list(self, true));
        let rules = json!({ "subject": self.subject(), "ingress": ingress, "egress": egress });
        ranked(name, tier, priority, rules)
    }

    fn subject(&mut self) -> Value {
        match self.below(5) {
            0 => json!({ "namespaces": { "matchLabels": { "team": "default-team" } } }),
            1 => json!({ "namespaces": { "matchLabels": { "team": "other-team" } } }),
            2 => json!({ "pods": self.pods() }),
            _ => json!({ "namespaces": {} }),
        }
    }

    fn pods(&mut self) -> Value {
        json!({ "namespaceSelector": self.namespaces(), "podSelector": self.labels() })
    }

    fn namespaces(&mut self) -> Value {
        self.of(&[
            json!({}),
            json!({ "matchLabels": { "team": "default-team" } }),
            json!({ "matchLabels": { "team": "other-team" } }),
            json!({ "matchExpressions": [
                { "key": "team", "operator": "NotIn", "values": ["other-team"] }] }),
            json!({ "matchExpressions": [{ "key": "stage", "operator": "DoesNotExist" }] }),
        ])
    }

    fn labels(&mut self) -> Value {
        self.of(&[
            json!({}),
            json!({ "matchLabels": { "app": "web" } }),
            json!({ "matchLabels": { "app": "db" } }),
            json!({ "matchLabels": { "app": "mail" } }),
            json!({ "matchExpressions": [
                { "key": "app", "operator": "In", "values": ["db", "mail"] }] }),
            json!({ "matchExpressions": [
                { "key": "app", "operator": "NotIn", "values": ["db"] }] }),
            json!({ "matchExpressions": [{ "key": "app", "operator": "Exists" }] }),
        ])
    }

    fn ranked_rule(&mut self, egress: bool) -> Value {
        let mut nameless = false;
        let peers: Vec<Value> = (0..1 + self.below(2))
            .map(|_| match self.below(if egress { 7 } else { 4 }) {
                0 | 1 => json!({ "namespaces": self.namespaces() }),
                2 | 3 => json!({ "pods": self.pods() }),
                4 => {
                    nameless = true;
                    json!({ "nodes": {} })
                }
                _ => {
                    nameless = true;
                    let nets = self.of(&[1, 1, 2]);
                    let nets: Vec<_> = (0..nets).map(|_| self.of(&NETS)).collect();
                    json!({ "networks": nets })
                }
            })
            .collect();
        let action = self.of(&["Accept", "Deny", "Deny", "Pass"]);
        let side = if egress { "to" } else { "from" };
        let mut rule = json!({ "action": action, side: peers });
        if self.chance(70) {
            let protocols = 1 + self.below(2);
            rule["protocols"] = (0..protocols).map(|_| self.protocol(nameless)).collect();
        }
        // What an agent of today does not know: the rule fails closed.
        if self.chance(3) {
            rule[side] = self.of(&[json!([{}]), json!([{ "planets": {} }])]);
        }
        rule
    }

    fn protocol(&mut self, nameless: bool) -> Value {
        if !nameless && self.chance(20) {
            return json!({ "destinationNamedPort": self.of(&["http", "dns", "nobodys"]) });
        }
        let (a, b) = (self.of(&PORTS), self.of(&PORTS));
        let port = match a == b || self.chance(50) {
            true => json!({ "number": a }),
            false => json!({ "range": { "start": a.min(b), "end": a.max(b) } }),
        };
        let protocol = self.of(&["tcp", "tcp", "udp", "sctp"]);
        json!({ protocol: { "destinationPort": port } })
    }

    /// One of Kubernetes' own, for pods of namespace default.
    fn network_policy(&mut self, number: usize) -> Value {
        let subject = self.of(&[json!({}), json!({ "matchLabels": { "app": "web" } })]);
        let mut spec = json!({ "podSelector": subject, "policyTypes": [] });
        for (kind, list, side) in [("Ingress", "ingress", "from"), ("Egress", "egress", "to")] {
            if self.chance(40) {
                spec["policyTypes"].as_array_mut().unwrap().push(json!(kind));
                let mut rule = json!({});
                if self.chance(80) {
                    rule[side] = json!([{ "namespaceSelector": {}, "podSelector": self.labels() }]);
                }
                if self.chance(50) {
                    let protocol = self.of(&["TCP", "UDP"]);
                    rule["ports"] = json!([{ "protocol": protocol, "port": self.of(&PORTS) }]);
                }
                spec[list] = if self.chance(80) { json!([rule]) } else { json!([]) };
            }
        }
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": { "name": format!("np-{number}"), "namespace": "default" },
            "spec": spec,
        })
    }

    /// One of Cilium's, of one allowance or denial, with default deny or without.
    fn cilium_policy(&mut self, number: usize) -> Value {
        let egress = self.chance(50);
        let (list, side) = if egress { ("egress", "to") } else { ("ingress", "from") };
        let list = if self.chance(40) { format!("{list}Deny") } else { list.to_owned() };
        let mut rule = json!({});
        let entity = self.of(&["all", "cluster", "host"]);
        rule[format!("{side}Entities")] = json!([entity]);
        if self.chance(50) {
            let port = self.of(&PORTS).to_string();
            rule["toPorts"] = json!([{ "ports": [{ "port": port, "protocol": "TCP" }] }]);
        }
        let enforced = self.chance(50);
        json!({
            "apiVersion": "cilium.io/v2", "kind": "CiliumClusterwideNetworkPolicy",
            "metadata": { "name": format!("ccnp-{number}") },
            "spec": {
                "endpointSelector": { "matchLabels": { "app": "web" } },
                "enableDefaultDeny": { "ingress": enforced && !egress, "egress": enforced && egress },
                list: [rule],
            },
        })
    }

    /// A packet, often one that a rule of these names.
    pub(super) fn packet(&mut self, _documents: &[Value]) -> RankedPacket {
        let other = match self.below(10) {
            0 => Other::Identity(self.of(&[1, 6, 4000])),
            1..=3 => Other::Address(self.of(&ADDRESSES).parse().unwrap()),
            _ => Other::Identity(self.of(&[1000, 1001, 1002, 1003, 1004])),
        };
        RankedPacket {
            egress: self.chance(50),
            other,
            protocol: self.of(&[6, 6, 6, 17, 17, 132, 1]),
            port: if self.chance(80) { self.of(&PORTS) } else { self.below(65536) as u16 },
        }
    }
}
