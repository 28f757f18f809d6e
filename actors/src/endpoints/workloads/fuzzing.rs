//! For the fuzzer: what documents say of pods, namespaces and nodes.

use super::reported::ReportedWorkloads;
use crate::{
    model::{ApiObject, Manifest, Readership},
    ports::ObjectKey,
};

/// Takes documents in as a file's, and those of nodes as the cluster's. A file that is taken in once
/// more changes nothing.
pub(crate) fn documents(documents: &[ApiObject]) {
    let mut reported = ReportedWorkloads::new("default".to_owned(), "node".to_owned());
    let manifest = || Manifest { source: "fuzz.yaml".to_owned(), objects: Ok(documents.to_vec()) };
    let changed = reported.apply(vec![manifest()]);
    for ((namespace, name), facts) in changed {
        let place = |label: &crate::model::Label| label.key == "io.kubernetes.pod.namespace";
        let of = facts.labels.iter().find(|label| place(label)).map(|label| label.value.clone());
        assert_eq!(of, Some(namespace), "{name} is not where it is said to be");
    }
    let again = reported.apply(vec![manifest()]);
    assert!(again.is_empty(), "the same documents change {again:?}");
    let objects = documents.iter().map(|document| {
        let key = ObjectKey { namespace: String::new(), name: "node".to_owned() };
        let text = document.to_json().to_string();
        (key, ApiObject::of_server("Node", "v1", &text, Readership::Agent).ok())
    });
    reported.node(objects.collect());
    reported.relabelled();
}
