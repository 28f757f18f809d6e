//! What every owner of prefixes knows of a CiliumNode: which one it is, in which version it was seen, and
//! what it says is wrong.

use serde_json::{Value, json};

use crate::ports::{ClusterError, Verb};

/// A CiliumNode, as far as one writes into it.
#[derive(Clone, Debug, Default)]
pub(in crate::operator) struct SeenNode {
    pub(in crate::operator) uid: String,
    version: String,
    /// What it says is wrong.
    error: Option<String>,
    /// It was written to, and has not been seen since.
    is_written: bool,
}

impl SeenNode {
    pub(in crate::operator) fn read(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let error = text(&value["status"]["ipam"]["operator-status"]["error"]);
        Self {
            uid: text(&value["metadata"]["uid"]),
            version: text(&value["metadata"]["resourceVersion"]),
            error: Some(error).filter(|error| !error.is_empty()),
            is_written: false,
        }
    }

    /// Whether its newest version was seen, as far as one knows.
    pub(in crate::operator) fn is_free(&self) -> bool {
        !self.is_written
    }

    /// It is being written to.
    pub(in crate::operator) fn written(&mut self) {
        self.is_written = true;
    }

    /// It was not written. After a conflict, or where it is gone, what is there now is on its way, unless it was
    /// seen before the answer came.
    pub(in crate::operator) fn not_written(&mut self, error: &ClusterError) {
        self.is_written &= matches!(error, ClusterError::Conflict(_) | ClusterError::NotFound(_));
    }

    /// Whether a patch is for the version that was seen last.
    pub(in crate::operator) fn is_meant_by(&self, patch: &Value) -> bool {
        patch["metadata"]["resourceVersion"] == self.version.as_str()
    }

    /// A patch of the `ipam` of its `spec`, in the version that was seen.
    pub(in crate::operator) fn patch(&self, ipam: Value) -> Value {
        self.patch_of("spec", ipam)
    }

    /// What makes it say what is wrong, or that nothing is; none where it says so, or is being written to.
    pub(in crate::operator) fn complaint(&self, trouble: Option<&String>) -> Option<Verb> {
        if self.is_written || trouble == self.error.as_ref() {
            return None;
        }
        // An empty text is not the same: there are servers that take it for `null` and refuse the object.
        let said = json!({ "operator-status": { "error": trouble } });
        Some(Verb::MergeStatus(self.patch_of("status", said)))
    }

    fn patch_of(&self, part: &str, ipam: Value) -> Value {
        json!({ "metadata": { "resourceVersion": self.version }, part: { "ipam": ipam } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_was_not_written_is_free_once_its_newest_version_is_seen() {
        let read = |version: &str| {
            SeenNode::read(&json!({ "metadata": { "uid": "u", "resourceVersion": version } }))
        };
        let conflict = ClusterError::Conflict("an older version".to_owned());
        let mut node = read("7");
        node.written();
        node.not_written(&conflict);
        assert!(!node.is_free(), "the newer version is on its way");
        node = read("8");
        assert!(node.is_free());
        // It comes before the answer.
        node.written();
        node = read("9");
        node.not_written(&conflict);
        assert!(node.is_free(), "nothing more is on its way");
        node.written();
        node.not_written(&ClusterError::Unreachable("no route".to_owned()));
        assert!(node.is_free(), "it is tried again");
    }

    #[test]
    fn an_error_is_said_once_and_taken_out_when_it_has_gone() {
        let read = |error: Value| {
            SeenNode::read(&json!({
                "metadata": { "uid": "u", "resourceVersion": "7" },
                "status": { "ipam": { "operator-status": { "error": error } } },
            }))
        };
        let trouble = "used up".to_owned();
        let said = |node: &SeenNode, trouble: Option<&String>| match node.complaint(trouble) {
            Some(Verb::MergeStatus(patch)) => {
                assert!(node.is_meant_by(&patch));
                Some(patch["status"]["ipam"]["operator-status"].clone())
            }
            _ => None,
        };
        let complaining = read("used up".into());
        assert_eq!(said(&complaining, Some(&trouble)), None);
        assert_eq!(said(&complaining, None), Some(json!({ "error": null })));
        for without in [Value::Null, "".into()] {
            let mut node = read(without);
            assert_eq!(said(&node, None), None);
            assert_eq!(said(&node, Some(&trouble)), Some(json!({ "error": "used up" })));
            node.written();
            assert_eq!(said(&node, Some(&trouble)), None);
        }
    }
}
