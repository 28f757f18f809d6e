//! The operator's settings: flags, environment, and a directory with a file for each, such as a mounted
//! ConfigMap. Names and defaults are those of Cilium's operator.

#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, ValueEnum};
use serde_json::Value;
use volvox_actors::operator::{
    ClusterPools, CollectorSettings, MarkSettings, NewPodPool, NewPodPoolError, PodLabels,
    PoolError, PoolRange, PrefixSource,
};
use volvox_cluster::{Access, Servers};
use volvox_etcd::EtcdOptions;
use volvox_system::duration::parse_duration;

use crate::store::{IdentityMode, StoreSettings};

/// Prefixes of environment variables, the weaker first.
const VARIABLES: [&str; 2] = ["CILIUM", "VOLVOX"];

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The command line is wrong, or asks for help.
    #[error("{0}")]
    CommandLine(clap::Error),
    /// A setting that was said elsewhere is wrong.
    #[error("{place} says --{flag}={value}: {cause}")]
    Value {
        /// Where it was said.
        place: String,
        /// Which one.
        flag: String,
        /// What was said.
        value: String,
        /// What is wrong.
        cause: String,
    },
    /// The directory cannot be read.
    #[error("--config-dir: {}: {cause}; correct the path, or its rights", .path.display())]
    Directory {
        /// The directory or a file of it.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The pools are none.
    #[error("--cluster-pool-ipv{family}-cidr, --cluster-pool-ipv{family}-mask-size: {cause}")]
    Pool {
        /// 4 or 6.
        family: u8,
        /// Why.
        cause: PoolError,
    },
    /// The pools to be made are none.
    #[error("--auto-create-cilium-pod-ip-pools: {0}")]
    NewPools(#[from] NewPodPoolError),
    /// No cluster is named.
    #[error(
        "no cluster is named: run it in a pod with a service account, or say --k8s-kubeconfig-path"
    )]
    NoCluster,
    /// A store without servers.
    #[error("--kvstore: no server is named; say --kvstore-opt=etcd.address=URL as well")]
    NoStore,
}

/// Who gives nodes their prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OperatorIpam {
    /// This operator, out of the pools.
    ClusterPool,
    /// This operator, out of CiliumPodIPPools: each node as many as it needs.
    MultiPool,
    /// The cluster itself: its controller manager gives each Node a podCIDR.
    Kubernetes,
}

/// What can be set.
#[derive(Clone, Debug, Parser)]
#[command(name = "volvox-operator", version = env!("VOLVOX_VERSION"), args_override_self = true)]
pub struct Settings {
    /// Directory with a file for each setting, named as the flag
    #[arg(long, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,
    /// Kubeconfig of the API server; in a pod its service account says it
    #[arg(long, value_name = "FILE")]
    pub k8s_kubeconfig_path: Option<PathBuf>,
    /// Addresses of the API servers, with commas between, whatever else says another one; one is asked,
    /// and the next one once that cannot be reached
    #[arg(long, value_name = "URLS", alias = "k8s-api-server-urls")]
    pub k8s_api_server: Option<Servers>,
    /// Somebody else registers CustomResourceDefinitions
    #[arg(long, value_name = "BOOL", default_value = "false", action = ArgAction::Set)]
    pub skip_crd_creation: bool,
    /// Namespace of the Lease by which one of all operators leads
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    pub k8s_namespace: String,
    /// What nodes get.
    #[command(flatten)]
    pub pools: PoolSettings,
    /// What is removed.
    #[command(flatten)]
    pub collection: CollectionSettings,
    /// Which store there is.
    #[command(flatten)]
    pub store: StoreSettings,
    /// How Nodes are marked.
    #[command(flatten)]
    pub marking: MarkingSettings,
    /// Address and port of /healthz
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9234", value_parser = listen)]
    pub operator_api_serve_addr: SocketAddr,
    /// Address and port of /metrics, or :PORT for all addresses
    #[arg(long, value_name = "ADDRESS", default_value = ":9963", value_parser = listen)]
    pub operator_prometheus_serve_addr: SocketAddr,
}

