//! The command line of `volvox`: its commands, their arguments and their help texts.

mod get;
mod question;
mod trace;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use volvox_actors::model::L4Address;
use volvox_rest::client::DEFAULT_SOCKET;
use volvox_system::duration::parse_duration;

pub(super) use self::{
    get::GetCommand,
    question::{Protocol, Question},
    trace::{Export, Lifetime, TraceArguments, TraceFormat},
};
use super::{
    connectivity::{ConnectivityCommand, ProbeCommand},
    dashboard::DashboardArguments,
    health::HealthArguments,
    install::{InstallArguments, UninstallArguments, UpgradeArguments},
    migrate::MigrateCommand,
    monitor::MonitorFilter,
    monitoring::MonitoringArguments,
    observe::ObserveArguments,
    output::{Format, FormatParser, Listing, Watch},
    sysdump::SysdumpArguments,
    verify::VerifyArguments,
};

/// Speak to the node agent
#[derive(Debug, Parser)]
#[command(name = "volvox", version = env!("VOLVOX_VERSION"))]
#[command(propagate_version = true, arg_required_else_help = true)]
pub struct Arguments {
    /// Socket of the agent
    #[arg(
        long = "socket-path", alias = "socket", value_name = "FILE", global = true,
        env = "VOLVOX_SOCKET", default_value = DEFAULT_SOCKET
    )]
    pub(super) socket: PathBuf,

    /// Where the BPF file system is mounted, for `bpf` and `monitor`
    #[arg(
        long,
        value_name = "DIR",
        global = true,
        env = "VOLVOX_BPF_ROOT",
        default_value = "/sys/fs/bpf"
    )]
    pub(super) bpf_root: PathBuf,

    /// The agent's state directory, for `trace` and `why`
    #[arg(
        long,
        value_name = "DIR",
        global = true,
        env = "VOLVOX_STATE_DIR",
        default_value = "/var/run/cilium"
    )]
    pub(super) state_dir: PathBuf,

    /// How to answer
    #[arg(
        short, long, value_name = "FORMAT", value_parser = FormatParser, global = true,
        default_value = "table"
    )]
    pub(super) output: Format,

    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// How the agent is
    Status(StatusArguments),
    /// Which nodes and health endpoints this node reaches, by ICMP and by HTTP
    Health(HealthArguments),
    /// Lists, as kubectl asks for them: `volvox get ep`, `volvox get svc`
    #[command(subcommand)]
    Get(GetCommand),
    /// Endpoints
    #[command(subcommand, visible_alias = "ep")]
    Endpoint(EndpointCommand),
    /// Addresses
    #[command(subcommand)]
    Ipam(IpamCommand),
    /// Services: where they are reached, and who serves them
    #[command(subcommand, visible_alias = "svc")]
    Service(ServiceCommand),
    /// Backends of services
    #[command(subcommand)]
    Backend(BackendCommand),
    /// Policies
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Rows of the kernel's maps; works without the agent
    #[command(subcommand)]
    Bpf(BpfCommand),
    /// What was written to the kernel's maps, from the flight recorder; works without the agent
    #[command(subcommand)]
    Map(MapCommand),
    /// Nodes
    #[command(subcommand)]
    Node(NodeCommand),
    /// How the agent is set; options of all endpoints can be changed
    Config(ConfigArguments),
    /// Versions of the client and of the agent, with the commits that they were built from
    Version(VersionArguments),
    /// All that a report of a fault needs, in one archive; secrets are left out
    Sysdump(SysdumpArguments),
    /// Identities
    #[command(subcommand)]
    Identity(IdentityCommand),
    /// The last restart
    #[command(subcommand)]
    Restore(RestoreCommand),
    /// Whether kernel, disk and agent agree on the node; changes nothing, works without the agent
    Verify(VerifyArguments),
    /// Who waits for whom, and since when; what began a regeneration; whether packets pass, by which rule
    Why(Question),
    /// What the actors did, from the flight recorder; works without the agent
    Trace(TraceArguments),
    /// What the datapath does with packets, as it happens; works without the agent
    ///
    /// Connections are shown as they open, close and every few seconds; the endpoint's option
    /// `MonitorAggregationLevel=None` has every packet shown.
    Monitor(MonitorFilter),
    /// Flows: who sends what to whom, now and before, with names; needs an agent with --enable-hubble
    ///
    /// Filters are those of Hubble's client: one flag holds if one of its values does, and all flags
    /// have to hold. Times are UTC.
    Observe(ObserveArguments),
    /// Metrics, as Prometheus reads them
    Metrics,
    /// Show flight records in a browser: of a life before, of another node, of the simulator
    Dashboard(DashboardArguments),
    /// Take a node over from Cilium with its pods, or give it back; works without the agent
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// What Prometheus and Grafana need to watch agents: alerts, whom to scrape, a dashboard
    Monitoring(MonitoringArguments),
    /// Install Volvox in a cluster
    Install(InstallArguments),
    /// Change what is installed: this version, and other values
    Upgrade(UpgradeArguments),
    /// Remove Volvox from a cluster
    Uninstall(UninstallArguments),
    /// What in a cluster reaches what, and whether it shall
    #[command(subcommand)]
    Connectivity(ConnectivityCommand),
    /// What pods of `connectivity test` run
    #[command(subcommand, hide = true)]
    Probe(ProbeCommand),
    /// Completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub(super) struct StatusArguments {
    /// Only whether it is well
    #[arg(long, conflicts_with_all = ["verbose", "wait"])]
    pub(super) brief: bool,
    /// All that is known: also what is as it should be
    #[arg(long)]
    pub(super) verbose: bool,
    /// Wait until it is well, and fail if it does not become so
    #[arg(long)]
    pub(super) wait: bool,
    /// For how long at most
    #[arg(
        long, value_name = "DURATION", value_parser = parse_duration, default_value = "5m",
        requires = "wait"
    )]
    pub(super) wait_duration: Duration,
}

