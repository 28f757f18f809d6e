//! What the Node and the CiliumNode are to say.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use serde_json::{Map, Value, json};

use super::{
    PublishSettings,
    difference::{differing, lacking},
    item::Item,
};
use crate::{
    model::Addresses,
    node::local_node::IpamMode,
    ports::{ObjectWrite, Verb},
};

/// What an object is to say, and how it comes to say so.
pub(super) struct DesiredNodeObject {
    /// What it is to say, without when.
    pub(super) what: Value,
    /// What stands there instead.
    pub(super) there: Value,
    pub(super) verb: Verb,
}

/// Annotations that the Node lacks.
pub(super) fn annotations(settings: &PublishSettings, node: &Node) -> Option<DesiredNodeObject> {
    let named = [
        ("network.cilium.io/ipv4-pod-cidr", settings.pools.ipv4.map(|it| it.to_string())),
        ("network.cilium.io/ipv6-pod-cidr", settings.pools.ipv6.map(|it| it.to_string())),
        ("network.cilium.io/ipv4-cilium-host", settings.router.ipv4.map(|it| it.to_string())),
        ("network.cilium.io/ipv6-cilium-host", settings.router.ipv6.map(|it| it.to_string())),
    ];
    let named = named.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into())));
    let what = Value::Object(named.collect());
    let there = json!(node.metadata.annotations);
    let patch = lacking(&there, &what)?;
    Some(DesiredNodeObject {
        what,
        there,
        verb: Verb::Status(json!({ "metadata": { "annotations": patch } })),
    })
}

/// The condition that the Node lacks, as Cilium words it.
pub(super) fn condition(node: &Node, now: &str) -> Option<DesiredNodeObject> {
    let there = network_condition(node);
    (!says_up(there)).then(|| DesiredNodeObject {
        what: is_up(),
        there: json!(there),
        verb: Verb::Status(json!({ "status": { "conditions": [is_up_since(now)] } })),
    })
}

/// The condition that says of the network whether it is up, and what it says then.
const CONDITION: &str = "NetworkUnavailable";
const IS_UP: (&str, &str) = ("False", "CiliumIsUp");

fn is_up() -> Value {
    let (status, reason) = IS_UP;
    json!({
        "type": CONDITION, "status": status, "reason": reason,
        "message": "Cilium is running on this node",
    })
}

/// The condition of a Node whose network is up, with when that is said.
pub(crate) fn is_up_since(now: &str) -> Value {
    let mut condition = is_up();
    condition["lastHeartbeatTime"] = now.into();
    condition["lastTransitionTime"] = now.into();
    condition
}

/// What a Node says of its network.
pub(crate) fn network_condition(node: &Node) -> Option<&NodeCondition> {
    let mut conditions = node.status.as_ref()?.conditions.as_ref()?.iter();
    conditions.find(|condition| condition.type_ == CONDITION)
}

/// Whether that condition says that the network is up.
pub(crate) fn says_up(condition: Option<&NodeCondition>) -> bool {
    let said = condition.map(|it| (it.status.as_str(), it.reason.as_deref().unwrap_or_default()));
    said == Some(IS_UP)
}

/// The Node's taints without that one, if it has it. Whoever changed them meanwhile is not undone.
pub(super) fn taint(node: &Node, key: &str) -> Option<DesiredNodeObject> {
    let taints = node.spec.as_ref()?.taints.as_ref()?;
    let retained: Vec<_> = taints.iter().filter(|taint| taint.key != key).collect();
    if retained.len() == taints.len() {
        return None;
    }
    let what = json!(retained);
    let path = "/spec/taints";
    let verb = Verb::Patch(json!([
        { "op": "test", "path": path, "value": taints },
        { "op": "replace", "path": path, "value": what },
    ]));
    Some(DesiredNodeObject { what, there: json!(taints), verb })
}

/// The CiliumNode of a node that has none, for who needs it there before there are actors.
pub fn new_cilium_node(settings: &PublishSettings, node: &Node) -> ObjectWrite {
    let (resource, key) = Item::CiliumNode.place(&settings.node_name);
    ObjectWrite { resource, key, verb: Verb::Create(cilium_node_of(settings, node)) }
}

