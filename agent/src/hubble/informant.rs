//! What the actors know of who is behind addresses and numbers, as flows name it.

use std::{collections::BTreeMap, fs, net::IpAddr, path::Path, sync::Arc};

use ipnet::IpNet;
use volvox_actors::{
    cluster::remote_nodes::RemoteNodesMsg,
    endpoints::{endpoint::EndpointView, supervisor::EndpointsMsg},
    model::Labels,
    node::local_node::NodeMsg,
    policy::{
        identity::IdentityMsg,
        ipcache::IpcacheMsg,
        rules::{ClauseOrigin, PolicyMsg},
    },
    services::service_cache::{ServiceView, ServicesMsg},
};
use volvox_hubble::{
    messages::{FlowEndpoint, FlowPolicy, FlowService},
    names::{Policies, Remote, Snapshot},
    observer::{Informant, Later},
    peers::{PeerNode, Peers},
};

use crate::{
    config::Config,
    gateway::{Gateway, GatewayError},
    node_name::node_name,
};

/// Where the kernel lists interfaces.
const INTERFACES: &str = "/sys/class/net";
/// How many interfaces are named.
const INTERFACES_MAX: usize = 16_384;
/// What an actor is asked for.
const NAMES: &str = "names of flows";

/// Asks the actors.
pub(super) struct ActorsInformant {
    gateway: Gateway,
    cluster: String,
    node: String,
}

impl ActorsInformant {
    pub(super) fn new(config: &Config, gateway: Gateway) -> Self {
        Self { gateway, cluster: config.cluster_name.clone(), node: node_name() }
    }

    async fn look(&self) -> Result<Snapshot, GatewayError> {
        let gateway = &self.gateway;
        let all = |reply| EndpointsMsg::List { labels: Labels::default(), reply };
        let (endpoints, identities, ipcache, services, origins) = tokio::try_join!(
            gateway.ask(NAMES, |node| &node.endpoints, all),
            gateway.ask(NAMES, |node| &node.identities, IdentityMsg::List),
            gateway.ask(NAMES, |node| &node.ipcache, IpcacheMsg::List),
            gateway.ask(NAMES, |node| &node.services, ServicesMsg::List),
            gateway.ask(NAMES, |node| &node.policy, PolicyMsg::Origins),
        )?;
        let named = |(prefix, entry): (IpNet, _)| {
            let entry: volvox_actors::policy::ipcache::IpcacheEntry = entry;
            (prefix, Remote { identity: entry.identity.0 })
        };
        let labelled = identities.iter().map(|it| (it.id.0, Arc::new(sorted(&it.labels))));
        Ok(Snapshot {
            endpoints: endpoints_by_address(&endpoints, &self.cluster),
            identities: labelled.collect(),
            prefixes: ipcache.into_iter().map(named).collect(),
            services: services.iter().filter_map(service).collect(),
            policies: origins.into_iter().map(|(id, all)| (id, policies(&all))).collect(),
            interfaces: interfaces(Path::new(INTERFACES)),
        })
    }

    async fn nodes(&self) -> Result<Peers, GatewayError> {
        let gateway = &self.gateway;
        let (own, others) = tokio::try_join!(
            gateway.ask(NAMES, |node| &node.node, NodeMsg::Show),
            gateway.ask_if(NAMES, |node| node.nodes.as_ref(), RemoteNodesMsg::List),
        )?;
        let mut peers = Peers::new();
        let mut add = |node: &str, cluster: &str, addresses: Vec<IpAddr>| {
            let name = match cluster {
                "" | "default" => node.to_owned(),
                cluster => format!("{cluster}/{node}"),
            };
            let (node, cluster) = (node.to_owned(), cluster.to_owned());
            peers.insert(name, PeerNode { node, cluster, addresses });
        };
        add(&self.node, &self.cluster, own.addresses.into_iter().collect());
        for (key, entry) in others.into_iter().flat_map(|list| list.nodes) {
            // As others reach a node: its internal addresses first.
            let (first, rest): (Vec<_>, Vec<_>) =
                entry.addresses.iter().partition(|it| it.kind == "InternalIP");
            let addresses = first.iter().chain(&rest).map(|it| it.ip).collect();
            add(&key.name, &key.cluster, addresses);
        }
        Ok(peers)
    }
}

impl Informant for ActorsInformant {
    fn snapshot(&self) -> Later<'_, Option<Snapshot>> {
        Box::pin(async {
            self.look()
                .await
                .inspect_err(|error| tracing::debug!(%error, "names of flows stay as they are"))
                .ok()
        })
    }

    fn peers(&self) -> Later<'_, Option<Peers>> {
        Box::pin(async { self.nodes().await.ok() })
    }
}

fn endpoints_by_address(
    views: &[Arc<EndpointView>],
    cluster: &str,
) -> BTreeMap<IpAddr, Arc<FlowEndpoint>> {
    let mut all = BTreeMap::new();
    for view in views {
        let endpoint = Arc::new(FlowEndpoint {
            id: view.id.0.into(),
            identity: view.identity.0,
            namespace: view.spec.namespace.clone(),
            labels: sorted(&view.identity_labels),
            pod_name: view.spec.pod_name.clone(),
            workloads: Vec::new(),
            cluster_name: cluster.to_owned(),
        });
        for address in view.spec.addresses.iter() {
            all.insert(address, Arc::clone(&endpoint));
        }
    }
    all
}

fn sorted(labels: &Labels) -> Vec<String> {
    let mut texts: Vec<_> = labels
        .to_texts()
        .into_iter()
        // As Hubble writes them: nothing behind a key without a value.
        .map(|text| text.strip_suffix('=').map(str::to_owned).unwrap_or(text))
        .collect();
    texts.sort();
    texts
}

fn service(view: &ServiceView) -> Option<((IpAddr, u16), FlowService)> {
    let (namespace, name) = view.service.as_ref()?.split_once('/')?;
    let service = FlowService { name: name.to_owned(), namespace: namespace.to_owned() };
    Some(((view.frontend.at.address, view.frontend.at.port), service))
}

/// The policies that clauses are of, each once.
fn policies(origins: &[ClauseOrigin]) -> Policies {
    let mut all: Vec<FlowPolicy> = Vec::new();
    for origin in origins {
        let name = &origin.policy;
        let namespace = name.namespace.clone().unwrap_or_default();
        let (kind, labels) = (name.kind.to_string(), name.rule_labels());
        let policy = FlowPolicy { name: name.name.clone(), namespace, labels, revision: 0, kind };
        if !all.contains(&policy) {
            all.push(policy);
        }
    }
    Arc::new(all)
}

/// Names of this network namespace's interfaces.
fn interfaces(root: &Path) -> BTreeMap<u32, String> {
    let Ok(entries) = fs::read_dir(root) else { return BTreeMap::new() };
    let of = |entry: fs::DirEntry| {
        let index = fs::read_to_string(entry.path().join("ifindex")).ok()?.trim().parse().ok()?;
        Some((index, entry.file_name().to_string_lossy().into_owned()))
    };
    entries.flatten().take(INTERFACES_MAX).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_named_by_number() {
        let dir = tempfile::tempdir().unwrap();
        for (name, index) in [("eth0", "2\n"), ("lxc1", "17\n"), ("bad", "x")] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("ifindex"), index).unwrap();
        }
        fs::write(dir.path().join("bonding_masters"), "").unwrap();
        let expected = BTreeMap::from([(2, "eth0".to_owned()), (17, "lxc1".to_owned())]);
        assert_eq!(interfaces(dir.path()), expected);
        assert_eq!(interfaces(&dir.path().join("absent")), BTreeMap::new());
    }
}