/// Out of what nodes get prefixes.
#[derive(Clone, Debug, Args)]
pub struct PoolSettings {
    /// Who gives nodes their prefixes
    #[arg(long, value_enum, default_value = "cluster-pool")]
    pub ipam: OperatorIpam,
    /// Whether nodes have IPv4
    #[arg(long, value_name = "BOOL", default_value = "true", action = ArgAction::Set)]
    pub enable_ipv4: bool,
    /// Whether nodes have IPv6
    #[arg(long, value_name = "BOOL", default_value = "false", action = ArgAction::Set)]
    pub enable_ipv6: bool,
    /// Ranges out of which nodes get IPv4 prefixes
    #[arg(
        long, value_name = "CIDR", value_delimiter = ',', default_value = "10.0.0.0/8",
        action = ArgAction::Set
    )]
    pub cluster_pool_ipv4_cidr: Vec<String>,
    /// Length of the IPv4 prefix of a node
    #[arg(long, value_name = "BITS", default_value_t = 24)]
    pub cluster_pool_ipv4_mask_size: u8,
    /// Ranges out of which nodes get IPv6 prefixes
    #[arg(
        long, value_name = "CIDR", value_delimiter = ',', default_value = "fd00::/104",
        action = ArgAction::Set
    )]
    pub cluster_pool_ipv6_cidr: Vec<String>,
    /// Length of the IPv6 prefix of a node
    #[arg(long, value_name = "BITS", default_value_t = 112)]
    pub cluster_pool_ipv6_mask_size: u8,
    /// CiliumPodIPPools to be made if they are missing when the operator begins, as
    /// NAME=ipv4-cidrs:CIDR,CIDR;ipv4-mask-size:BITS, with commas between, or as JSON of names and specs; may be
    /// said more than once
    #[arg(long, value_name = "POOLS", action = ArgAction::Append)]
    pub auto_create_cilium_pod_ip_pools: Vec<String>,
}

/// What is removed, and when.
#[derive(Clone, Debug, Args)]
pub struct CollectionSettings {
    /// How often CiliumEndpoints are removed whose pod went as long ago; 0 for never
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub cilium_endpoint_gc_interval: Duration,
    /// Agents publish no CiliumEndpoints: neither these nor CiliumIdentities are removed
    #[arg(long, value_name = "BOOL", default_value = "false", action = ArgAction::Set)]
    pub disable_endpoint_crd: bool,
    /// How often identities are looked through, of the API server or of the store; 0 for never
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = parse_duration)]
    pub identity_gc_interval: Duration,
    /// For how long nobody may have used a CiliumIdentity that is marked, and then removed
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = parse_duration)]
    pub identity_heartbeat_timeout: Duration,
    /// How often CiliumNodes are removed whose Node went as long ago; 0 for never
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub nodes_gc_interval: Duration,
}

/// How Nodes are marked by the agents that run there.
#[derive(Clone, Debug, Args)]
pub struct MarkingSettings {
    /// Labels of the agents' pods: a label selector
    #[arg(long, value_name = "SELECTOR", default_value = "k8s-app in (cilium,volvox)")]
    pub cilium_pod_labels: PodLabels,
    /// Namespace of the agents' pods; if it is empty, that of the Lease
    #[arg(long, value_name = "NAME", default_value = "")]
    pub cilium_pod_namespace: String,
    /// Key of the taint of Nodes whose agent is not ready
    #[arg(long, value_name = "KEY", default_value = "node.cilium.io/agent-not-ready")]
    pub agent_not_ready_taint_key: String,
    /// Whether that taint is removed where an agent is ready
    #[arg(long, value_name = "BOOL", default_value = "true", action = ArgAction::Set)]
    pub remove_cilium_node_taints: bool,
    /// Whether that taint is set where agents are scheduled, and none is ready
    #[arg(long, value_name = "BOOL", default_value = "false", action = ArgAction::Set)]
    pub set_cilium_node_taints: bool,
    /// Whether Nodes on which an agent is ready get the condition NetworkUnavailable=False
    #[arg(long, value_name = "BOOL", default_value = "true", action = ArgAction::Set)]
    pub set_cilium_is_up_condition: bool,
}

/// An address and port to listen on, or a port for all addresses, as Go writes that.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').and_then(|port| port.parse().ok());
    let all = port.map(|port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    all.map_or_else(|| text.parse().map_err(|_| "write ADDRESS:PORT or :PORT".to_owned()), Ok)
}

struct Said {
    place: String,
    flag: String,
    value: String,
}

impl Said {
    fn argument(&self) -> OsString {
        format!("--{}={}", self.flag, self.value).into()
    }
}

