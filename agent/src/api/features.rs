//! What the agent does for the node besides policy, as `GET /healthz` and `GET /config` name it:
//! masquerading, services, sizes of maps, the CNI configuration, the kvstore. What the kernel and the
//! disk know is asked of them.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use volvox_actors::{model::Families, node::devices::DevicesStatus};
use volvox_bpf_progs::maps::POLICY;
use volvox_cni::Conflist;
use volvox_maps::Dump;
use volvox_rest::models::{BpfMapSize, BpfMapStatus, KubeProxyReplacement, NodeDevice, Status};

use super::Facts;
use crate::cni_configuration;

/// First and last of the node's ports that stand for services.
const NODE_PORTS: (u16, u16) = (30_000, 32_767);

/// What of it is set, and never changes while the agent runs.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// Families of which what pods send to the world leaves with the node's address.
    pub masquerade: Families,
    /// Whether services are served in the place of a kube-proxy.
    pub kube_proxy_replacement: bool,
    /// Whether sockets connect to backends themselves.
    pub socket_lb: bool,
    /// How backends are chosen: `random`, `maglev`.
    pub algorithm: String,
    /// Whom a backend on another node answers: `snat`, `dsr`.
    pub mode: String,
    /// Places of a table by which Maglev chooses.
    pub maglev_table: u32,
    /// Share of the memory that maps take.
    pub size_ratio: f64,
    /// Rows of an endpoint's policy map.
    pub policy_rows: u32,
    /// Where the CNI configuration is to be written.
    pub cni_file: Option<PathBuf>,
    /// The network of another plugin into which ours is put there.
    pub cni_target: Option<String>,
    /// With which other plugins ours goes together: `none`, `portmap`, `generic-veth`.
    pub cni_chaining: String,
    /// The kvstore's kind and its options.
    pub kvstore: Option<(String, Map<String, Value>)>,
}

/// The maps that are there, with the sizes that the kernel says.
pub(super) fn map_sizes(facts: &Facts) -> BpfMapStatus {
    let sizes = Dump::at(&facts.bpf_root).sizes();
    // Without an endpoint there is no policy map yet.
    let of_policy = sizes.iter().any(|(name, _)| name == POLICY.name);
    let policy = (!of_policy).then(|| (POLICY.name.to_owned(), facts.features.policy_rows));
    let maps = sizes.into_iter().chain(policy);
    BpfMapStatus {
        dynamic_size_ratio: facts.features.size_ratio,
        maps: maps.map(|(name, size)| BpfMapSize { name, size }).collect(),
    }
}

/// Which families leave with the node's address, and where pods go to as themselves.
pub(super) fn masquerading(features: &Features, devices: &DevicesStatus) -> Map<String, Value> {
    let Families { ipv4, ipv6 } = features.masquerade;
    let mut status = Map::new();
    let mut put = |name: &str, value| drop(status.insert(name.to_owned(), value));
    put("enabled", json!(ipv4 || ipv6));
    put("enabledProtocols", Value::Object(protocols(features)));
    if ipv4 || ipv6 {
        put("mode", json!("BPF"));
        let spared = |v4: bool| devices.unmasqueraded.iter().find(|net| net.addr().is_ipv4() == v4);
        for (name, net) in
            [("snat-exclusion-cidr-v4", spared(true)), ("snat-exclusion-cidr-v6", spared(false))]
        {
            if let Some(net) = net {
                put(name, json!(net.to_string()));
            }
        }
    }
    status
}

/// The families of which what leaves has the node's address.
pub(super) fn protocols(features: &Features) -> Map<String, Value> {
    let Families { ipv4, ipv6 } = features.masquerade;
    [("ipv4", ipv4), ("ipv6", ipv6)]
        .map(|(name, on)| (name.to_owned(), json!(on)))
        .into_iter()
        .collect()
}

