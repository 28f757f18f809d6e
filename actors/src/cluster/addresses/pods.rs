//! Addresses of pods, as CiliumEndpoints say whose they are.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use serde_json::Value;

use crate::{
    cluster::kvstore::{Owner, read_ports},
    model::{ApiObject, ClusterId, IdentityId, Labels, NamedPorts, SharedPorts, Tunnel},
    ports::ObjectKey,
};

/// What CiliumEndpoints of other nodes say.
#[derive(Debug, Default)]
pub(crate) struct PodAddresses {
    said: BTreeMap<ObjectKey, BTreeSet<IpNet>>,
    /// Who has an address, the last one to say so at the end: a pod may get one before the endpoint
    /// of the pod that had it is removed.
    claims: BTreeMap<IpNet, Vec<(ObjectKey, Owner)>>,
    /// Sets of labels, each once: many pods have the same.
    labels: BTreeSet<Arc<Labels>>,
}

impl PodAddresses {
    /// An object of that cluster is so now, or is gone: what that makes of addresses. Those of `own`
    /// are not heeded.
    pub(crate) fn take(
        &mut self,
        key: ObjectKey,
        object: Option<ApiObject>,
        own: IpAddr,
        cluster: ClusterId,
        shared: &mut SharedPorts,
    ) -> Vec<(IpNet, Option<Owner>)> {
        let value = object.map(ApiObject::into_json);
        let named_ports = value.as_ref().and_then(|value| shared.share(ports(&key, value)));
        let said = value.as_ref().and_then(|value| match read(value, own, cluster) {
            Ok(said) => said,
            Err(cause) => {
                tracing::warn!(
                    name = %key,
                    cause,
                    "CiliumEndpoint does not say whose addresses are; its node writes it again if \
                     it is removed"
                );
                None
            }
        });
        let before = self.said.remove(&key).unwrap_or_default();
        for prefix in &before {
            if let Some(claims) = self.claims.get_mut(prefix) {
                claims.retain(|(other, _)| *other != key);
                if claims.is_empty() {
                    self.claims.remove(prefix);
                }
            }
        }
        let mut changed = before;
        if let Some(RemotePod { identity, labels, node, prefixes }) = said {
            let tunnel = Tunnel::to(node);
            let labels = labels.map(|labels| self.share(labels));
            let owner = Owner { identity, labels, named_ports, tunnel };
            for prefix in &prefixes {
                self.claims.entry(*prefix).or_default().push((key.clone(), owner.clone()));
            }
            changed.extend(&prefixes);
            self.said.insert(key, prefixes);
        }
        let now = |prefix: IpNet| {
            let last = self.claims.get(&prefix).and_then(|claims| claims.last());
            (prefix, last.map(|(_, owner)| owner.clone()))
        };
        changed.into_iter().map(now).collect()
    }

    fn share(&mut self, labels: Labels) -> Arc<Labels> {
        if let Some(known) = self.labels.get(&labels) {
            return Arc::clone(known);
        }
        // Those that no pod has any more go when there is a new one.
        self.labels.retain(|known| Arc::strong_count(known) > 1);
        let labels = Arc::new(labels);
        self.labels.insert(Arc::clone(&labels));
        labels
    }
}

/// Names of a pod's ports; none if they cannot be read.
fn ports(key: &ObjectKey, value: &Value) -> NamedPorts {
    let listed = &value["status"]["named-ports"];
    read_ports(listed, ["name", "port", "protocol"]).unwrap_or_else(|cause| {
        tracing::warn!(name = %key, cause, "ports of a CiliumEndpoint are not known by their names");
        NamedPorts::new()
    })
}

/// What an object says of a pod of another node.
struct RemotePod {
    identity: IdentityId,
    /// None if it does not say them, or not so that they can be read.
    labels: Option<Labels>,
    node: IpAddr,
    prefixes: BTreeSet<IpNet>,
}

