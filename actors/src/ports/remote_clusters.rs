//! The port to the other clusters of a mesh: which there are, and a store for each.

use std::{collections::BTreeMap, rc::Rc};

use super::KvStore;

/// The way to another cluster's store.
#[derive(Clone)]
pub struct Way {
    /// The store. It is only read.
    pub store: Rc<dyn KvStore>,
    /// Another one after each change of how it is reached.
    pub version: u64,
}

/// Where it is told which clusters there are, by name, on the actors' thread; false if it could not
/// be taken.
pub type ClustersSink = Box<dyn FnMut(BTreeMap<String, Way>) -> bool>;

/// The other clusters of a mesh, as an operator names them.
pub trait RemoteClusters {
    /// Tells which there are once that is known, and after each change.
    fn follow(&self, tell: ClustersSink);
}
