//! Reads the named ports of a pod; policies refer to ports by these names.

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec};

use super::ObjectError;
use crate::{model::NamedPorts, policy::rules::protocol};

/// Longest name of a port that Kubernetes allows, in bytes.
const NAME_BYTES_MAX: usize = 15;
/// Most ports of a pod that are read.
const PORTS_MAX: usize = 4_096;

/// Names of a pod's ports: those of its containers, and of the containers that are started before
/// these and stay beside them.
pub(super) fn ports(object: &str, pod: &PodSpec) -> Result<NamedPorts, ObjectError> {
    let mut named = NamedPorts::new();
    let mut count = 0;
    let own = pod.containers.iter().enumerate().map(|it| ("containers", it));
    let before = pod.init_containers.iter().flatten().enumerate();
    let stays = |it: &Container| it.restart_policy.as_deref() == Some("Always");
    let before = before.filter(|(_, it)| stays(it)).map(|it| ("initContainers", it));
    for (list, (at, container)) in own.chain(before) {
        for (index, port) in container.ports.iter().flatten().enumerate() {
            count += 1;
            let path = || format!("spec.{list}[{at}].ports");
            if count > PORTS_MAX {
                return Err(wrong(object, path(), "a list of at most 4096 ports in all"));
            }
            let path = || format!("{}[{index}]", path());
            if let Some((name, protocol, number)) = one(object, path, port)? {
                named.entry(name).or_default().insert((protocol, number));
            }
        }
    }
    Ok(named)
}

/// Name, protocol and number of a port; `None` if it has no name.
fn one(
    object: &str,
    path: impl Fn() -> String,
    port: &ContainerPort,
) -> Result<Option<(String, u8, u16)>, ObjectError> {
    let wrong = |name: &str, desired| wrong(object, format!("{}.{name}", path()), desired);
    let name = match port.name.as_deref() {
        None | Some("") => return Ok(None),
        Some(name) if name.len() <= NAME_BYTES_MAX => name.to_ascii_lowercase(),
        Some(_) => return Err(wrong("name", "a text of at most 15 bytes")),
    };
    let protocol = match port.protocol.as_deref() {
        None | Some("TCP") => protocol::TCP,
        Some("UDP") => protocol::UDP,
        Some("SCTP") => protocol::SCTP,
        _ => return Err(wrong("protocol", "TCP, UDP or SCTP")),
    };
    match u16::try_from(port.container_port).ok().filter(|number| *number > 0) {
        Some(number) => Ok(Some((name, protocol, number))),
        None => Err(wrong("containerPort", "a number from 1 to 65535")),
    }
}

fn wrong(object: &str, field: String, desired: &'static str) -> ObjectError {
    ObjectError::Field { object: object.to_owned(), field, desired }
}
