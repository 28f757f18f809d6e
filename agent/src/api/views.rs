//! How all parts of the agent stand, asked once for one answer.

use std::sync::Arc;

use volvox_actors::{
    cluster::{
        api_server::{ClusterMsg, SourceStatus},
        clustermesh::MeshMsg,
        definitions::{DefinitionStatus, DefinitionsMsg},
        publish::{PublisherMsg, Unpublished},
        remote_nodes::{RemoteNodesMsg, RemoteNodesView},
    },
    endpoints::{endpoint::EndpointView, supervisor::EndpointsMsg},
    host::Time,
    model::Labels,
    node::{
        auditor::{AuditView, AuditorMsg},
        devices::{DevicesMsg, DevicesStatus},
        local_node::{NodeMsg, NodeStatus},
        routes::{RoutesMsg, RoutesView},
    },
    node_supervisor::NodeSupervisor,
    policy::{
        ipcache::{IpcacheMsg, IpcacheView},
        rules::{PolicyMsg, RefusedPolicy},
    },
    restore::{RestoreMsg, RestoreReport},
    services::service_cache::ServicesStatus,
};
use volvox_rest::models::{RemoteCluster, Source, Status};

use super::{
    Api, container_runtime, mesh, services,
    sharing::Sharing,
    sources::{self, Streams},
    troubles::{Trouble, of_host},
    verify::{verify, verify_devices},
};
use crate::{gateway::GatewayError, kube_proxy::KubeProxy};

/// What each part says. Parts that this agent does not have say nothing.
#[derive(Clone, Debug)]
pub(super) struct Views {
    pub(super) now: Time,
    /// What is wrong with the actors themselves.
    pub(super) host: Vec<Trouble>,
    pub(super) listed: Option<Vec<SourceStatus>>,
    pub(super) definitions: Option<Vec<DefinitionStatus>>,
    pub(super) unpublished: Option<Vec<Unpublished>>,
    pub(super) endpoints: Vec<Arc<EndpointView>>,
    pub(super) restore: Arc<RestoreReport>,
    pub(super) audit: Arc<AuditView>,
    pub(super) sharing: Option<Sharing>,
    pub(super) nodes: Option<RemoteNodesView>,
    pub(super) mesh: Option<Vec<RemoteCluster>>,
    pub(super) services: ServicesStatus,
    pub(super) devices: DevicesStatus,
    pub(super) routes: RoutesView,
    pub(super) ipcache: IpcacheView,
    pub(super) node: NodeStatus,
    pub(super) sources: Vec<Source>,
    pub(super) refused: Vec<RefusedPolicy>,
    pub(super) kube_proxy: KubeProxy,
    pub(super) runtime: Option<Status>,
}

impl Views {
    /// Asks everyone, after the kernel.
    ///
    /// While many endpoints restore, every round through the actors' thread takes its time, and there is
    /// little to ask the kernel: so all are asked at once, and those again of whom it had something to say.
    pub(super) async fn ask(api: &Api, what: &'static str) -> Result<Self, GatewayError> {
        let kube_proxy = api.kube_proxy.look(api.facts.procfs.clone());
        let looks = async { tokio::join!(verify(api, None), verify_devices(api), kube_proxy) };
        let ((endpoints, devices, kube_proxy), views) =
            tokio::join!(looks, Self::gather(api, what));
        let mut views = Self { kube_proxy, ..views? };
        if endpoints {
            views.endpoints = list(api, what).await?;
        }
        if devices {
            views.devices = shown_devices(api, what).await?;
        }
        Ok(views)
    }

    async fn gather(api: &Api, what: &'static str) -> Result<Self, GatewayError> {
        let (
            (host, now),
            listed,
            definitions,
            unpublished,
            endpoints,
            restore,
            audit,
            sharing,
            nodes,
            remotes,
            services,
            devices,
            routes,
            ipcache,
            node,
            streams,
            refused,
        ) = tokio::try_join!(
            api.gateway.look(|node_supervisor: &NodeSupervisor| (
                of_host(&node_supervisor.host),
                node_supervisor.host.now()
            )),
            api.gateway.ask_if(what, |node| node.cluster.as_ref(), ClusterMsg::Show),
            api.gateway.ask_if(what, |node| node.definitions.as_ref(), DefinitionsMsg::Show),
            api.gateway.ask_if(what, |node| node.publisher.as_ref(), PublisherMsg::Show),
            list(api, what),
            api.gateway.ask(what, |node| &node.restore, RestoreMsg::Report),
            api.gateway.ask(what, |node| &node.auditor, AuditorMsg::Show),
            Sharing::gather(api, what),
            api.gateway.ask_if(what, |node| node.nodes.as_ref(), RemoteNodesMsg::Show),
            api.gateway.ask_if(what, |node| node.mesh.as_ref(), MeshMsg::Show),
            services::gather(api, what),
            shown_devices(api, what),
            api.gateway.ask(what, |node| &node.routes, RoutesMsg::Show),
            api.gateway.ask(what, |node| &node.ipcache, IpcacheMsg::Show),
            api.gateway.ask(what, |node| &node.node, NodeMsg::Show),
            Streams::ask(api, what),
            api.gateway.ask(what, |node| &node.policy, PolicyMsg::Refused),
        )?;
        let sources = sources::all(&api.ears, &streams, listed.as_deref(), remotes.as_deref());
        let mesh = remotes.map(|remotes| mesh::status(&remotes, sharing.as_ref(), nodes.as_ref()));
        Ok(Self {
            now,
            host,
            listed,
            definitions,
            unpublished,
            endpoints,
            restore,
            audit,
            sharing,
            nodes,
            mesh,
            services,
            devices,
            routes,
            ipcache,
            node,
            sources,
            refused,
            kube_proxy: KubeProxy::Unknown,
            runtime: streams.runtime.as_ref().map(container_runtime::status),
        })
    }
}

async fn list(api: &Api, what: &'static str) -> Result<Vec<Arc<EndpointView>>, GatewayError> {
    let list = |reply| EndpointsMsg::List { labels: Labels::default(), reply };
    api.gateway.ask(what, |node| &node.endpoints, list).await
}

async fn shown_devices(api: &Api, what: &'static str) -> Result<DevicesStatus, GatewayError> {
    api.gateway.ask(what, |node| &node.devices, DevicesMsg::Show).await
}
