//! The objects that a cluster needs for Volvox, as the programs bring them: the agent and the
//! operator register the definitions, the installer applies all.
//!
//! `daemonset.yaml` is the template. [`Values`] change it; [`objects`] gives the result.

mod chart;
mod kinds;
pub mod monitoring;
mod names;
mod objects;
mod settings;
#[cfg(test)]
mod tests;
mod values;

use serde_json::Value;
use volvox_inspect::manifests;

pub use self::{
    chart::{ChartFile, chart},
    objects::{HASH, MANAGED_BY, MANAGER, NAME, PART_OF, VALUES, for_server, objects, record},
    settings::{SETTINGS, Setting},
    values::{ValueError, Values},
};

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
