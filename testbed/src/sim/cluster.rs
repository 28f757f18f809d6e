//! An API server that agents follow in place of manifests: it has an object for each of them.

use serde_json::json;
use volvox_actors_simulated::testing::MemoryCluster;

use super::{
    around::Server,
    guard,
    model::{App, pod_document, policy_object},
    node::Node,
    served,
};

impl Node {
    /// The next agent, and all behind it, follow an API server, which is slow.
    pub(super) fn follow(&mut self) {
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

    pub(super) fn server(&mut self, what: Server) {
        let Some(cluster) = &self.world.cluster else { return };
        match what {
            Server::Down => cluster.set_down(true),
            Server::Hung => cluster.set_hung(true),
            Server::Up => {
                cluster.set_hung(false);
                cluster.set_down(false);
            }
            Server::Compacted => cluster.compact(),
            Server::Repeats => cluster.repeat(),
            Server::Restored => cluster.rewind(),
        }
    }

    /// Things that the API server said and that are on their way.
    pub(super) fn said(&self) -> usize {
        self.world.cluster.as_ref().map_or(0, MemoryCluster::jobs)
    }

    /// One of them arrives.
    pub(super) fn hear(&self, nth: usize) {
        if let Some(cluster) = &self.world.cluster {
            cluster.step(nth);
        }
    }

    /// Has the agent know what these manifests hold now, or the API server have it.
    pub(super) fn tell(&self, names: &[String]) {
        let Some(cluster) = &self.world.cluster else { return self.world.tell_manifests(names) };
        for name in names {
            let guard = guard::object_of(name).map(|object| vec![object]);
            if let Some(all) = guard.or_else(|| served::all_of(name)) {
                match self.world.manifests.get(name).map(Vec::as_slice) {
                    Some(objects @ [_, ..]) => {
                        objects.iter().for_each(|object| cluster.apply(object.clone()));
                    }
                    _ => all.iter().for_each(|object| cluster.delete(object)),
                }
                continue;
            }
            match self.world.manifests.get(name).map(Vec::as_slice) {
                Some([pod]) if pod["kind"] == "Pod" => cluster.apply(pod.clone()),
                Some(policies @ [_, ..]) => cluster.apply(policy_object(name, policies)),
                Some([]) | None => {
                    // One of these is not there, and going once more changes nothing.
                    cluster.delete(&policy_object(name, &[]));
                    cluster.delete(&pod_document(name, App::None));
                }
            }
        }
    }

    /// The API server holds a policy that nobody understands, for a moment. Who has not heard of
    /// the one before could not keep that.
    pub(super) fn serve_rubbish(&mut self, name: String) {
        let alive = self.world.is_alive();
        let Some(cluster) = self.world.cluster.as_ref().filter(|it| alive && it.is_heard()) else {
            return;
        };
        let policies = self.world.manifests.get(&name).map(Vec::as_slice).unwrap_or_default();
        if policies.first().is_some_and(|first| first["kind"] != "Pod") {
            let mut object = policy_object(&name, policies);
            object["specs"] = json!("rubbish");
            cluster.apply(object);
            self.rubbish.insert(name.clone());
            self.changed(name, false);
        }
    }

    /// It holds what it should again.
    pub(super) fn clear_rubbish(&mut self) {
        let names: Vec<String> = std::mem::take(&mut self.rubbish).into_iter().collect();
        if !names.is_empty() {
            self.tell(&names);
        }
    }
}