/// What the CiliumNode is to say.
fn cilium_node_of(settings: &PublishSettings, node: &Node) -> Value {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let mut spec = json!({ "addresses": addresses(settings, node), "bootid": settings.boot_id });
    if let Some(health) = settings.health.filter(|it| it.iter().next().is_some()) {
        spec[HEALTH] = by_family(health);
    }
    // Of a pool of the cluster its operator gives each node its part.
    if !matches!(settings.ipam, Some(IpamMode::ClusterPool | IpamMode::MultiPool)) {
        let (ipv4, ipv6) = (settings.pools.ipv4, settings.pools.ipv6);
        let ipv4 = ipv4.map(|prefix| prefix.to_string());
        let ipv6 = ipv6.map(|prefix| prefix.to_string());
        spec["ipam"] = json!({ "podCIDRs": ipv4.into_iter().chain(ipv6).collect::<Vec<_>>() });
    }
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNode",
        "metadata": {
            "name": settings.node_name, "labels": labels,
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node",
                "name": settings.node_name, "uid": node.metadata.uid,
            }],
        },
        "spec": spec,
    })
}

/// What is wrong with the CiliumNode. It is its Node's: with that it goes, and is made again for
/// another one of the name.
pub(super) fn cilium_node(
    settings: &PublishSettings,
    node: &Node,
    there: Option<&Value>,
) -> Option<DesiredNodeObject> {
    let what = cilium_node_of(settings, node);
    let Some(there) = there else {
        return Some(DesiredNodeObject {
            verb: Verb::Create(what.clone()),
            what,
            there: Value::Null,
        });
    };
    let mut patch = Map::new();
    let had = &there["metadata"];
    let had_labels = had.get("labels").cloned().unwrap_or_else(|| json!({}));
    let mut metadata = Map::new();
    if let Some(labels) = differing(&had_labels, &what["metadata"]["labels"]) {
        metadata.insert("labels".to_owned(), labels);
    }
    let owner = &what["metadata"]["ownerReferences"];
    if had["ownerReferences"] != *owner {
        metadata.insert("ownerReferences".to_owned(), owner.clone());
    }
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    let mut spec = lacking(&there["spec"], &what["spec"]);
    // Nobody is to be asked where nobody is; an address of a family that is off goes, too.
    let had = there["spec"].get(HEALTH).filter(|had| !had.is_null());
    let stale = match (settings.health, had) {
        (None, Some(_)) => Some(Value::Null),
        (Some(_), Some(had)) => what["spec"].get(HEALTH).and_then(|it| differing(had, it)),
        (_, None) => None,
    };
    if let Some(stale) = stale {
        spec.get_or_insert_with(|| json!({}))[HEALTH] = stale;
    }
    if let Some(spec) = spec {
        patch.insert("spec".to_owned(), spec);
    }
    let verb = Verb::Merge(Value::Object(patch.clone()));
    (!patch.is_empty()).then(|| DesiredNodeObject { what, there: there.clone(), verb })
}

/// Where a CiliumNode says where its node's health endpoint is.
const HEALTH: &str = "health";

/// Addresses as a CiliumNode has them.
fn by_family(addresses: Addresses) -> Value {
    let named = addresses.iter().map(|it| (if it.is_ipv4() { "ipv4" } else { "ipv6" }, it));
    named.map(|(family, it)| (family.to_owned(), json!(it))).collect::<Map<_, _>>().into()
}

/// The node's addresses: those that its Node has, and the one that its pods route through.
fn addresses(settings: &PublishSettings, node: &Node) -> Vec<Value> {
    let known = node.status.iter().filter_map(|status| status.addresses.as_ref()).flatten();
    let known = known.filter_map(|address| {
        let kind = address.type_.as_str();
        let ip: IpAddr = address.address.parse().ok()?;
        matches!(kind, "InternalIP" | "ExternalIP").then_some((kind, ip))
    });
    let mut all: Vec<(&str, IpAddr)> = known.collect();
    if all.is_empty() {
        all.push(("InternalIP", settings.address));
    }
    all.extend(settings.router.iter().map(|ip| ("CiliumInternalIP", ip)));
    all.into_iter().map(|(kind, ip)| json!({ "type": kind, "ip": ip })).collect()
}
