//! The node as part of a mesh: what another cluster does, and that agents read it.

use super::{
    node::Node,
    remote_cluster::{RemoteCluster, pods},
    store_events::affect,
};
use crate::{history::events::StoreEvent, model::policies::App};

impl Node {
    /// From the next agent on, all read another cluster.
    pub(crate) fn mesh_clusters(&mut self) {
        if self.remote_cluster.is_some() {
            return;
        }
        let remote = RemoteCluster::new();
        self.world.clusters = Some(remote.clusters.clone());
        let settings = &mut self.world.settings;
        settings.kvstore.meshed = true;
        // Its node has labels, which have numbers then.
        settings.policy.node_selectors = true;
        // The model's policies know no clusters.
        if let Some(cluster) = &mut settings.policy.cluster {
            cluster.by_default = false;
        }
        self.remote_cluster = Some(remote);
        self.kill();
        self.boot(true);
    }

    /// Something happens to its store.
    pub(crate) fn remote_store(&self, what: StoreEvent) {
        if let Some(cluster) = &self.remote_cluster {
            affect(&cluster.store, what);
        }
    }

    /// It is configured from now on, or not any more.
    pub(crate) fn configure_remote_cluster(&mut self, configured: bool) {
        let Some(cluster) = &mut self.remote_cluster else { return };
        if !cluster.configure(configured) {
            return;
        }
        let mut oracle = self.oracle.borrow_mut();
        for number in pods() {
            oracle.expected.remote_is(number, cluster.app(number).filter(|_| configured));
        }
    }

    /// A pod of it is that from now on, or is not there any more.
    pub(crate) fn remote_cluster_pod(&mut self, number: u8, app: Option<App>) {
        let Some(cluster) = &mut self.remote_cluster else { return };
        let mut oracle = self.oracle.borrow_mut();
        oracle.expected.remote_is(number, app);
        if !cluster.configured {
            // Who has not heard yet that it is not read any more may see it all the same.
            oracle.expected.remote_is(number, None);
        }
        drop(oracle);
        cluster.set_pod(number, app);
    }

    /// Things that its store has to say.
    pub(crate) fn remote_store_jobs(&self) -> usize {
        let now = self.world.life().universe.host.now();
        self.remote_cluster.as_ref().map_or(0, |cluster| cluster.store.jobs(now))
    }

    /// It says one of them.
    pub(crate) fn step_remote_store(&self, nth: usize) {
        let now = self.world.life().universe.host.now();
        if let Some(cluster) = &self.remote_cluster {
            cluster.store.step(now, nth);
        }
    }
}
