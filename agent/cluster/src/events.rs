//! Events of a watch: the stream is cut into lines, and each line becomes a change.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use volvox_actors::ports::{ClusterError, ObjectChange, ObjectKey, Resource};

use super::trim::one_of_many;

/// Longest event that is read, bytes; no server keeps so large an object.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Events as they come, one a line, in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// What of an object is read whatever it is.
#[derive(Deserialize)]
struct AnyObject {
    #[serde(default)]
    metadata: AnyMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnyMetadata {
    name: String,
    namespace: String,
    resource_version: Option<String>,
}

impl AnyObject {
    /// Of one that says less, nothing is known.
    fn of(text: &str) -> AnyMetadata {
        serde_json::from_str(text).map(|Self { metadata }| metadata).unwrap_or_default()
    }
}

impl AnyMetadata {
    fn key(self) -> Option<ObjectKey> {
        let Self { name, namespace, .. } = self;
        (!name.is_empty()).then_some(ObjectKey { namespace, name })
    }
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
            let event: Event<'_> = serde_json::from_slice(line).map_err(|error| {
                ClusterError::Failed(format!("an event of {} is none: {error}", resource.name))
            })?;
            let text = event.object.get();
            let metadata = AnyObject::of(text);
            version = metadata.resource_version.clone().or(version);
            match event.r#type.as_str() {
                "ADDED" | "MODIFIED" => {
                    changes.extend(one_of_many(resource, text).map(ObjectChange::Applied));
                }
                "DELETED" => changes.extend(metadata.key().map(ObjectChange::Deleted)),
                "BOOKMARK" => {}
                "ERROR" => {
                    let status: Value = serde_json::from_str(text).unwrap_or_default();
                    return Err(error(&status));
                }
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
