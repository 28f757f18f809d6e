//! What Cilium's own ConfigMap says to others, or about what this agent does not have.
//!
//! A directory of settings that was written for Cilium is taken as it is. A key that no flag has is
//! another program's, says what this agent does anyway, or belongs to something that it does not
//! have: the last is named, once for each thing.

use std::collections::{BTreeMap, BTreeSet};

/// What a key that is no flag here is about.
#[derive(Clone, Copy)]
enum Meaning {
    /// The operator, Envoy or an init container reads it.
    Others,
    /// The agent does what these values say; of any other, what is so instead.
    Fixed(&'static [&'static str], &'static str),
    /// Details of something that is switched by another key.
    Of(&'static str),
    /// A detail by which another implementation is tuned; here nothing corresponds to it.
    Tuning,
}

use Meaning::{Fixed, Of, Others, Tuning};

const OFF: &[&str] = &["false", ""];
const PROXY: &str = "enable-l7-proxy";
const VTEP: &str = "enable-vtep";
const MESH_AUTH: &str = "mesh-auth-enabled";
const EGRESS_GATEWAY: &str = "enable-egress-gateway";
const HUBBLE_REDACT: &str = "hubble-redact-enabled";
const HUBBLE_DROPS: &str = "hubble-drop-events";
const L2: &str = "enable-l2-announcements";

/// Keys, or with a star how keys begin: the longest that fits says what one means.
const KEYS: &[(&str, Meaning)] = &[
    ("auto-create-cilium-pod-ip-pools", Others),
    ("bpf-distributed-lru", Fixed(OFF, "the maps of connections are shared by all processors")),
    ("bpf-lb-acceleration", Fixed(&["disabled", ""], "services are served at tc, not by XDP")),
    ("bpf-lb-source-range-all-types", Fixed(OFF, "source ranges hold for external addresses")),
    ("bpf-policy-stats-map-max", Tuning),
    ("cilium-endpoint-gc-interval", Others),
    ("clean-cilium-bpf-state", Others),
    ("clean-cilium-state", Others),
    ("cluster-pool-*", Others),
    ("clustermesh-*", Others),
    ("cni-external-routing", Tuning),
    ("cni-proxy-routing", Of(PROXY)),
    ("custom-cni-conf", Others),
    ("datapath-mode", Fixed(&["veth"], "pods have veth interfaces")),
    ("debug-verbose", Tuning),
    ("default-lb-service-ipam", Others),
    ("dnsproxy-*", Of(PROXY)),
    ("egress-gateway-*", Of(EGRESS_GATEWAY)),
    ("enable-auto-protect-node-port-range", Tuning),
    ("enable-bandwidth-manager", Fixed(OFF, "pods' bandwidth is not limited")),
    ("enable-bgp-control-plane", Fixed(OFF, "no routes are announced by BGP")),
    ("enable-bpf-clock-probe", Tuning),
    ("enable-bpf-masquerade", Fixed(&["true", ""], "masquerading is always done by BPF programs")),
    ("enable-drift-checker", Fixed(OFF, "the ConfigMap is not compared with what is in force")),
    ("enable-dynamic-config", Fixed(OFF, "changed settings are in force after a restart")),
    (EGRESS_GATEWAY, Fixed(OFF, "pods leave by their own node")),
    ("enable-endpoint-lockdown-on-policy-overflow", Fixed(OFF, "a full policy map adds no rule")),
    ("enable-endpoint-routes", Fixed(OFF, "pods are reached by the node's own route to them")),
    ("enable-envoy-config", Fixed(OFF, "there is no Envoy")),
    ("enable-gateway-api", Fixed(OFF, "there is no Envoy")),
    ("enable-health-check-loadbalancer-ip", Fixed(OFF, "health checks come to node addresses")),
    ("enable-ingress-controller", Fixed(OFF, "there is no Envoy")),
    ("enable-ipsec", Fixed(OFF, "traffic between nodes is not encrypted")),
    ("enable-ipv4-big-tcp", Fixed(OFF, "packets are at most 64 KiB")),
    ("enable-ipv6-big-tcp", Fixed(OFF, "packets are at most 64 KiB")),
    ("enable-k8s-networkpolicy", Fixed(&["true"], "NetworkPolicies are always enforced")),
    (L2, Fixed(OFF, "addresses of services are not announced in the node's network")),
    ("enable-l2-neigh-discovery", Tuning),
    (PROXY, Fixed(OFF, "a rule for HTTP or DNS is refused and named in `status`")),
    ("enable-lb-ipam", Others),
    ("enable-local-redirect-policy", Fixed(OFF, "CiliumLocalRedirectPolicies are not read")),
    ("enable-masquerade-to-route-source", Fixed(OFF, "pods leave with the address of the device")),
    ("enable-metrics", Tuning),
    ("enable-no-service-endpoints-routable", Tuning),
    ("enable-non-default-deny-policies", Fixed(&["true"], "`enableDefaultDeny` is always obeyed")),
    ("enable-policy-secrets-sync", Others),
    ("enable-sctp", Fixed(&["true", "false", ""], "")),
    ("enable-service-topology", Fixed(OFF, "hints of topology are not heeded")),
    (VTEP, Fixed(OFF, "there are no tunnels to other VXLAN endpoints")),
    ("enable-well-known-identities", Fixed(OFF, "there are no identities for a managed etcd")),
    ("enable-wireguard", Fixed(OFF, "traffic between nodes is not encrypted")),
    ("enable-xt-socket-fallback", Tuning),
    ("envoy-*", Others),
    ("external-envoy-proxy", Others),
    ("http-*", Others),
    ("hubble-*", Tuning),
    (HUBBLE_REDACT, Fixed(OFF, "flows tell of packets, not of requests: there is nothing to hide")),
    ("hubble-redact-*", Of(HUBBLE_REDACT)),
    (HUBBLE_DROPS, Fixed(OFF, "drops are flows, not Events of the cluster")),
    ("hubble-drop-events-*", Of(HUBBLE_DROPS)),
    ("identity-gc-interval", Others),
    ("identity-heartbeat-timeout", Others),
    ("identity-management-mode", Fixed(&["agent", "both"], "the agent makes CiliumIdentities")),
    ("install-no-conntrack-iptables-rules", Fixed(OFF, "no rules of iptables are made")),
    ("ipam-cilium-node-update-rate", Others),
    ("iptables-random-fully", Fixed(OFF, "no rules of iptables are made")),
    ("l2-*", Of(L2)),
    ("log-opt", Tuning),
    ("max-connected-clusters", Fixed(&["255"], "a mesh has at most 255 clusters")),
    (MESH_AUTH, Fixed(OFF, "a rule that asks for authentication is refused")),
    ("mesh-auth-*", Of(MESH_AUTH)),
    ("metrics-sampling-interval", Tuning),
    ("nat-map-stats-*", Tuning),
    ("node-port-bind-protection", Fixed(OFF, "a process may bind a node port")),
    ("node-port-range", Tuning),
    ("nodeport-addresses", Fixed(&[""], "node ports are served at every address of the node")),
    ("nodes-gc-interval", Others),
    ("operator-*", Others),
    ("packetization-layer-pmtud-mode", Tuning),
    ("policy-audit-mode", Fixed(OFF, "what policy denies is dropped")),
    ("policy-cidr-match-mode", Fixed(&[""], "a CIDR selects no pod and no node")),
    ("policy-deny-response", Fixed(&["none", ""], "what policy denies is dropped in silence")),
    ("policy-secrets-*", Others),
    ("preallocate-bpf-maps", Fixed(OFF, "maps that may be large are not allocated in advance")),
    ("proxy-*", Others),
    ("set-cilium-node-taints", Others),
    ("synchronize-k8s-nodes", Others),
    ("tofqdns-*", Of(PROXY)),
    ("tunnel-source-port-range", Fixed(&["0-0", ""], "the kernel chooses source ports of tunnels")),
    ("unmanaged-pod-watcher-interval", Others),
    ("vtep-*", Of(VTEP)),
];

/// Keys of what packets depend on while it is in force. Of the proxy, policies tell whether anything
/// leads to it.
const FOR_PACKETS: &[&str] = &[
    "bpf-lb-acceleration",
    "datapath-mode",
    "enable-bandwidth-manager",
    "enable-bgp-control-plane",
    EGRESS_GATEWAY,
    "enable-gateway-api",
    "enable-ingress-controller",
    "enable-ipsec",
    L2,
    "enable-local-redirect-policy",
    VTEP,
    "enable-wireguard",
    "nodeport-addresses",
    "policy-cidr-match-mode",
];

/// Whether packets that went would not any more, or by other ways.
pub(super) fn is_in_force_for_packets(key: &str) -> bool {
    FOR_PACKETS.contains(&key)
}

fn meaning(key: &str) -> Option<Meaning> {
    let fits = |name: &str| match name.strip_suffix('*') {
        Some(begin) => key.starts_with(begin),
        None => key == name,
    };
    let fitting = KEYS.iter().filter(|(name, _)| fits(name));
    fitting.max_by_key(|(name, _)| name.len()).map(|(_, meaning)| *meaning)
}

/// What is to be said of these keys, which are no flags here, and their values.
pub(super) fn remarks(found: &BTreeMap<String, String>) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut details: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let (mut tuning, mut unknown) = (Vec::new(), Vec::new());
    for (key, value) in found {
        match meaning(key) {
            None => unknown.push(key.as_str()),
            Some(Others) => {}
            Some(Tuning) => tuning.push(key.as_str()),
            Some(Of(switch)) if found.contains_key(switch) => {
                details.entry(switch).or_default().insert(key);
            }
            Some(Of(_)) => tuning.push(key.as_str()),
            Some(Fixed(values, _)) if values.contains(&value.as_str()) => {}
            Some(Fixed(_, instead)) => {
                remarks.push((key.as_str(), format!("{key}={value} is not supported: {instead}")));
            }
        }
    }
    let mut said = Vec::new();
    for (key, mut remark) in remarks {
        if let Some(details) = details.get(key) {
            let all: Vec<_> = details.iter().copied().collect();
            remark += &format!("; without effect, too: {}", all.join(", "));
        }
        said.push(remark);
    }
    for (list, why) in [(tuning, "without effect here"), (unknown, "not known to this agent")] {
        if !list.is_empty() {
            said.push(format!("{why} and ignored: {}", list.join(", ")));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said_of(all: &[(&str, &str)]) -> Vec<String> {
        remarks(&all.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect())
    }

    #[test]
    fn what_is_off_or_somebody_elses_is_passed_over() {
        let quiet = [
            ("operator-prometheus-serve-addr", ":9963"),
            ("enable-wireguard", "false"),
            ("enable-vtep", "false"),
            ("vtep-mac", ""),
            ("enable-sctp", "true"),
            ("nodeport-addresses", ""),
        ];
        assert_eq!(said_of(&quiet), [""; 0]);
    }

    #[test]
    fn what_is_on_and_not_there_is_named_with_its_details() {
        let said = said_of(&[
            ("hubble-drop-events", "true"),
            ("hubble-drop-events-interval", "1m"),
            ("enable-wireguard", "true"),
            ("debug-verbose", "flow"),
            ("enable-foo", "true"),
        ]);
        assert_eq!(
            said,
            [
                "enable-wireguard=true is not supported: traffic between nodes is not encrypted",
                "hubble-drop-events=true is not supported: drops are flows, not Events of the \
                 cluster; without effect, too: hubble-drop-events-interval",
                "without effect here and ignored: debug-verbose",
                "not known to this agent and ignored: enable-foo",
            ]
        );
    }

    #[test]
    fn each_key_stands_once_and_names_a_switch_that_is_there() {
        let names: BTreeSet<_> = KEYS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), KEYS.len());
        for (name, meaning) in KEYS {
            if let Of(switch) = meaning {
                assert!(names.contains(switch), "{name} belongs to {switch}");
            }
        }
    }

    #[test]
    fn what_packets_depend_on_is_a_switch_that_is_known() {
        let switches = |key: &&&str| matches!(meaning(key), Some(Fixed(..)));
        let unknown: Vec<_> = FOR_PACKETS.iter().filter(|key| !switches(key)).collect();
        assert_eq!(unknown, Vec::<&&str>::new());
    }

    #[test]
    fn no_flag_is_listed_as_none() {
        let command = super::super::command();
        let flags: Vec<_> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        let exact = KEYS.iter().map(|(name, _)| *name).filter(|name| flags.contains(name));
        assert_eq!(exact.collect::<Vec<_>>(), [""; 0]);
    }
}