/// What is done in the place of a kube-proxy. Whoever reads it expects to be told of each function, whether
/// it is served or not: Cilium's client falls over one that is left out.
pub(super) fn kube_proxy_replacement(
    features: &Features,
    devices: &DevicesStatus,
) -> KubeProxyReplacement {
    let replaces = features.kube_proxy_replacement;
    let running = || devices.devices.iter().filter(|device| replaces && device.attached);
    let device_list = running().map(|device| NodeDevice {
        ip: device.addresses.iter().map(|address| address.to_string()).collect(),
        name: device.name.clone(),
    });
    let maglev = features.algorithm == "maglev";
    let mut node_port = json!({ "enabled": replaces });
    if replaces {
        node_port = json!({
            "acceleration": "Disabled",
            "algorithm": if maglev { "Maglev" } else { "Random" },
            "enabled": true,
            "mode": features.mode.to_uppercase(),
            "portMin": NODE_PORTS.0,
            "portMax": NODE_PORTS.1,
        });
        if maglev {
            node_port["lutSize"] = json!(features.maglev_table);
        }
    }
    KubeProxyReplacement {
        mode: if replaces { "True" } else { "False" }.to_owned(),
        device_list: device_list.collect(),
        devices: running().map(|device| device.name.clone()).collect(),
        direct_routing_device: running().next().map(|device| device.name.clone()),
        features: json!({
            "annotations": [],
            "bpfSocketLBHostnsOnly": false,
            "externalIPs": { "enabled": replaces },
            "gracefulTermination": { "enabled": true },
            "hostPort": { "enabled": replaces },
            "nat46X64": {
                "enabled": false, "gateway": { "enabled": false, "prefixes": [] },
                "service": { "enabled": false },
            },
            "nodePort": node_port,
            "sessionAffinity": { "enabled": true },
            "socketLB": { "enabled": features.socket_lb },
            "socketLBTracing": { "enabled": false },
        }),
    }
}

/// Whether runtimes find the configuration that has them call the plugin.
pub(super) fn cni_file(features: &Features) -> Status {
    let status = |state: &str, msg: String| Status { state: state.to_owned(), msg };
    let Some(expected) = features.cni_file.as_deref() else {
        return status("Disabled", "CNI configuration management disabled".to_owned());
    };
    if let Some(why) = cni_configuration::overridden(expected) {
        return status("Warning", why);
    }
    match Conflist::installed(expected) {
        Some(path) => {
            status("Ok", format!("successfully wrote CNI configuration file to {}", path.display()))
        }
        None if features.cni_target.is_some() => {
            let target = features.cni_target.as_deref().unwrap_or_default();
            let msg = format!(
                "there is no CNI configuration of this agent at {}: it is written once known endpoints \
                 are restored and the network {target} has a configuration beside it; see that its \
                 plugin runs on this node",
                expected.display()
            );
            status("Warning", msg)
        }
        None => status(
            "Warning",
            format!(
                "there is no CNI configuration of this agent at {}: it is written once known \
                 endpoints are restored; if somebody removed it since, restart the agent",
                expected.display()
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use volvox_actors::node::devices::DeviceStatus;

    use super::*;

    #[test]
    fn masquerading_is_what_is_set_and_what_is_spared() {
        let spared = ["10.0.0.0/8", "fd00::/8"].map(|net| net.parse().unwrap());
        let devices = DevicesStatus { unmasqueraded: spared.into(), ..DevicesStatus::default() };
        let mut features = Features::default();
        let status = masquerading(&features, &devices);
        assert_eq!(
            Value::Object(status),
            json!({"enabled": false, "enabledProtocols": {"ipv4": false, "ipv6": false}})
        );
        features.masquerade.ipv4 = true;
        let status = masquerading(&features, &devices);
        assert_eq!(
            Value::Object(status),
            json!({
                "enabled": true, "enabledProtocols": {"ipv4": true, "ipv6": false}, "mode": "BPF",
                "snat-exclusion-cidr-v4": "10.0.0.0/8", "snat-exclusion-cidr-v6": "fd00::/8",
            })
        );
    }

    #[test]
    fn services_are_served_at_devices_whose_programs_run() {
        let device = |name: &str, attached| DeviceStatus {
            name: name.to_owned(),
            ifindex: 3,
            addresses: ["192.0.2.7".parse().unwrap()].into_iter().collect(),
            attached,
            trouble: None,
        };
        let devices = DevicesStatus {
            devices: vec![device("eth0", false), device("eth1", true)],
            ..DevicesStatus::default()
        };
        let mut features = Features {
            algorithm: "maglev".to_owned(),
            kube_proxy_replacement: true,
            ..Features::default()
        };
        let status = kube_proxy_replacement(&features, &devices);
        assert_eq!((status.mode.as_str(), status.devices), ("True", vec!["eth1".to_owned()]));
        assert_eq!(status.device_list[0].ip, ["192.0.2.7"]);
        assert_eq!(status.features["nodePort"]["algorithm"], "Maglev");
        assert_eq!(status.features["socketLB"]["enabled"], false);
        features.kube_proxy_replacement = false;
        features.socket_lb = true;
        let status = kube_proxy_replacement(&features, &devices);
        assert_eq!((status.mode.as_str(), status.devices.len()), ("False", 0));
        assert_eq!(status.features["nodePort"], json!({ "enabled": false }));
        assert_eq!(status.features["socketLB"]["enabled"], true);
    }
}