/// Addresses of another node's pod and its identity; none if it is this node's, or is only being
/// made.
fn read(value: &Value, own: IpAddr, cluster: ClusterId) -> Result<Option<RemotePod>, String> {
    let (networking, identity) = (&value["status"]["networking"], &value["status"]["identity"]);
    if networking.is_null() || identity.is_null() {
        return Ok(None);
    }
    let node = networking["node"].as_str().unwrap_or_default();
    let node: IpAddr = node.parse().map_err(|_| format!("its node {node:?} is no address"))?;
    if node == own {
        return Ok(None);
    }
    let id = identity["id"].as_u64().and_then(|id| u32::try_from(id).ok()).map(IdentityId);
    let id = id
        .filter(|id| *id != IdentityId::UNKNOWN && (id.is_reserved() || cluster.hands_out(*id)))
        .ok_or_else(|| format!("its identity {} is none of this cluster", identity["id"]))?;
    let mut prefixes = BTreeSet::new();
    for pair in networking["addressing"].as_array().into_iter().flatten() {
        for address in [&pair["ipv4"], &pair["ipv6"]].into_iter().filter_map(Value::as_str) {
            let ip: IpAddr =
                address.parse().map_err(|_| format!("{address:?} is no address of a pod"))?;
            prefixes.insert(IpNet::from(ip));
        }
    }
    let texts = identity["labels"].as_array();
    let labels = texts.and_then(|all| {
        let texts: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
        Labels::parse(texts?).ok().filter(|labels| !labels.is_empty())
    });
    Ok(Some(RemotePod { identity: id, labels, node, prefixes }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn endpoint(node: &str, id: Value, ips: &[&str]) -> Value {
        let addressing: Vec<_> = ips.iter().map(|ip| json!({ "ipv4": ip })).collect();
        let networking = json!({ "node": node, "addressing": addressing });
        json!({ "status": { "identity": { "id": id }, "networking": networking } })
    }

    fn take(
        all: &mut PodAddresses,
        name: &str,
        value: Option<Value>,
    ) -> Vec<(String, Option<u32>)> {
        let key = ObjectKey { namespace: "ns".to_owned(), name: name.to_owned() };
        let (own, mut shared) = ("192.0.2.1".parse().unwrap(), SharedPorts::default());
        let taken =
            all.take(key, value.map(Into::into), own, ClusterId(0), &mut shared).into_iter();
        taken.map(|(prefix, owner)| (prefix.to_string(), owner.map(|it| it.identity.0))).collect()
    }

    #[test]
    fn an_address_is_the_one_s_who_said_so_last() {
        let mut all = PodAddresses::default();
        let said = |id: u32| Some(endpoint("192.0.2.7", json!(id), &["10.9.0.1"]));
        let row = |id| vec![("10.9.0.1/32".to_owned(), id)];
        assert_eq!(take(&mut all, "old", said(300)), row(Some(300)));
        assert_eq!(take(&mut all, "new", said(400)), row(Some(400)));
        assert_eq!(take(&mut all, "old", None), row(Some(400)));
        let moved = endpoint("192.0.2.7", json!(400), &["10.9.0.2"]);
        let both = vec![("10.9.0.1/32".to_owned(), None), ("10.9.0.2/32".to_owned(), Some(400))];
        assert_eq!(take(&mut all, "new", Some(moved)), both);
        assert_eq!(take(&mut all, "new", None), [("10.9.0.2/32".to_owned(), None)]);
        assert!(all.claims.is_empty() && all.said.is_empty());
    }

    #[test]
    fn what_says_nothing_takes_back_what_was_said() {
        for rubbish in [
            endpoint("192.0.2.7", json!(0), &["10.9.0.1"]),
            endpoint("192.0.2.7", json!(70_000), &["10.9.0.1"]),
            endpoint("192.0.2.7", json!("x"), &["10.9.0.1"]),
            endpoint("192.0.2.7", json!(300), &["10.9.0"]),
            endpoint("there", json!(300), &["10.9.0.1"]),
            endpoint("192.0.2.1", json!(300), &["10.9.0.1"]),
            json!({ "status": {} }),
            json!(7),
        ] {
            let mut all = PodAddresses::default();
            assert_eq!(take(&mut all, "pod", Some(rubbish.clone())), [], "{rubbish}");
            let good = endpoint("192.0.2.7", json!(4), &["10.9.0.1"]);
            assert_eq!(take(&mut all, "pod", Some(good)), [("10.9.0.1/32".to_owned(), Some(4))]);
            assert_eq!(take(&mut all, "pod", Some(rubbish)), [("10.9.0.1/32".to_owned(), None)]);
        }
    }
}
