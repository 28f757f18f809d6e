//! For the fuzzer: what documents say of services.

use std::{collections::BTreeSet, rc::Rc};

use super::reported::ReportedServices;
use crate::{
    model::{ApiObject, Manifest},
    ports::ObjectKey,
};

/// Takes documents in as a file's and, one by one, as the cluster's. A file that is taken in once more
/// changes nothing, and nothing stays of one that is gone.
pub(crate) fn documents(documents: &[ApiObject]) {
    let mut reported = ReportedServices::default();
    let apply = |reported: &mut ReportedServices, objects: &[ApiObject]| {
        let mut changed = BTreeSet::new();
        let manifest = Manifest { source: "fuzz.yaml".to_owned(), objects: Ok(objects.to_vec()) };
        reported.apply(manifest, "node", &mut changed);
        changed
    };
    apply(&mut reported, documents);
    let again = apply(&mut reported, documents);
    // Who was held for what is refused is looked at anew.
    let is_held = reported.refusals().all().next().is_some();
    assert!(is_held || again.is_empty(), "the same documents change {again:?}");
    apply(&mut reported, &[]);
    assert_eq!(reported.services().count(), 0, "of a file that is gone something stays");
    let (cluster, mut changed) = (Rc::from("cluster"), BTreeSet::new());
    for (nth, document) in documents.iter().enumerate() {
        let key = ObjectKey { namespace: "default".to_owned(), name: format!("object-{nth}") };
        reported.apply_object(&cluster, &key, document, "node", &mut changed);
    }
}
