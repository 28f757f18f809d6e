//! How a source comes to life.

use std::rc::Rc;

use super::{ClusterMsg, SourceMsg, listing::Telling, source::Source};
use crate::{
    host::{Host, Ref},
    ports::{Cluster, Resource},
};

/// Capacity of a source's mailbox, messages.
pub(super) const SOURCE_CAPACITY: usize = 64;

/// Brings a source to life which tells another supervisor than that of a node, with each page of a list:
/// that of a large cluster need not fit into memory.
pub(crate) fn spawn_source(
    host: &Host,
    cluster: Rc<dyn Cluster>,
    supervisor: Ref<ClusterMsg>,
    number: usize,
    forms: Vec<Resource>,
    seed: u64,
) -> Ref<SourceMsg> {
    let name = format!("cluster {}", forms[0].name);
    let source = Source::factory(cluster, supervisor, number, forms, (false, Telling::Pages), seed);
    host.spawn(name, SOURCE_CAPACITY, source)
}
