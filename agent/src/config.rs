//! What the agent is told: flags, environment, a directory of files, defaults.
//!
//! The command line wins over the environment (`VOLVOX_STATE_DIR`, then `CILIUM_STATE_DIR`), that
//! over `--config-dir` (one file a flag, as a mounted ConfigMap has them), that over the default.
//! Names and defaults are Cilium 1.19's where the thing exists there.

mod aggregation;
mod attaching;
mod check;
mod cilium_keys;
mod cni;
mod error;
mod hubble;
mod kube_proxy;
mod layers;
mod map_sizes;
mod metrics;
mod node_health;
mod options;
mod pools;
mod range;
mod rate_limit;
mod reference;
mod takeover;
#[cfg(test)]
mod tests;
mod values;

use std::{ffi::OsString, time::Duration};

use clap::{
    ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, ValueEnum,
    error::ErrorKind, parser::ValueSource,
};
use volvox_cluster::{Access, Servers};
use volvox_etcd::EtcdOptions;

pub use aggregation::{MonitorAggregation, TcpFlags, TcpFlagsError};
pub use attaching::AttachOptions;
pub use cni::{ChainingMode, CniOptions};
pub use error::ConfigError;
pub use hubble::{HubbleAddress, HubbleOptions};
pub use kube_proxy::KubeProxyOptions;
pub use layers::Origin;
pub use map_sizes::ConntrackSizes;
pub use metrics::{MetricsAddress, MetricsOptions};
pub use node_health::NodeHealthOptions;
pub use options::{Config, List};
pub use pools::{PoolOptions, PreAllocation};
pub use range::{Range, RangeError};
pub use rate_limit::{RateLimit, RateLimitError, RateLimits};
pub use reference::reference;
pub use takeover::{TakeOver, TakeoverOptions};
pub use values::{
    AllowLocalhost, EnablePolicy, IdentityAllocationMode, Ipam, KvStoreKind, LbAlgorithm, LbMode,
    LogFormat, LogLevel, NoBackendResponse, NodeAddress, OptionalAddress, RoutingMode,
    RuntimeEndpoint, TunnelProtocol, WITHOUT_ETCD_RS,
};

const LABELS: &str = "labels";
const API_RATE_LIMIT: &str = "api_rate_limit";
/// Flags that hold lists.
const MONITOR_FLAGS: &str = "monitor_aggregation_flags";
const KVSTORE_OPT: &str = "kvstore_opt";
const API_SERVER: &str = "k8s_api_server";
const HUBBLE_LISTS: [&str; 3] =
    ["hubble_tls_client_ca_files", "hubble_monitor_events", "hubble_export_fieldmask"];
const LISTS: [&str; 8] = [
    LABELS,
    API_RATE_LIMIT,
    MONITOR_FLAGS,
    KVSTORE_OPT,
    API_SERVER,
    HUBBLE_LISTS[0],
    HUBBLE_LISTS[1],
    HUBBLE_LISTS[2],
];

/// A node agent whose restart nobody notices.
#[derive(Debug, Parser)]
#[command(name = "volvox-agent", version = env!("VOLVOX_VERSION"))]
#[command(max_term_width = 100, args_override_self = true)]
struct CommandLine {
    /// What to do
    #[arg(value_enum, default_value = "run")]
    verb: Verb,
    #[command(flatten)]
    config: Config,
}

/// What the program is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verb {
    /// Serve as the node's agent
    Run,
    /// Remove all that the agent made on this node, and say what
    Uninstall,
    /// Say what a takeover from Cilium would keep and change, and what would refuse it; change nothing
    MigrateCheck,
    /// Prepare a node that was taken over for Cilium's agent, which takes it back when it starts
    HandBack,
}

/// What the agent was told, and what it should say about that.
#[derive(Debug)]
pub struct Loaded {
    /// What to do.
    pub verb: Verb,
    /// All settings.
    pub config: Config,
    /// To be logged: keys of the directory that no setting has, settings that do not all apply.
    pub warnings: Vec<String>,
}

