//! Reserved and well-known identities, and the labels of prefixes.

use ipnet::IpNet;

use crate::model::{Families, IdentityId, Label, Labels};

/// Reserved identities: their number and their names.
const RESERVED: &[(u32, &[&str])] = &[
    (1, &["host"]),
    (2, &["world"]),
    (3, &["unmanaged"]),
    (4, &["health"]),
    (5, &["init"]),
    (6, &["remote-node"]),
    (7, &["kube-apiserver", "remote-node"]),
    (8, &["ingress"]),
    (9, &["world-ipv4"]),
    (10, &["world-ipv6"]),
];

/// Key of the cluster's name.
pub(crate) const CLUSTER: &str = "io.cilium.k8s.policy.cluster";
/// Key of the service account's name.
const ACCOUNT: &str = "io.cilium.k8s.policy.serviceaccount";
/// Key of the pod's namespace.
pub(crate) const NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Key of the namespace's own name label.
const NAMESPACE_NAME: &str = "io.cilium.k8s.namespace.labels.kubernetes.io/metadata.name";

/// Every reserved identity with its labels, by number.
pub fn identities() -> impl Iterator<Item = (IdentityId, Labels)> {
    RESERVED.iter().map(|(id, names)| {
        (IdentityId(*id), names.iter().map(|name| Label::new("reserved", *name, "")).collect())
    })
}

/// Name of a reserved identity: what stands in tables for its number.
pub fn name(id: IdentityId) -> Option<&'static str> {
    RESERVED.iter().find(|(number, _)| *number == id.0).map(|(_, names)| names[0])
}

/// Number of a reserved identity by its name.
pub fn by_name(name: &str) -> Option<IdentityId> {
    RESERVED.iter().find(|(_, names)| names[0] == name).map(|(number, _)| IdentityId(*number))
}

/// Where Cilium's operator lives, by whose labels it is well known. Who numbers identities and who
/// selects them by policy must mean the same.
pub const OPERATOR_NAMESPACE: &str = "kube-system";

/// Well-known identities: numbers that DNS and the operator have in every cluster, so that they can
/// be reached before numbers are allocated. `operator_namespace` is where Cilium's operator lives.
pub fn well_known(cluster: &str, operator_namespace: &str) -> Vec<(IdentityId, Labels)> {
    let dns = |id, account: &str, named: bool, eks: Option<&str>| {
        let mut labels = pod(cluster, account, "kube-system", named);
        labels.insert(Label::new("k8s", "k8s-app", "kube-dns"));
        if let Some(component) = eks {
            labels.insert(Label::new("k8s", "eks.amazonaws.com/component", component));
        }
        (IdentityId(id), labels)
    };
    let operator = |id, named: bool| {
        let mut labels = pod(cluster, "cilium-operator", operator_namespace, named);
        for (key, value) in [
            ("name", "cilium-operator"),
            ("io.cilium/app", "operator"),
            ("app.kubernetes.io/part-of", "cilium"),
            ("app.kubernetes.io/name", "cilium-operator"),
        ] {
            labels.insert(Label::new("k8s", key, value));
        }
        (IdentityId(id), labels)
    };
    vec![
        dns(102, "kube-dns", false, None),
        dns(103, "kube-dns", false, Some("kube-dns")),
        dns(104, "coredns", false, None),
        operator(105, false),
        dns(106, "coredns", false, Some("coredns")),
        dns(110, "kube-dns", true, None),
        dns(111, "kube-dns", true, Some("kube-dns")),
        dns(112, "coredns", true, None),
        operator(113, true),
        dns(114, "coredns", true, Some("coredns")),
    ]
}

/// Labels of a prefix outside the cluster: the prefix itself, and the world that it is part of.
pub fn prefix_labels(net: &IpNet, families: Families) -> Labels {
    let world = families.world(net.addr().is_ipv4()).and_then(name).unwrap_or("world");
    [Label::new("cidr", prefix_key(net), ""), Label::new("reserved", world, "")]
        .into_iter()
        .collect()
}

/// A prefix as a label's key: colons, which a selector's key cannot have, are hyphens, and neither
/// end is one.
fn prefix_key(net: &IpNet) -> String {
    let address = net.network().to_string().replace(':', "-");
    let start = if address.starts_with('-') { "0" } else { "" };
    let end = if address.ends_with('-') { "0" } else { "" };
    format!("{start}{address}{end}/{}", net.prefix_len())
}

fn pod(cluster: &str, account: &str, namespace: &str, named: bool) -> Labels {
    let mut labels: Labels = [(CLUSTER, cluster), (ACCOUNT, account), (NAMESPACE, namespace)]
        .into_iter()
        .map(|(key, value)| Label::new("k8s", key, value))
        .collect();
    if named {
        labels.insert(Label::new("k8s", NAMESPACE_NAME, namespace));
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree_with_the_constants() {
        for (id, expected) in [
            (IdentityId::HOST, "host"),
            (IdentityId::WORLD, "world"),
            (IdentityId::INIT, "init"),
            (IdentityId::KUBE_APISERVER, "kube-apiserver"),
            (IdentityId::WORLD_IPV6, "world-ipv6"),
        ] {
            assert_eq!(name(id), Some(expected));
            assert_eq!(by_name(expected), Some(id));
        }
        assert_eq!(name(IdentityId(256)), None);
        let (_, labels) = identities().find(|(id, _)| *id == IdentityId::KUBE_APISERVER).unwrap();
        assert_eq!(labels.to_texts(), ["reserved:kube-apiserver", "reserved:remote-node"]);
    }

    #[test]
    fn well_known_identities_carry_the_cluster_and_are_distinct() {
        let known = well_known("east", "kube-system");
        let texts: std::collections::BTreeSet<String> =
            known.iter().map(|(_, labels)| labels.sorted_text()).collect();
        assert_eq!(texts.len(), known.len());
        assert_eq!(
            known[0].1.to_texts(),
            [
                "k8s:io.cilium.k8s.policy.cluster=east",
                "k8s:io.cilium.k8s.policy.serviceaccount=kube-dns",
                "k8s:io.kubernetes.pod.namespace=kube-system",
                "k8s:k8s-app=kube-dns",
            ]
        );
    }

    #[test]
    fn prefixes_are_labels_of_their_world() {
        let labels =
            |net: &str, families| prefix_labels(&net.parse().unwrap(), families).to_texts();
        let single = Families { ipv4: true, ipv6: false };
        assert_eq!(labels("192.168.77.0/24", single), ["cidr:192.168.77.0/24", "reserved:world"]);
        assert_eq!(labels("fd00::/8", Families::DUAL), ["cidr:fd00--0/8", "reserved:world-ipv6"]);
        assert_eq!(labels("::1/128", Families::DUAL)[0], "cidr:0--1/128");
    }
}