#[derive(Debug, Args)]
pub(super) struct ConfigArguments {
    /// Every setting, not only options that can be changed
    #[arg(short, long, conflicts_with = "changes")]
    pub(super) all: bool,
    /// Change an option of all endpoints, as TraceNotification=Disabled, or PolicyEnforcement=always
    #[arg(value_name = "OPTION=VALUE")]
    pub(super) changes: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct VersionArguments {
    /// Only the client's
    #[arg(long)]
    pub(super) client: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum NodeCommand {
    /// This node and those that it knows
    List {
        #[command(flatten)]
        watch: Watch,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum MapCommand {
    /// Writes to maps, the latest last
    Events {
        /// Only to maps whose name has this in it
        #[arg(value_name = "MAP")]
        map: Option<String>,
        /// And those that come
        #[arg(short, long)]
        follow: bool,
        /// So many at most, the latest; 0 shows all
        #[arg(long, value_name = "NUMBER", default_value_t = 200)]
        last: usize,
        /// `current`, `previous`, a number of `volvox restore lives`, or the file of a flight recorder
        #[arg(long, value_name = "LIFE", default_value = "current")]
        life: Lifetime,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum EndpointCommand {
    /// All endpoints
    List {
        #[command(flatten)]
        listing: Listing,
        /// Only those with this label, `source:key=value`; repeated: with all of them
        #[arg(short, long = "label", value_name = "LABEL")]
        labels: Vec<String>,
    },
    /// One endpoint
    Get {
        #[command(flatten)]
        endpoint: EndpointName,
    },
    /// What happened to it, newest first
    Log {
        #[command(flatten)]
        endpoint: EndpointName,
    },
    /// Its health
    Health {
        #[command(flatten)]
        endpoint: EndpointName,
    },
    /// Build it again, and wait for it
    Regenerate {
        #[command(flatten)]
        endpoint: EndpointName,
        /// How much of it
        #[arg(long, value_enum, default_value = "rewrite")]
        level: BuildLevel,
    },
    /// Delete it: its pod is cut off
    Disconnect {
        #[command(flatten)]
        endpoint: EndpointName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Its labels
    Labels {
        #[command(flatten)]
        endpoint: EndpointName,
        /// Replace the labels that were added by hand
        #[arg(long, value_name = "LABEL", num_args = 0..)]
        set: Option<Vec<String>>,
    },
    /// Its options
    Config {
        #[command(flatten)]
        endpoint: EndpointName,
        /// Change an option
        #[arg(value_name = "OPTION=VALUE")]
        changes: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(super) struct EndpointName {
    /// Its number, NAMESPACE/POD, a pod's name if one only has it, an address, a container's identifier, or
    /// PREFIX:VALUE
    #[arg(value_name = "ENDPOINT")]
    pub(super) id: String,
}

/// How much of an endpoint is built again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum BuildLevel {
    /// Check and attach its programs
    Load,
    /// Also write its policy and configuration anew
    Rewrite,
    /// Also load a fresh generation of the programs
    Rebuild,
}

#[derive(Debug, Subcommand)]
pub(super) enum IpamCommand {
    /// Addresses that are handed out, and to whom
    List(Listing),
    /// Pools, and this node's prefixes of them
    Pools,
}

#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// The rules in force, as they were written
    Get,
    /// Selectors of the rules, and the identities that each selects
    Selectors {
        /// Those of whom rules are for, not of their peers
        #[arg(long)]
        subjects: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Say what is wrong with manifests; works without the agent
    Validate {
        /// A file without a policy is no mistake
        #[arg(long)]
        allow_empty: bool,
        /// Fail over a rule that fails closed, too: one with a part that is not supported
        #[arg(long)]
        strict: bool,
        /// Manifests, YAML or JSON
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// How each policy stands: whom it selects, what of it is not supported, why it was refused
    Status(Listing),
}

#[derive(Debug, Subcommand)]
pub(super) enum BpfCommand {
    /// Local addresses and their endpoints (cilium_lxc)
    #[command(subcommand)]
    Lxc(ListCommand),
    /// Addresses and their identities (cilium_ipcache_v2)
    #[command(subcommand)]
    Ipcache(ListCommand),
    /// Rows of endpoints' policies
    #[command(subcommand)]
    Policy(PolicyListCommand),
    /// Connections
    #[command(subcommand)]
    Ct(FlowsCommand),
    /// Whose address stands for whose
    #[command(subcommand)]
    Nat(FlowsCommand),
    /// Packets and bytes, by what became of them
    #[command(subcommand)]
    Metrics(ListCommand),
    /// Services and what belongs to them
    #[command(subcommand)]
    Lb(LbCommand),
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(super) enum LbCommand {
    /// Where services are reached, with their slots; or what else there is of them
    List(LbTables),
}

/// Which maps are read; at most one of them.
#[derive(Clone, Copy, Debug, Args)]
#[group(multiple = false)]
pub(super) struct LbTables {
    /// Backends
    #[arg(long)]
    pub(super) backends: bool,
    /// Where replies are translated back to, by the number of the service
    #[arg(long)]
    pub(super) revnat: bool,
    /// Clients that stay with a backend, and backends that they may stay with
    #[arg(long)]
    pub(super) affinity: bool,
    /// Who may use a service
    #[arg(long)]
    pub(super) source_ranges: bool,
    /// Tables by which nodes choose alike
    #[arg(long)]
    pub(super) maglev: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ServiceCommand {
    /// All frontends
    List(Listing),
    /// One frontend
    Get {
        /// Its number
        id: u16,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum BackendCommand {
    /// All backends
    List(Watch),
    /// Keep a backend from new connections on this node, as long as there are others; those that it
    /// has go on. It holds over restarts, until the backend is released, or no service lists it
    Quarantine {
        /// ADDRESS:PORT/PROTOCOL, as 10.0.0.1:80/TCP; TCP if it is not said
        backend: L4Address,
    },
    /// Let a backend have new connections again
    Release {
        /// ADDRESS:PORT/PROTOCOL, as 10.0.0.1:80/TCP; TCP if it is not said
        backend: L4Address,
    },
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(super) enum FlowsCommand {
    /// All rows
    List,
    /// Remove all rows, once asked
    Flush {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(super) enum ListCommand {
    /// All rows
    List,
}

#[derive(Clone, Debug, Subcommand)]
pub(super) enum PolicyListCommand {
    /// The rows of one endpoint's policy, or of all
    List {
        /// The endpoint
        #[arg(value_name = "ENDPOINT")]
        id: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum IdentityCommand {
    /// All identities
    List {
        #[command(flatten)]
        listing: Listing,
        /// Only the one with exactly these labels; repeated for each
        #[arg(short, long = "label", value_name = "LABEL")]
        labels: Vec<String>,
    },
    /// One identity
    Get {
        /// Its number
        id: u32,
    },
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(super) enum RestoreCommand {
    /// What came back, from what, how long it took, and what did not
    Report {
        /// Of an earlier run of the agent, by its number; works without the agent
        #[arg(long, value_name = "NUMBER")]
        life: Option<u64>,
    },
    /// The last lives of the agent: how each ended, what it restored, whom it lost; works without the
    /// agent
    Lives,
}
