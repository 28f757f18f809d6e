//! How another node of the cluster announces itself and its pods in etcd, as Cilium's agents do.

use std::{collections::BTreeMap, net::Ipv4Addr};

use volvox_actors::cluster::kvstore::{ADDRESSES, IDENTITIES, IDENTITY_USERS, NODES};

use super::store::Pair;

/// Where the other node is.
const HOST: &str = "192.0.2.7";

/// Labels of a pod, as etcd has them: those that it was given, and what every pod has.
pub fn labels(namespace: &str, given: &[(&str, &str)]) -> String {
    let mut all = BTreeMap::from([
        ("io.cilium.k8s.policy.cluster", "default"),
        ("io.cilium.k8s.policy.serviceaccount", "default"),
        ("io.kubernetes.pod.namespace", namespace),
    ]);
    all.extend(given.iter().copied());
    all.iter().map(|(key, value)| format!("k8s:{key}={value};")).collect()
}

/// An identity, and that the other node uses it.
pub fn identity(id: u32, labels: &str) -> [Pair; 2] {
    let user = format!("{IDENTITY_USERS}{labels}/{HOST}");
    [(format!("{IDENTITIES}{id}"), labels.to_owned()), (user, id.to_string())]
}

/// Whose an address is.
pub fn address(ip: Ipv4Addr, id: u32, namespace: &str, pod: &str) -> Pair {
    let value = format!(
        r#"{{"IP":"{ip}","Mask":null,"HostIP":"{HOST}","ID":{id},"Key":0,"Metadata":"cilium-global:default:there:7","K8sNamespace":"{namespace}","K8sPodName":"{pod}"}}"#
    );
    (address_key(ip), value)
}

/// Where a node is.
pub fn node(name: &str, ip: Ipv4Addr) -> Pair {
    let value = format!(
        r#"{{"Name":"{name}","Cluster":"default","IPAddresses":[{{"Type":"InternalIP","IP":"{ip}"}}],"IPv4AllocCIDR":{{"IP":"10.99.0.0","Mask":"//8AAA=="}},"IPv4HealthIP":"","ClusterID":0,"Source":"local","EncryptionKey":0,"Labels":{{}},"NodeIdentity":1,"WireguardPubKey":"","BootID":""}}"#
    );
    (format!("{NODES}default/{name}"), value)
}

/// The key of an address.
pub fn address_key(ip: Ipv4Addr) -> String {
    format!("{ADDRESSES}{ip}")
}