/// The settings: the command line before the environment, that before the directory.
pub fn load(
    arguments: impl IntoIterator<Item = OsString>,
    get: impl Fn(&str) -> Option<OsString>,
) -> Result<Settings, SettingsError> {
    let mut arguments = arguments.into_iter();
    let program = arguments.next().unwrap_or_else(|| "volvox-operator".into());
    let own: Vec<OsString> = arguments.collect();
    let environment = environment(get);
    let with = |lower: &[Said]| {
        let lower = lower.iter().map(Said::argument);
        [program.clone()].into_iter().chain(lower).chain(own.iter().cloned()).collect::<Vec<_>>()
    };
    let first = parse(with(&environment), &environment)?;
    let mut lower = match &first.config_dir {
        Some(dir) => directory(dir)?,
        None => Vec::new(),
    };
    lower.extend(environment);
    let lower = strongest(lower, &own);
    parse(with(&lower), &lower)
}

/// Of each flag whose words add up, what its strongest layer says: as for others, that takes the place of what
/// a weaker one says.
fn strongest(lower: Vec<Said>, own: &[OsString]) -> Vec<Said> {
    const ADDED_UP: [&str; 2] = ["kvstore-opt", "auto-create-cilium-pod-ip-pools"];
    let strongest_of = |lower: Vec<Said>, flag: &str| -> Vec<Said> {
        let names = |word: &OsString| {
            let word = word.to_string_lossy();
            word.strip_prefix("--").is_some_and(|word| word.split('=').next() == Some(flag))
        };
        let last = lower.iter().rposition(|said| said.flag == flag);
        let last = last.filter(|_| !own.iter().any(names));
        let all = lower.into_iter().enumerate();
        all.filter(|(at, said)| said.flag != flag || Some(*at) == last).map(|(_, it)| it).collect()
    };
    ADDED_UP.into_iter().fold(lower, strongest_of)
}

fn parse(arguments: Vec<OsString>, lower: &[Said]) -> Result<Settings, SettingsError> {
    let error = match Settings::command().try_get_matches_from(arguments) {
        Ok(matches) => {
            return Settings::from_arg_matches(&matches).map_err(SettingsError::CommandLine);
        }
        Err(error) => error,
    };
    // What was said elsewhere is told by its place.
    for said in lower {
        let alone = [OsString::from("volvox-operator"), said.argument()];
        if let Err(error) = Settings::command().try_get_matches_from(alone) {
            let text = error.to_string();
            let (cause, _) = text.split_once("\n\nFor more").unwrap_or((&text, ""));
            let cause = cause.trim_start_matches("error: ").trim().to_owned();
            let Said { place, flag, value } = said;
            let (place, flag, value) = (place.clone(), flag.clone(), value.clone());
            return Err(SettingsError::Value { place, flag, value, cause });
        }
    }
    Err(SettingsError::CommandLine(error))
}

/// By what each flag may be called.
fn flags() -> Vec<String> {
    let command = Settings::command();
    let named = command.get_arguments().flat_map(|arg| {
        let others = arg.get_all_aliases().unwrap_or_default();
        arg.get_long().into_iter().chain(others).map(str::to_owned).collect::<Vec<_>>()
    });
    named.filter(|flag| !["help", "version"].contains(&flag.as_str())).collect()
}

fn environment(get: impl Fn(&str) -> Option<OsString>) -> Vec<Said> {
    let mut all = Vec::new();
    for prefix in VARIABLES {
        for flag in flags() {
            let name = format!("{prefix}_{}", flag.to_uppercase().replace('-', "_"));
            let value = get(&name).and_then(|value| value.into_string().ok());
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                all.push(Said { place: format!("environment variable {name}"), flag, value });
            }
        }
    }
    all
}

/// Settings of the directory: files that are no flag are other programs', and an empty one says nothing.
fn directory(dir: &Path) -> Result<Vec<Said>, SettingsError> {
    let failed = |path: &Path, cause| SettingsError::Directory { path: path.to_owned(), cause };
    fs::read_dir(dir).map_err(|cause| failed(dir, cause))?;
    let mut all = Vec::new();
    for flag in flags().into_iter().filter(|flag| flag != "config-dir") {
        let path = dir.join(&flag);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(failed(&path, cause)),
        };
        let value = text.trim_end_matches(['\n', '\r']).to_owned();
        // The agent's ways to get addresses that are no work of an operator.
        let is_other = flag == "ipam" && !["cluster-pool", "multi-pool"].contains(&value.as_str());
        let value = if is_other { "kubernetes".to_owned() } else { value };
        if !value.is_empty() {
            all.push(Said { place: path.display().to_string(), flag, value });
        }
    }
    Ok(all)
}

