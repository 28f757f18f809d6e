//! Whether somebody noticed: what demo and chaos judge a run by.
//!
//! A [`Judge`] is there while things happen to a node. It holds the traffic, knows what must not move, and
//! looks at the hooks of pods all the time. In the end it asks `volvox verify` what differs on the node, and
//! says what it [found](Finding), each with the guarantee that it is about.

mod finding;
mod leftovers;
mod verified;
mod watcher;

use anyhow::Result;
use volvox_actors::node::verification::NodeDifference;

pub use finding::{Finding, MEASURED, Measure, Verdict, significant_time};
pub use leftovers::{Leftovers, leftovers, more};
pub use verified::{differences, findings};
pub use watcher::Watcher;

use crate::{
    lab::{Inventory, Node, Pod},
    traffic::{Report, Stream, stop_all},
};

/// Looks on while things happen to a node.
pub struct Judge {
    before: Inventory,
    flows: Vec<Stream>,
    denied: Vec<Stream>,
    watcher: Watcher,
}

/// What became of it.
#[derive(Debug)]
pub struct Judgement {
    /// Of each stream that should flow, in the order in which they began.
    pub reports: Vec<Report>,
    /// Packets that got through although they should be denied.
    pub let_through: u64,
    /// Endpoints of before whose numbers are others, or that are gone.
    pub moved: u64,
    /// What moved, in words.
    pub changes: Vec<String>,
    /// Endpoints of before.
    pub endpoints: usize,
    /// Hooks that were seen without a program.
    pub dips: u64,
    /// What differs in the end between kernel, disk and what the agent wants.
    pub differences: Vec<NodeDifference>,
}

impl Judge {
    /// Begins with what there is on the node.
    pub fn begin(node: &Node) -> Result<Self> {
        let before = Inventory::read(node)?;
        let watcher = Watcher::start()?;
        Ok(Self { before, flows: Vec::new(), denied: Vec::new(), watcher })
    }

    /// Nothing of this may be lost.
    pub fn flows(&mut self, stream: Stream) {
        self.flows.push(stream);
    }

    /// Nothing of this may get through.
    pub fn denied(&mut self, stream: Stream) {
        self.denied.push(stream);
    }

    /// Looks at the hooks of these pods from now on.
    pub fn watch(&mut self, pods: &[&Pod]) -> Result<()> {
        pods.iter().try_for_each(|pod| self.watcher.watch(pod))
    }

    /// Does not look at this one any more: it goes.
    pub fn unwatch(&self, pod: &Pod) {
        self.watcher.unwatch(pod);
    }

    /// What must not move.
    pub fn inventory(&mut self) -> &mut Inventory {
        &mut self.before
    }

    /// What should flow.
    pub fn streams(&self) -> &[Stream] {
        &self.flows
    }

    /// Ends the traffic, and says what became of it. An agent must run, and have done all that it was told.
    pub fn end(self, node: &Node) -> Result<Judgement> {
        let let_through = self.denied.iter().map(Stream::answers).sum();
        drop(self.denied);
        let reports = stop_all(self.flows)?;
        let after = Inventory::read(node)?;
        let (moved, changes) = (self.before.moved(&after) as u64, self.before.changes(&after));
        let dips = self.watcher.stop()?;
        let (endpoints, differences) = (self.before.len(), differences(node)?);
        Ok(Judgement { reports, let_through, moved, changes, endpoints, dips, differences })
    }
}

impl Judgement {
    /// Packets and connections that were lost of what should flow.
    pub fn lost(&self) -> u64 {
        self.reports.iter().map(|report| report.lost + report.failures).sum()
    }

    /// Whether nobody noticed anything: traffic was sent, and all numbers are 0.
    pub fn is_clean(&self) -> bool {
        self.reports.iter().all(Report::is_clean)
            && self.let_through == 0
            && self.moved == 0
            && self.dips == 0
            && self.differences.is_empty()
    }
}
