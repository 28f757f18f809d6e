//! A node of cluster 1 that reads others: what they say, and what becomes of it.

mod ends;
mod objects;
mod stores;

use serde_json::json;

use crate::{
    cluster::{
        clustermesh::{MeshMsg, RemoteView},
        sharing::tests::store::fixture::{fixture, make, mapped, peers},
    },
    model::ClusterId,
    testing::{MemoryKvStore, MemoryRemoteClusters, World, allow_from},
};

/// Number of an identity that cluster `b` hands out.
const CLIENT: u32 = 2 << 16 | 300;

/// A node that may read other clusters, with a pod that lets in clients of cluster `b`.
struct Region {
    world: World,
    own: MemoryKvStore,
    clusters: MemoryRemoteClusters,
}

impl Region {
    fn new() -> Self {
        let (mut world, own) = fixture();
        let clusters = MemoryRemoteClusters::default();
        world.clusters = Some(clusters.clone());
        (world.settings.kvstore.cluster_id, world.settings.kvstore.meshed) = (ClusterId(1), true);
        let clients = json!({ "fromEndpoints": [{ "matchLabels": {
            "app": "client", "io.cilium.k8s.policy.cluster": "b",
        } }] });
        world.apply("web", [allow_from("web", clients)]);
        Self { world, own, clusters }
    }

    /// The same, with the pod, and with cluster `b` as [`b`] makes it.
    fn meshed() -> (Self, MemoryKvStore) {
        let (mut region, b) = (Self::new(), b());
        region.clusters.configure("b", &b);
        region.world.boot();
        make(&mut region.world, 1, "web");
        (region, b)
    }

    fn views(&self) -> Vec<RemoteView> {
        self.world.ask(self.world.node_supervisor().mesh.as_ref().unwrap(), MeshMsg::Show)
    }

    fn view(&self, cluster: &str) -> RemoteView {
        self.views().into_iter().find(|view| &*view.cluster == cluster).unwrap()
    }

    fn mapped(&self, prefix: &str) -> Option<u32> {
        mapped(&self.world, prefix)
    }

    /// Whether the policy of the pod lets clients of cluster `b` in.
    fn lets_in(&self) -> bool {
        peers(&self.world, 1).contains(&CLIENT)
    }
}

/// The store of a cluster, with what it says of itself.
fn cluster(name: &str, id: u8) -> MemoryKvStore {
    let store = MemoryKvStore::default();
    store.put(&format!("cilium/cluster-config/{name}"), &format!(r#"{{"id":{id}}}"#));
    store
}

/// That of cluster `b`, number 2, with a client at 10.2.0.1.
fn b() -> MemoryKvStore {
    let store = cluster("b", 2);
    identity(&store, "cilium/state/identities/v1/id/", CLIENT, "b");
    address(&store, "cilium/state/ip/v1/default/", "10.2.0.1", CLIENT);
    store
}

/// A cluster gives labels of a client a number.
fn identity(store: &MemoryKvStore, root: &str, id: u32, cluster: &str) {
    let labels = format!(
        "k8s:app=client;k8s:io.cilium.k8s.policy.cluster={cluster};k8s:io.kubernetes.pod.namespace=ns;"
    );
    store.put(&format!("{root}{id}"), &labels);
}

fn address(store: &MemoryKvStore, root: &str, ip: &str, id: u32) {
    let value = json!({ "IP": ip, "Mask": null, "HostIP": "198.51.100.7", "ID": id });
    store.put(&format!("{root}{ip}"), &value.to_string());
}

fn node(store: &MemoryKvStore, root: &str, cluster: &str, name: &str, ip: &str) {
    let addresses = json!([{ "Type": "InternalIP", "IP": ip }]);
    let value = json!({ "Name": name, "Cluster": cluster, "IPAddresses": addresses });
    store.put(&format!("{root}{cluster}/{name}"), &value.to_string());
}

fn service(store: &MemoryKvStore, cluster: &str, name: &str, shared: bool) {
    let port = json!({ "http": { "Protocol": "TCP", "Port": 80 } });
    let value = json!({
        "cluster": cluster, "namespace": "ns", "name": name, "shared": shared,
        "frontends": { "10.96.0.1": port }, "backends": { "10.2.0.1": port },
        "labels": {}, "selector": {}, "includeExternal": true, "clusterID": 2,
    });
    store.put(&format!("cilium/state/services/v1/{cluster}/ns/{name}"), &value.to_string());
}
