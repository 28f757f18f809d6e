//! What a pod says that wants ports of its node for itself.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodStatus};

use super::{
    object::{ServicePort, Spec, needed, number, transport},
    slice::{EndpointCondition, Member, Slice, SlicePort},
};
use crate::model::{field::Fault, place::Place};

/// What the ports of a pod's node are called among services: the pod's own name may be a service's.
pub(super) fn service_of(pod: &str) -> String {
    format!("{pod}/host-port")
}

/// Reads a pod: the ports of its node that lead to it, and the pod itself as the only one behind
/// them. `None` if there are none, or if there is nobody yet or no more to be led to: it has no
/// address, it has ended, it is of another node than `node`, or its ports are the node's anyway.
pub(super) fn pod(pod: &Pod, node: &str) -> Result<Option<(Spec, Slice)>, Fault> {
    let Some(spec) = &pod.spec else { return Ok(None) };
    let elsewhere = spec.node_name.as_ref().is_some_and(|name| name != node);
    let of_node = spec.host_network.unwrap_or(false);
    let Some(status) = pod.status.as_ref().filter(|_| !elsewhere && !of_node) else {
        return Ok(None);
    };
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return Ok(None);
    }
    let (mut ports, mut hosts, mut behind) = (Vec::new(), Vec::new(), Vec::new());
    let at = Place::ROOT.key("spec");
    let lists = [
        (at.key("initContainers"), spec.init_containers.as_ref()),
        (at.key("containers"), Some(&spec.containers)),
    ];
    for (at, containers) in lists {
        for (at, Container { ports: all, .. }) in at.each(containers) {
            let at = at.key("ports");
            for (at, port) in at.each(all.as_ref()) {
                let Some(said) = port.host_port.filter(|number| *number != 0) else { continue };
                // Names of ports need not differ, and there may be none.
                let name: Box<str> = ports.len().to_string().into();
                let transport = transport(&at, port.protocol.as_deref())?;
                let to = needed(&at, "containerPort", port.container_port)?;
                behind.push(SlicePort { name: name.clone(), port: to, transport });
                let own = number(&at.key("hostPort"), said)?;
                ports.push(ServicePort { name, port: own, node_port: 0, transport });
                hosts.push(host(&at.key("hostIP"), port)?);
            }
        }
    }
    let addresses = addresses(status)?;
    if ports.is_empty() || addresses.is_empty() {
        return Ok(None);
    }
    let member = |address| Member {
        address,
        serving: EndpointCondition::Ready,
        local: true,
        zones: None,
        here: None,
    };
    let slice = Slice {
        owner: None,
        ports: behind.into(),
        members: addresses.into_iter().map(member).collect(),
    };
    Ok(Some((Spec { ports: ports.into(), hosts: hosts.into(), ..Spec::default() }, slice)))
}

/// The address of the node at which a port is desired; `None` means all.
fn host(at: &Place<'_>, port: &ContainerPort) -> Result<Option<IpAddr>, Fault> {
    let Some(text) = port.host_ip.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let address = at.address(text)?;
    if address.is_loopback() {
        let problem = format!("{address} is every network namespace's own");
        return Err(at.fault(problem, "name an address of the node, or none"));
    }
    Ok(Some(address))
}

/// The pod's own addresses. Older servers tell only the first.
fn addresses(status: &PodStatus) -> Result<Vec<IpAddr>, Fault> {
    let at = Place::ROOT.key("status");
    let (at_all, at_one) = (at.key("podIPs"), at.key("podIP"));
    let mut all = Vec::new();
    let listed = at_all.each(status.pod_ips.as_ref()).filter(|(_, it)| !it.ip.is_empty());
    for (at, listed) in listed {
        all.push(at.key("ip").address(&listed.ip)?);
    }
    if all.is_empty() {
        let one = status.pod_ip.as_deref().filter(|text| !text.is_empty());
        all.extend(one.map(|text| at_one.address(text)).transpose()?);
    }
    Ok(all)
}
