//! An API server that agents follow in place of manifests: it has an object for each of them.

use serde_json::json;
use volvox_actors_simulated::testing::MemoryCluster;

use super::node::Node;
use crate::{history::events::ApiServerEvent, model::manifests::policy_object};

impl Node {
    /// The next agent, and all behind it, follow an API server, which is slow.
    pub(crate) fn follow_api_server(&mut self) {
        if self.world.cluster.is_none() {
            let cluster = MemoryCluster::new();
            cluster.be_slow();
            self.world.cluster = Some(cluster);
            let names: Vec<String> = self.world.manifests.keys().cloned().collect();
            self.tell(&names);
            self.kill();
            self.boot(true);
        }
    }

    /// Something happens to that server.
    pub(crate) fn api_server(&mut self, what: ApiServerEvent) {
        let Some(cluster) = &self.world.cluster else { return };
        match what {
            ApiServerEvent::Down => cluster.set_down(true),
            ApiServerEvent::Hung => cluster.set_hung(true),
            ApiServerEvent::Up => {
                cluster.set_hung(false);
                cluster.set_down(false);
            }
            ApiServerEvent::Compacted => cluster.compact(),
            ApiServerEvent::Repeats => cluster.repeat(),
            ApiServerEvent::Restored => cluster.rewind(),
        }
    }

    /// Things that the API server said and that are on their way.
    pub(crate) fn api_server_jobs(&self) -> usize {
        self.world.cluster.as_ref().map_or(0, MemoryCluster::jobs)
    }

    /// One of them arrives.
    pub(crate) fn step_api_server(&self, nth: usize) {
        if let Some(cluster) = &self.world.cluster {
            cluster.step(nth);
        }
    }

    /// The API server holds a policy that nobody understands, for a moment. Who has not heard of
    /// the one before could not keep that.
    pub(crate) fn serve_rubbish(&mut self, name: String) {
        let alive = self.world.is_alive();
        let Some(cluster) = self.world.cluster.as_ref().filter(|it| alive && it.is_heard()) else {
            return;
        };
        let policies = self.world.manifests.get(&name).map(Vec::as_slice).unwrap_or_default();
        if policies.first().is_some_and(|first| first["kind"] != "Pod") {
            let mut object = policy_object(&name, policies);
            // Known to no kind of policy, or not of this form.
            object["specs"] = json!("rubbish");
            cluster.apply(object);
            self.news.rubbish.insert(name.clone());
            self.changed(name, false);
        }
    }

    /// It holds what it should again.
    pub(crate) fn clear_rubbish(&mut self) {
        let names: Vec<String> = std::mem::take(&mut self.news.rubbish).into_iter().collect();
        if !names.is_empty() {
            self.tell(&names);
        }
    }
}
