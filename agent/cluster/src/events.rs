//! Events of a watch: the stream is cut into lines, and each line becomes a change.

use serde::Deserialize;
use serde_json::Value;
use volvox_actors::ports::{ClusterError, ObjectChange, Resource};

use super::trim::{key, object};

/// Longest event that is read, bytes; no server keeps so large an object.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Events as they come, one a line, in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

#[derive(Deserialize)]
struct Event {
    r#type: String,
    object: Value,
}

impl Lines {
    /// The changes that the lines say that are complete with this piece, and the version that they
    /// reach.
    pub(super) fn take(
        &mut self,
        resource: &Resource,
        piece: &[u8],
    ) -> Result<Vec<ObjectChange>, ClusterError> {
        self.rest.extend_from_slice(piece);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return match self.rest.len() > LINE_BYTES_MAX {
                true => {
                    Err(ClusterError::Failed(format!("an event of over {LINE_BYTES_MAX} bytes")))
                }
                false => Ok(Vec::new()),
            };
        };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        let (mut changes, mut version) = (Vec::new(), None);
        for line in whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Event = serde_json::from_slice(line).map_err(|error| {
                ClusterError::Failed(format!("an event of {} is none: {error}", resource.name))
            })?;
            let at = event.object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
            version = at.map(str::to_owned).or(version);
            match event.r#type.as_str() {
                "ADDED" | "MODIFIED" => {
                    changes.extend(object(resource, event.object).map(ObjectChange::Applied));
                }
                "DELETED" => changes.extend(key(&event.object).map(ObjectChange::Deleted)),
                "BOOKMARK" => {}
                "ERROR" => return Err(error(&event.object)),
                other => tracing::debug!(other, resource = resource.name, "event of unknown type"),
            }
        }
        changes.extend(version.map(ObjectChange::Reached));
        Ok(changes)
    }
}

/// What the server says instead of going on.
fn error(status: &Value) -> ClusterError {
    let text = status.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    match status.get("code").and_then(Value::as_u64) {
        Some(410) => ClusterError::Expired(text),
        _ => ClusterError::Failed(text),
    }
}
