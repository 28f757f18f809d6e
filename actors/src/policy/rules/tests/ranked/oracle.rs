//! What becomes of a packet, straight from the objects: without rules, rows, cells or selectors.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use serde_json::Value;

use super::{
    super::world::{NAMED, Other, PODS},
    RankedPacket,
};

/// What becomes of a packet, and why.
pub(super) struct Judgement {
    pub(super) passes: bool,
    /// Policy and path of the rule of a tier with an order, if one decided.
    pub(super) by: Option<String>,
    /// 0 Admin, 1 NetworkPolicy and Cilium's, 2 Baseline, 3 nobody.
    pub(super) tier: usize,
    /// Policy and path of the rule of Admin that passed it on, if one did.
    pub(super) passed_on: Option<String>,
}

/// The pod that is asked about.
const SUBJECT: Side<'static> = Side { app: "web", namespace: "default" };

#[derive(Clone, Copy)]
struct Side<'a> {
    app: &'a str,
    namespace: &'a str,
}

/// Asks one tier after the other.
pub(super) fn judge(documents: &[Value], packet: RankedPacket) -> Judgement {
    let kind = |name: &'static str| documents.iter().filter(move |it| it["kind"] == name);
    // What the node itself sends to a pod is no matter of these policies.
    let is_host = !packet.egress && packet.other == Other::Identity(1);
    let ordered = |tier: &str| {
        let mut policies: Vec<_> =
            kind("ClusterNetworkPolicy").filter(|it| it["spec"]["tier"] == tier).collect();
        policies.sort_by_key(|it| {
            (it["spec"]["priority"].as_u64().unwrap(), it["metadata"]["name"].to_string())
        });
        policies.into_iter().filter(|_| !is_host).find_map(|policy| first_of(policy, packet))
    };
    let passed_on = match ordered("Admin") {
        Some((Some(passes), by)) => {
            return Judgement { passes, by: Some(by), tier: 0, passed_on: None };
        }
        Some((None, by)) => Some(by),
        None => None,
    };
    if let Some(passes) = unordered(documents, packet) {
        return Judgement { passes, by: None, tier: 1, passed_on };
    }
    match ordered("Baseline") {
        Some((Some(passes), by)) => Judgement { passes, by: Some(by), tier: 2, passed_on },
        Some((None, _)) | None => Judgement { passes: true, by: None, tier: 3, passed_on },
    }
}

/// The first rule of a policy that is about the packet: what it says (nothing if it passes on), and its
/// place.
fn first_of(policy: &Value, packet: RankedPacket) -> Option<(Option<bool>, String)> {
    let spec = &policy["spec"];
    let subject = &spec["subject"];
    let mine = match subject.get("pods") {
        Some(pods) => is_pod(pods, SUBJECT),
        None => is_namespace(&subject["namespaces"], SUBJECT),
    };
    let list = if packet.egress { "egress" } else { "ingress" };
    let rules = spec[list].as_array().filter(|_| mine)?;
    rules.iter().enumerate().find_map(|(place, rule)| {
        let by = format!("{} spec.{list}[{place}]", policy["metadata"]["name"].as_str().unwrap());
        let action = rule["action"].as_str().unwrap();
        let peers = rule[if packet.egress { "to" } else { "from" }].as_array().unwrap();
        let known = ["namespaces", "pods", "nodes", "networks"];
        if !peers.iter().all(|peer| known.iter().any(|way| peer.get(way).is_some())) {
            return (action != "Accept").then_some((Some(false), by));
        }
        let meets = meets_peers(peers, action, packet)
            && rule["protocols"].as_array().is_none_or(|all| meets_protocols(all, packet));
        let says = match action {
            "Accept" => Some(true),
            "Deny" => Some(false),
            _ => None,
        };
        meets.then_some((says, by))
    })
}

fn meets_peers(peers: &[Value], action: &str, packet: RankedPacket) -> bool {
    let networks = || peers.iter().filter_map(|it| it["networks"].as_array()).flatten();
    let whole = |net: &str| networks().any(|it| it == net);
    match (whole("0.0.0.0/0"), whole("::/0")) {
        (true, true) => return true,
        (false, false) => {}
        // Of which family a packet of the cluster is cannot be told: it is denied rather than let in.
        _ if action == "Deny" && is_of_cluster(packet.other) => return true,
        _ => {}
    }
    peers.iter().any(|peer| match packet.other {
        Other::Identity(id) => {
            let pod = PODS.into_iter().find(|pod| pod.0 == id);
            let is_pod = pod.is_some_and(|(_, app, namespace)| {
                let side = Side { app, namespace };
                peer.get("namespaces").is_some_and(|it| is_namespace(it, side))
                    || peer.get("pods").is_some_and(|it| is_pod(it, side))
            });
            is_pod || (peer.get("nodes").is_some() && [1, 6].contains(&id))
        }
        Other::Address(address) => {
            let nets = peer["networks"].as_array().into_iter().flatten();
            nets.filter_map(Value::as_str).any(|net| holds(net, address))
        }
    })
}

fn holds(net: &str, address: IpAddr) -> bool {
    net.parse::<IpNet>().unwrap().contains(&address)
}

fn is_of_cluster(other: Other) -> bool {
    match other {
        Other::Identity(id) => [1, 6].contains(&id) || PODS.iter().any(|pod| pod.0 == id),
        Other::Address(_) => false,
    }
}

