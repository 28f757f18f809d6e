//! Reads the named ports of a pod from its manifest; policies refer to ports by these names.

use serde_json::Value;

use super::ObjectError;
use crate::{model::NamedPorts, policy::rules::protocol};

/// Longest name of a port that Kubernetes allows, in bytes.
const NAME_BYTES_MAX: usize = 15;
/// Most ports of a pod that are read.
const PORTS_MAX: usize = 4_096;

/// Names of a pod's ports: those of its containers, and of the containers that are started before
/// these and stay beside them.
pub(super) fn ports(object: &str, pod: &Value) -> Result<NamedPorts, ObjectError> {
    let mut named = NamedPorts::new();
    let mut count = 0;
    for list in ["containers", "initContainers"] {
        let path = format!("spec.{list}");
        let containers = pod.pointer(&format!("/spec/{list}"));
        for (at, container) in array(object, &path, containers)?.iter().enumerate() {
            let restart = container.get("restartPolicy").and_then(Value::as_str);
            if list == "initContainers" && restart != Some("Always") {
                continue;
            }
            let path = format!("{path}[{at}].ports");
            for (at, port) in array(object, &path, container.get("ports"))?.iter().enumerate() {
                count += 1;
                if count > PORTS_MAX {
                    return Err(wrong(object, path, "a list of at most 4096 ports in all"));
                }
                let path = format!("{path}[{at}]");
                if let Some((name, protocol, number)) = one(object, &path, port)? {
                    named.entry(name).or_default().insert((protocol, number));
                }
            }
        }
    }
    Ok(named)
}

/// Name, protocol and number of a port; `None` if it has no name.
fn one(object: &str, path: &str, port: &Value) -> Result<Option<(String, u8, u16)>, ObjectError> {
    let field = |name: &str| format!("{path}.{name}");
    let name = match port.get("name") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(name)) if name.is_empty() => return Ok(None),
        Some(Value::String(name)) if name.len() <= NAME_BYTES_MAX => name.to_ascii_lowercase(),
        Some(_) => return Err(wrong(object, field("name"), "a text of at most 15 bytes")),
    };
    let protocol = match port.get("protocol").unwrap_or(&Value::Null) {
        Value::Null => protocol::TCP,
        Value::String(text) if text == "TCP" => protocol::TCP,
        Value::String(text) if text == "UDP" => protocol::UDP,
        Value::String(text) if text == "SCTP" => protocol::SCTP,
        _ => return Err(wrong(object, field("protocol"), "TCP, UDP or SCTP")),
    };
    let number = port.get("containerPort").and_then(Value::as_u64);
    match number.and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0) {
        Some(number) => Ok(Some((name, protocol, number))),
        None => Err(wrong(object, field("containerPort"), "a number from 1 to 65535")),
    }
}

fn array<'a>(
    object: &str,
    path: &str,
    value: Option<&'a Value>,
) -> Result<&'a [Value], ObjectError> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(values)) => Ok(values),
        Some(_) => Err(wrong(object, path.to_owned(), "a list")),
    }
}

fn wrong(object: &str, field: String, desired: &'static str) -> ObjectError {
    ObjectError::Field { object: object.to_owned(), field, desired }
}
