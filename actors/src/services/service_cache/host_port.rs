//! What a pod says that wants ports of its node for itself.

use std::net::IpAddr;

use super::{
    object::{ServicePort, Spec, number, transport},
    slice::{EndpointCondition, Member, Slice, SlicePort},
};
use crate::model::field::{Fault, Field, Mapping};

/// What the ports of a pod's node are called among services: the pod's own name may be a service's.
pub(super) fn service_of(pod: &str) -> String {
    format!("{pod}/host-port")
}

/// Reads a pod: the ports of its node that lead to it, and the pod itself as the only one behind
/// them. `None` if there are none, or if there is nobody yet or no more to be led to: it has no
/// address, it has ended, it is of another node than `node`, or its ports are the node's anyway.
pub(super) fn pod(root: &Mapping<'_>, node: &str) -> Result<Option<(Spec, Slice)>, Fault> {
    let Some(spec) = inside(root, "spec")? else { return Ok(None) };
    let text = |of: &Mapping<'_>, name| of.get(name).map(|it| it.text().map(ToOwned::to_owned));
    let elsewhere = text(&spec, "nodeName").transpose()?.is_some_and(|name| name != node);
    let of_node = spec.get("hostNetwork").map(|it| it.truth()).transpose()?.unwrap_or(false);
    let Some(status) = inside(root, "status")?.filter(|_| !elsewhere && !of_node) else {
        return Ok(None);
    };
    let phase = text(&status, "phase").transpose()?;
    if matches!(phase.as_deref(), Some("Succeeded" | "Failed")) {
        return Ok(None);
    }
    let (mut ports, mut hosts, mut behind) = (Vec::new(), Vec::new(), Vec::new());
    for containers in ["initContainers", "containers"] {
        for container in spec.list(containers)?.unwrap_or_default() {
            for port in container.any_mapping()?.list("ports")?.unwrap_or_default() {
                let port = port.any_mapping()?;
                let Some(at) = port.get("hostPort").filter(|it| it.value.as_u64() != Some(0))
                else {
                    continue;
                };
                // Names of ports need not differ, and there may be none.
                let name: Box<str> = ports.len().to_string().into();
                let transport = transport(&port)?;
                let to = number(&port.need("containerPort")?)?;
                behind.push(SlicePort { name: name.clone(), port: to, transport });
                ports.push(ServicePort { name, port: number(&at)?, node_port: 0, transport });
                hosts.push(host(&port)?);
            }
        }
    }
    let addresses = addresses(&status)?;
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

fn inside<'a>(of: &Mapping<'a>, name: &str) -> Result<Option<Mapping<'a>>, Fault> {
    of.get(name).map(|field| field.any_mapping()).transpose()
}

/// The address of the node at which a port is desired; `None` means all.
fn host(port: &Mapping<'_>) -> Result<Option<IpAddr>, Fault> {
    let Some(field) = port.get("hostIP") else { return Ok(None) };
    if field.text()?.is_empty() {
        return Ok(None);
    }
    let address = field.address()?;
    if address.is_loopback() {
        let problem = format!("{address} is every network namespace's own");
        return Err(field.fault(problem, "name an address of the node, or none"));
    }
    Ok(Some(address))
}

/// The pod's own addresses. Older servers tell only the first.
fn addresses(status: &Mapping<'_>) -> Result<Vec<IpAddr>, Fault> {
    let is_one = |field: &Field<'_>| field.text().is_ok_and(|text| !text.is_empty());
    let mut all = Vec::new();
    for listed in status.list("podIPs")?.unwrap_or_default() {
        all.extend(listed.any_mapping()?.get("ip").filter(is_one).map(|it| it.address()));
    }
    if all.is_empty() {
        all.extend(status.get("podIP").filter(is_one).map(|it| it.address()));
    }
    all.into_iter().collect()
}