fn is_namespace(selector: &Value, side: Side<'_>) -> bool {
    let labels = BTreeMap::from([("team", format!("{}-team", side.namespace))]);
    selects(selector, &labels)
}

fn is_pod(pods: &Value, side: Side<'_>) -> bool {
    is_namespace(&pods["namespaceSelector"], side)
        && selects(&pods["podSelector"], &BTreeMap::from([("app", side.app.to_owned())]))
}

fn selects(selector: &Value, labels: &BTreeMap<&str, String>) -> bool {
    let exact = selector["matchLabels"].as_object().into_iter().flatten();
    let mut tests = selector["matchExpressions"].as_array().into_iter().flatten();
    exact.into_iter().all(|(key, value)| labels.get(key.as_str()).is_some_and(|it| value == it))
        && tests.all(|test| {
            let value = labels.get(test["key"].as_str().unwrap());
            let listed = || {
                test["values"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|it| Some(it.as_str().unwrap()) == value.map(String::as_str))
            };
            match test["operator"].as_str().unwrap() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                other => panic!("{other}"),
            }
        })
}

fn meets_protocols(protocols: &[Value], packet: RankedPacket) -> bool {
    protocols.iter().any(|entry| {
        if let Some(name) = entry["destinationNamedPort"].as_str() {
            let receiver = if packet.egress { packet.other } else { Other::Identity(1000) };
            return NAMED.iter().any(|&(id, its, protocol, port)| {
                (Other::Identity(id), its, protocol, port)
                    == (receiver, name, packet.protocol, packet.port)
            });
        }
        [("tcp", 6), ("udp", 17), ("sctp", 132)].into_iter().any(|(name, number)| {
            let port = &entry[name]["destinationPort"];
            let exact = port["number"].as_u64() == Some(packet.port.into());
            let between = port["range"]["start"].as_u64().is_some_and(|start| {
                (start..=port["range"]["end"].as_u64().unwrap()).contains(&packet.port.into())
            });
            number == packet.protocol && (exact || between)
        })
    })
}

/// What policies without an order say: a denial, an allowance, or a drop as nothing is allowed.
fn unordered(documents: &[Value], packet: RankedPacket) -> Option<bool> {
    let (mut enforced, mut allowed, mut denied) = (false, false, false);
    for document in documents {
        let spec = &document["spec"];
        let list = if packet.egress { "egress" } else { "ingress" };
        if document["kind"] == "NetworkPolicy" {
            let labels = BTreeMap::from([("app", SUBJECT.app.to_owned())]);
            // Without types it is about ingress, and about egress if it has a rule for that.
            let types = spec["policyTypes"].as_array().unwrap();
            let about = match types.is_empty() {
                true => !packet.egress,
                false => {
                    types.contains(&Value::from(if packet.egress { "Egress" } else { "Ingress" }))
                }
            };
            if about && selects(&spec["podSelector"], &labels) {
                enforced = true;
                let rules = spec[list].as_array().into_iter().flatten();
                allowed |= rules.into_iter().any(|rule| meets_rule(rule, packet));
            }
        }
        if document["kind"] == "CiliumClusterwideNetworkPolicy" {
            enforced |= spec["enableDefaultDeny"][list].as_bool().unwrap();
            let meets = |list: &str| {
                let rules = spec[list].as_array().into_iter().flatten();
                rules.into_iter().any(|rule| meets_entity(rule, packet))
            };
            allowed |= meets(list);
            denied |= meets(&format!("{list}Deny"));
        }
    }
    // Kubelet's probes pass unless somebody denies them.
    allowed |= enforced && !packet.egress && packet.other == Other::Identity(1);
    match (denied, allowed, enforced) {
        (true, ..) => Some(false),
        (_, true, _) => Some(true),
        (_, _, true) => Some(false),
        _ => None,
    }
}

fn meets_rule(rule: &Value, packet: RankedPacket) -> bool {
    let peers = rule[if packet.egress { "to" } else { "from" }].as_array();
    let peers = peers.is_none_or(|peers| {
        let Other::Identity(id) = packet.other else { return false };
        let pod = PODS.into_iter().find(|pod| pod.0 == id);
        pod.is_some_and(|(_, app, _)| {
            let labels = BTreeMap::from([("app", app.to_owned())]);
            peers.iter().any(|peer| selects(&peer["podSelector"], &labels))
        })
    });
    let ports = rule["ports"].as_array();
    peers
        && ports.is_none_or(|ports| {
            ports.iter().any(|it| {
                let number = if it["protocol"] == "TCP" { 6 } else { 17 };
                number == packet.protocol && it["port"].as_u64() == Some(packet.port.into())
            })
        })
}

fn meets_entity(rule: &Value, packet: RankedPacket) -> bool {
    let entities = rule[if packet.egress { "toEntities" } else { "fromEntities" }].as_array();
    let peers = match entities.unwrap()[0].as_str().unwrap() {
        "all" => true,
        "host" => packet.other == Other::Identity(1),
        _ => is_of_cluster(packet.other),
    };
    let ports = rule["toPorts"].as_array();
    peers
        && ports.is_none_or(|_| {
            let port = rule["toPorts"][0]["ports"][0]["port"].as_str().unwrap();
            packet.protocol == 6 && port.parse() == Ok(packet.port)
        })
}