/// Reads the command line, the environment and the directory that they name.
///
/// `arguments` begin with the program's name.
pub fn load(
    arguments: impl IntoIterator<Item = impl Into<OsString>>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Loaded, ConfigError> {
    let command = command();
    let mut arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let own = strict(&command).try_get_matches_from(&arguments)?;
    let from_environment = layers::environment(&command, environment)?;
    let config_dir = layers::config_dir(&own, &from_environment);
    let (mut lower, warnings) = layers::directory(&command, config_dir.as_deref())?;
    lower.extend(from_environment);

    let program = arguments.len().min(1);
    arguments.splice(program..program, lower.iter().map(layers::Setting::argument));
    let matches = command
        .clone()
        .try_get_matches_from(&arguments)
        .map_err(|error| layers::blame(&command, &lower, error))?;
    let line = CommandLine::from_arg_matches(&matches)?;
    let origins = layers::Origins::new(&own, &lower);
    let mut loaded = Loaded { verb: line.verb, config: line.config, warnings };
    loaded.config.gather(&own)?;
    if loaded.verb == Verb::Run {
        loaded.config.cni.read()?;
    }
    loaded.warnings.extend(check::check(&loaded.config, &origins)?);
    Ok(loaded)
}

/// What settings that were written for Cilium ask for and this agent does not have: first what is in
/// force for packets, then the rest.
pub fn cilium_remarks(dir: &std::path::Path) -> Result<(Vec<String>, Vec<String>), ConfigError> {
    layers::cilium_remarks(&command(), dir)
}

/// The flags, with switches as Go programs take them: `--debug` and `--debug=false`.
fn command() -> clap::Command {
    let switch = clap::builder::ValueParser::bool().type_id();
    CommandLine::command().mut_args(|arg| {
        if arg.get_value_parser().type_id() != switch || !arg.get_action().takes_values() {
            return arg;
        }
        arg.num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(values::parse_switch)
            .hide_possible_values(true)
    })
}

/// The same for the command line alone: there nothing is overridden, so a flag that is given twice
/// contradicts itself. Lists may be given in pieces.
fn strict(command: &clap::Command) -> clap::Command {
    let command = command.clone().args_override_self(false);
    command.mut_args(|arg| match LISTS.contains(&arg.get_id().as_str()) {
        true => arg.action(ArgAction::Append),
        false => arg,
    })
}

impl Config {
    /// After how long it is complained of a cluster that is not synced: the longest of its time-outs.
    pub fn sync_timeout(&self) -> Duration {
        let of_resources = self.crd_wait_timeout.max(self.allocator_list_timeout);
        self.k8s_sync_timeout.max(of_resources)
    }

    /// How the API server is reached; `None` if no cluster is followed.
    pub fn api_server(&self) -> Option<Access> {
        let said = Access {
            kubeconfig: self.k8s_kubeconfig_path.clone(),
            servers: self.k8s_api_server.clone().unwrap_or_default(),
        };
        self.enable_k8s.then_some(said).and_then(Access::found)
    }

    /// What is logged, `--debug` considered.
    pub fn effective_log_level(&self) -> LogLevel {
        if self.debug { self.log_level.max(LogLevel::Debug) } else { self.log_level }
    }

    /// Puts the pieces of lists together that the command line gave.
    fn gather(&mut self, own: &ArgMatches) -> Result<(), ConfigError> {
        let is_given = |id: &str| own.value_source(id) == Some(ValueSource::CommandLine);
        if is_given(LABELS) {
            let pieces = own.get_many::<List>(LABELS).into_iter().flatten();
            self.labels = pieces.flatten().cloned().collect();
        }
        if is_given(API_RATE_LIMIT) {
            let pieces = own.get_many::<RateLimits>(API_RATE_LIMIT).into_iter().flatten();
            self.api_rate_limit = RateLimits(pieces.flat_map(|piece| piece.0.clone()).collect());
        }
        if is_given(KVSTORE_OPT) {
            let pieces = own.get_many::<EtcdOptions>(KVSTORE_OPT).into_iter().flatten();
            // Of one that is said twice the last word counts.
            let all = pieces.rev().cloned().fold(EtcdOptions::default(), EtcdOptions::or);
            self.kvstore_opt = all;
        }
        if is_given(MONITOR_FLAGS) {
            let pieces = own.get_many::<TcpFlags>(MONITOR_FLAGS).into_iter().flatten();
            let all = pieces.fold(0, |all, piece| all | piece.0);
            self.monitor_aggregation_flags = TcpFlags(all);
        }
        if is_given(API_SERVER) {
            let pieces = own.get_many::<Servers>(API_SERVER).into_iter().flatten();
            let all = pieces.map(ToString::to_string).collect::<Vec<_>>().join(",");
            let servers = all.parse().map_err(|error| {
                let text = format!("--k8s-api-server={all}: {error}\n");
                clap::Error::raw(ErrorKind::ValueValidation, text)
            })?;
            self.k8s_api_server = Some(servers);
        }
        Ok(())
    }

    /// The settings that nothing was told about.
    pub fn defaults() -> Self {
        let command = Self::augment_args(clap::Command::new("volvox-agent"));
        let matches = command.get_matches_from(["volvox-agent"]);
        Self::from_arg_matches(&matches).expect("every flag has a default")
    }
}
