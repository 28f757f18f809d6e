//! A pod without the CNI plugin: what the plugin does, by netlink and the REST API from here. For
//! benches of a thousand pods, where a thousand processes would be what is measured.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_actors::model::Mac;
use volvox_system::netlink::{Socket, Veth};

use super::{Node, Pod, pod::INTERFACE};

/// Maximum transmission unit of the pods, bytes.
const MTU: u32 = 1500;

/// An address of the pod with the router's of its family.
struct Lease {
    address: IpAddr,
    router: IpAddr,
}

/// Makes the interface, its addresses and the endpoint, built when this returns; the addresses, and
/// how long the request for the endpoint took.
pub(super) fn add(
    node: &Node,
    pod: &Pod,
    labels: &[(&str, &str)],
) -> Result<(Vec<IpAddr>, Duration)> {
    let leases = lease(node, pod)?;
    let number = u32::from_str_radix(&pod.container_id[56..], 16)?;
    let host = format!("lxc{number:08x}");
    let [mac, host_mac] = [0x0a, 0x0e].map(|first| {
        let [a, b, c, d] = number.to_be_bytes();
        Mac([first, 0, a, b, c, d])
    });
    let mut netlink = Socket::open()?;
    netlink.create_veth(&Veth {
        name: &host,
        peer: INTERFACE,
        peer_netns: Some(std::os::fd::AsFd::as_fd(&pod.netns)),
        mtu: MTU,
        mac: host_mac,
        peer_mac: mac,
    })?;
    let ifindex = netlink.link_by_name(&host)?.context("the interface has gone")?.ifindex;
    pod.netns.run(|| configure(&leases))?;
    let of_family = |ipv6| leases.iter().find(|lease| lease.address.is_ipv6() == ipv6);
    let address = |ipv6| of_family(ipv6).map(|lease| lease.address.to_string());
    let mut all_labels: Vec<_> =
        labels.iter().map(|(key, value)| format!("k8s:{key}={value}")).collect();
    all_labels.push(format!("k8s:io.kubernetes.pod.namespace={}", pod.namespace));
    let body = json!({
        "container-id": pod.container_id,
        "container-interface-name": INTERFACE,
        "interface-name": host,
        "interface-index": ifindex,
        "mac": mac.to_string(),
        "host-mac": host_mac.to_string(),
        "addressing": { "ipv4": address(false), "ipv6": address(true) },
        "k8s-namespace": pod.namespace,
        "k8s-pod-name": pod.name,
        "labels": all_labels,
        "netns-cookie": volvox_system::netns::Netns::open(pod.netns.path())?.cookie()?.to_string(),
        "state": "waiting-for-identity",
        "sync-build-endpoint": true,
    });
    let begun = Instant::now();
    let answer = node.rest().request("PUT", "/endpoint/cilium-local:0", Some(&body))?;
    let took = begun.elapsed();
    let text = String::from_utf8_lossy(&answer.body);
    ensure!(answer.status == 201, "PUT of {}: {} {text}", pod.name, answer.status);
    Ok((leases.iter().map(|lease| lease.address).collect(), took))
}

fn lease(node: &Node, pod: &Pod) -> Result<Vec<Lease>> {
    let families: &[&str] = if node.has_ipv6() { &["ipv4", "ipv6"] } else { &["ipv4"] };
    families
        .iter()
        .map(|family| {
            let path = format!("/ipam?family={family}&owner={}/{}", pod.namespace, pod.name);
            let answer: Value = node.rest().request("POST", &path, None)?.json()?;
            let read = |value: &Value| -> Result<IpAddr> {
                let text = value.as_str().with_context(|| format!("no address in {answer}"))?;
                text.parse().with_context(|| format!("{text} is no address"))
            };
            Ok(Lease {
                address: read(&answer["address"][family])?,
                router: read(&answer["host-addressing"][family]["ip"])?,
            })
        })
        .collect()
}

/// Inside the pod: addresses, and all routes through the router.
fn configure(leases: &[Lease]) -> Result<()> {
    let mut netlink = Socket::open()?;
    let interface = netlink.link_by_name(INTERFACE)?.context("no interface in the pod")?;
    netlink.set_link_up(interface.ifindex)?;
    for lease in leases {
        netlink.add_address(interface.ifindex, lease.address.into())?;
        netlink.put_route(lease.router, interface.ifindex)?;
        netlink.add_default_via(lease.router, interface.ifindex)?;
    }
    Ok(())
}
