//! A CiliumIdentity: its name is the number.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    cluster::allocator::Entry,
    model::{ApiObject, ClusterId, IdentityId, Label, Labels},
    ports::ObjectKey,
};

/// Set by Cilium's operator on an identity that no CiliumEndpoint has, before it removes it. An
/// agent that uses the identity takes it off.
pub(super) const HEARTBEAT: &str = "io.cilium.heartbeat";
/// Labels of a pod's namespace begin so, and are none of the object's own.
const NAMESPACE_LABELS: &str = "io.cilium.k8s.namespace.labels.";
/// Longest value of a label of an object, bytes.
const LABEL_VALUE_MAX: usize = 63;

/// What an object says of an identity, or that it is gone; one that names no number is named and
/// left out.
pub(crate) fn identity(
    object: (ObjectKey, Option<ApiObject>),
    cluster: ClusterId,
) -> Option<(IdentityId, Entry)> {
    let (key, value) = object;
    let (name, id) = (&key.name, number(&key.name, cluster));
    let Some(value) = value.map(ApiObject::into_json) else { return Some((id?, Entry::Gone)) };
    let Some(id) = id else {
        tracing::warn!(
            name,
            first = %cluster.first(), last = %cluster.last(),
            "CiliumIdentity has no number of this cluster for its name; remove it"
        );
        return None;
    };
    let entry = match labels(&value["security-labels"]) {
        Ok(labels) if value["metadata"]["annotations"].get(HEARTBEAT).is_some() => {
            Entry::Marked(Arc::new(labels))
        }
        Ok(labels) => Entry::Labels(Arc::new(labels)),
        Err(cause) => {
            tracing::warn!(
                name,
                cause,
                "CiliumIdentity has labels that nobody can read, its number is not used; remove it"
            );
            Entry::Unreadable
        }
    };
    Some((id, entry))
}

/// The number of that cluster that a name is.
fn number(name: &str, cluster: ClusterId) -> Option<IdentityId> {
    let id = name.parse().ok().map(IdentityId)?;
    (cluster.hands_out(id) && id.to_string() == name).then_some(id)
}

fn labels(said: &Value) -> Result<Labels, String> {
    let said = said.as_object().ok_or("it has no security-labels")?;
    let label = |(name, value): (&String, &Value)| {
        let value = value.as_str().ok_or_else(|| format!("the value of {name} is no text"))?;
        let (source, key) = name.split_once(':').ok_or_else(|| format!("{name} has no source"))?;
        match source.is_empty() || key.is_empty() {
            true => Err(format!("{name} has no source or no key")),
            false => Ok(Label::new(source, key, value)),
        }
    };
    let labels = said.iter().map(label).collect::<Result<Labels, String>>()?;
    match labels.is_empty() {
        true => Err("its security-labels are empty".to_owned()),
        false => Ok(labels),
    }
}

/// The object of an identity, as Cilium's agent makes it.
pub(super) fn document(id: IdentityId, labels: &Labels) -> Value {
    let security: Map<String, Value> = labels
        .iter()
        .map(|label| (format!("{}:{}", label.source, label.key), label.value.clone().into()))
        .collect();
    let own: Map<String, Value> = labels
        .iter()
        .filter(|label| label.source == "k8s" && !label.key.starts_with(NAMESPACE_LABELS))
        .filter(|label| fits(&label.value))
        .map(|label| (label.key.clone(), label.value.clone().into()))
        .collect();
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumIdentity",
        "metadata": { "name": id.to_string(), "labels": own },
        "security-labels": security,
    })
}

/// Whether an API server takes it as the value of a label: the name of a service account may be
/// longer.
fn fits(value: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric();
    let ends =
        value.bytes().next().is_none_or(is_plain) && value.bytes().last().is_none_or(is_plain);
    let all = value.bytes().all(|byte| is_plain(byte) || b"-_.".contains(&byte));
    ends && all && value.len() <= LABEL_VALUE_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, object: Value) -> Option<(IdentityId, Entry)> {
        let key = ObjectKey { namespace: String::new(), name: name.to_owned() };
        identity((key, Some(object.into())), ClusterId(0))
    }

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        let long = "x".repeat(64);
        let given = ["k8s:app=web", "k8s:io.cilium.k8s.namespace.labels.team=a", "any:x=y"];
        let mut labels = Labels::parse(given).unwrap();
        labels.insert(Label::new("k8s", "io.cilium.k8s.policy.serviceaccount", long));
        let mut object = document(IdentityId(4242), &labels);
        assert_eq!(object["metadata"]["labels"], json!({ "app": "web" }));
        let labels = Arc::new(labels);
        let entry = Entry::Labels(Arc::clone(&labels));
        assert_eq!(read("4242", object.clone()), Some((IdentityId(4242), entry)));
        object["metadata"]["annotations"] = json!({ HEARTBEAT: "2026-01-01T00:00:00Z" });
        assert_eq!(read("4242", object), Some((IdentityId(4242), Entry::Marked(labels))));
    }

    #[test]
    fn what_is_no_identity_is_left_out_and_its_number_is_taken() {
        let good = json!({ "security-labels": { "k8s:app": "web" } });
        for name in ["web", "0300", "+300", "255", "65536", "-1", ""] {
            assert_eq!(read(name, good.clone()), None, "{name}");
        }
        for labels in
            [json!(null), json!({}), json!("x"), json!({ "app": "x" }), json!({ "k8s:a": 1 })]
        {
            let object = json!({ "security-labels": labels });
            assert_eq!(read("300", object), Some((IdentityId(300), Entry::Unreadable)), "{labels}");
        }
    }
}