impl Settings {
    /// How the API server is reached.
    pub fn access(&self) -> Result<Access, SettingsError> {
        let said = Access {
            kubeconfig: self.k8s_kubeconfig_path.clone(),
            servers: self.k8s_api_server.clone().unwrap_or_default(),
        };
        said.found().ok_or(SettingsError::NoCluster)
    }

    /// The servers of the store that nodes share, if there is one.
    pub fn etcd(&self) -> Result<Option<EtcdOptions>, SettingsError> {
        let options = self.store.etcd();
        match options.as_ref().is_some_and(EtcdOptions::is_empty) {
            true => Err(SettingsError::NoStore),
            false => Ok(options),
        }
    }

    /// How often identities of the store are looked through; zero for never.
    pub fn stored_identities(&self) -> Duration {
        match self.store.identities() {
            IdentityMode::Crd => Duration::ZERO,
            IdentityMode::Kvstore => self.collection.identity_gc_interval,
        }
    }

    /// Out of what nodes get prefixes.
    pub fn prefixes(&self) -> Result<PrefixSource, SettingsError> {
        match self.pools.ipam {
            OperatorIpam::MultiPool => {
                let said = self.pools.auto_create_cilium_pod_ip_pools.iter();
                let pools: Vec<_> =
                    said.map(|it| NewPodPool::read_all(it)).collect::<Result<_, _>>()?;
                Ok(PrefixSource::MultiPool(pools.concat()))
            }
            OperatorIpam::ClusterPool | OperatorIpam::Kubernetes => {
                self.pools().map(PrefixSource::ClusterPool)
            }
        }
    }

    /// The ranges of which each node gets one prefix.
    fn pools(&self) -> Result<ClusterPools, SettingsError> {
        let mut ranges = Vec::new();
        let said = &self.pools;
        let gives = said.ipam == OperatorIpam::ClusterPool;
        for (family, is_on, cidrs, length) in [
            (4, said.enable_ipv4, &said.cluster_pool_ipv4_cidr, said.cluster_pool_ipv4_mask_size),
            (6, said.enable_ipv6, &said.cluster_pool_ipv6_cidr, said.cluster_pool_ipv6_mask_size),
        ] {
            // Cilium's ConfigMap has them apart by spaces.
            let cidrs = cidrs.iter().flat_map(|it| it.split_whitespace());
            for cidr in cidrs.filter(|_| gives && is_on) {
                let range = PoolRange::new(cidr, length);
                ranges.push(range.map_err(|cause| SettingsError::Pool { family, cause })?);
            }
        }
        ClusterPools::new(ranges).map_err(|cause| SettingsError::Pool { family: 4, cause })
    }

    /// CustomResourceDefinitions to register.
    pub fn definitions(&self) -> Vec<Value> {
        if self.skip_crd_creation { Vec::new() } else { volvox_packaging::definitions() }
    }

    /// How Nodes are marked.
    pub fn marks(&self) -> MarkSettings {
        let said = &self.marking;
        let namespace = match said.cilium_pod_namespace.as_str() {
            "" => self.k8s_namespace.clone(),
            named => named.to_owned(),
        };
        MarkSettings {
            namespace,
            labels: said.cilium_pod_labels.clone(),
            taint: said.agent_not_ready_taint_key.clone(),
            removes_taint: said.remove_cilium_node_taints,
            sets_taint: said.set_cilium_node_taints,
            says_up: said.set_cilium_is_up_condition,
        }
    }

    /// What is removed, and when.
    pub fn collector(&self) -> CollectorSettings {
        let said = &self.collection;
        let told = |span: Duration| if said.disable_endpoint_crd { Duration::ZERO } else { span };
        let identities = match self.store.identities() {
            IdentityMode::Crd => told(said.identity_gc_interval),
            IdentityMode::Kvstore => Duration::ZERO,
        };
        CollectorSettings {
            endpoints: told(said.cilium_endpoint_gc_interval),
            identities,
            unused: said.identity_heartbeat_timeout,
            nodes: said.nodes_gc_interval,
        }
    }
}
