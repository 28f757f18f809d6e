//! A history's objects in a real API server, in place of manifests in a directory.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    chaos::history::{History, Labels, ManifestName, Name, Step},
    lab::{ApiServer, Etcd, NODE_NAME, Node, Pod, Proxy, objects, wait_for},
};

/// The server, with an etcd of its own.
pub(super) struct Cluster {
    pub(super) server: ApiServer,
    pub(super) proxy: Option<Proxy>,
    _etcd: Etcd,
    namespaces: BTreeSet<String>,
    /// In which version it has EndpointSlices.
    discovery: String,
}

/// Where the server has services for itself.
pub(super) const OWN_ADDRESS: &str = "10.96.0.1";

impl Cluster {
    /// Starts it, with the definitions of the kinds that the history applies.
    pub(super) fn start(history: &History, node: &Node) -> Result<Self> {
        let program = ApiServer::find().context("there is no kube-apiserver")?;
        let etcd = Etcd::start_beside(&node.path("etcd-of-api-server"), None)?;
        let server = ApiServer::start(program, &node.path("api-server"), &etcd)?;
        let discovery = objects::discovery(server.client())?;
        let namespaces = ["default", "kube-system"].map(String::from).into();
        let cluster = Self { server, proxy: None, _etcd: etcd, namespaces, discovery };
        cluster.define(history)?;
        Ok(cluster)
    }

    fn define(&self, history: &History) -> Result<()> {
        let later = history.all_steps().into_iter().filter_map(|step| match step {
            Step::Apply(manifests) => Some(manifests),
            _ => None,
        });
        let all = history.manifests.iter().chain(later.flatten());
        let kinds: BTreeSet<_> = all.map(|manifest| manifest.name.kind.as_str()).collect();
        let client = self.server.client();
        for kind in kinds {
            match kind {
                "ciliumnetworkpolicy" => objects::define(
                    client,
                    "ciliumnetworkpolicies",
                    "CiliumNetworkPolicy",
                    "Namespaced",
                )?,
                "ciliumclusterwidenetworkpolicy" => objects::define(
                    client,
                    "ciliumclusterwidenetworkpolicies",
                    "CiliumClusterwideNetworkPolicy",
                    "Cluster",
                )?,
                "clusternetworkpolicy" => objects::define_ranked(client)?,
                _ => continue,
            }
            let path = self.path(kind, "default");
            wait_for("a definition is served", || Ok(client.get(&path).is_ok()))?;
        }
        Ok(())
    }

    /// Where objects of a kind are.
    fn path(&self, kind: &str, namespace: &str) -> String {
        let discovery = &self.discovery;
        match kind {
            "namespace" => "/api/v1/namespaces".into(),
            "pod" => format!("/api/v1/namespaces/{namespace}/pods"),
            "service" => format!("/api/v1/namespaces/{namespace}/services"),
            "endpointslice" => {
                format!("/apis/discovery.k8s.io/{discovery}/namespaces/{namespace}/endpointslices")
            }
            "networkpolicy" => {
                format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies")
            }
            "ciliumnetworkpolicy" => {
                format!("/apis/cilium.io/v2/namespaces/{namespace}/ciliumnetworkpolicies")
            }
            "ciliumclusterwidenetworkpolicy" => {
                "/apis/cilium.io/v2/ciliumclusterwidenetworkpolicies".into()
            }
            _ => "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies".into(),
        }
    }

    fn make_namespace(&mut self, name: &str) -> Result<()> {
        if self.namespaces.insert(name.to_owned()) {
            let object =
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            self.server.client().put(&self.path("namespace", name), &object)?;
        }
        Ok(())
    }

    /// Applies an object; as the server has it then.
    pub(super) fn apply(&mut self, name: &ManifestName, object: &Value) -> Result<Value> {
        self.make_namespace(&name.name.namespace)?;
        let mut object = object.clone();
        if name.kind == "endpointslice" {
            object["apiVersion"] = json!(format!("discovery.k8s.io/{}", self.discovery));
        }
        self.server.client().put(&self.path(&name.kind, &name.name.namespace), &object)
    }

    /// Takes an object away.
    pub(super) fn take_away(&self, name: &ManifestName) -> Result<()> {
        let path = self.path(&name.kind, &name.name.namespace);
        self.server.client().delete(&format!("{path}/{}", name.name.name))
    }

    /// Makes a pod's object, or gives the one that is there these labels and no other; its UID.
    pub(super) fn pod(&mut self, name: &Name, labels: &Labels) -> Result<String> {
        self.make_namespace(&name.namespace)?;
        let path = self.path("pod", &name.namespace);
        let client = self.server.client();
        let mut object = match client.get(&format!("{path}/{}", name.name)) {
            Ok(there) => there,
            Err(_) => json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": name.name, "namespace": name.namespace },
                "spec": { "nodeName": NODE_NAME, "containers": [{ "name": "main", "image": "lab" }] },
            }),
        };
        object["metadata"]["labels"] = json!(labels);
        let there = client.put(&path, &object)?;
        Ok(there["metadata"]["uid"].as_str().context("the server gives a pod no UID")?.to_owned())
    }

    /// Removes a pod's object.
    pub(super) fn forget(&self, pod: &Pod) -> Result<()> {
        let path = self.path("pod", &pod.namespace);
        self.server.client().delete(&format!("{path}/{}", pod.name))
    }

    /// Applies who is behind services.
    pub(super) fn follow(&mut self, slices: &[Value]) -> Result<()> {
        for slice in slices {
            let of = |word: &str| slice["metadata"][word].as_str().unwrap_or_default().to_owned();
            let name = Name { namespace: of("namespace"), name: of("name") };
            self.apply(&ManifestName { kind: "endpointslice".into(), name }, slice)?;
        }
        Ok(())
    }
}
