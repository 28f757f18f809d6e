//! The objects that a cluster needs for Volvox, as the programs bring them: the agent and the
//! operator register the definitions, the installer applies all.

use serde_json::Value;
use volvox_inspect::manifests;

/// The CustomResourceDefinitions of Cilium's kinds, each a file beside this crate.
const DEFINITIONS: [&str; 11] = [
    include_str!("../crds/ciliumcidrgroups.yaml"),
    include_str!("../crds/ciliumclusterwidenetworkpolicies.yaml"),
    include_str!("../crds/ciliumendpoints.yaml"),
    include_str!("../crds/ciliumendpointslices.yaml"),
    include_str!("../crds/ciliumidentities.yaml"),
    include_str!("../crds/ciliuml2announcementpolicies.yaml"),
    include_str!("../crds/ciliumloadbalancerippools.yaml"),
    include_str!("../crds/ciliumnetworkpolicies.yaml"),
    include_str!("../crds/ciliumnodeconfigs.yaml"),
    include_str!("../crds/ciliumnodes.yaml"),
    include_str!("../crds/ciliumpodippools.yaml"),
];

/// The CustomResourceDefinitions of Cilium's kinds, whose label names the version of their schemas.
pub fn definitions() -> Vec<Value> {
    // A file of this crate that cannot be read fails its test, not a cluster.
    let texts = DEFINITIONS.into_iter();
    texts.flat_map(|text| manifests::objects(text).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[test]
    fn every_file_is_one_definition_of_its_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let files: BTreeSet<String> =
            files.map(|file| file.into_string().unwrap().replace(".yaml", ".cilium.io")).collect();
        let named = definitions();
        let names = named.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned());
        assert_eq!(names.collect::<BTreeSet<_>>(), files);
        assert_eq!(named.len(), DEFINITIONS.len());
    }
}
