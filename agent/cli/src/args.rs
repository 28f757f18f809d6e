//! The command line of `volvox`: its commands, their arguments and their help texts.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use volvox_actors::model::L4Address;
use volvox_rest::client::DEFAULT_SOCKET;
use volvox_system::duration::parse_duration;

use super::{
    connectivity::{ConnectivityCommand, ProbeCommand},
    dashboard::DashboardArguments,
    health::HealthArguments,
    install::{InstallArguments, UninstallArguments, UpgradeArguments},
    migrate::MigrateCommand,
    monitor::MonitorFilter,
    observe::ObserveArguments,
    output::Format,
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
    #[arg(short, long, value_enum, global = true, default_value = "table")]
    pub(super) output: Format,

    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// How the agent is
    Status {
        /// Only whether it is well
        #[arg(long)]
        brief: bool,
    },
    /// Which nodes and health endpoints this node reaches, by ICMP and by HTTP
    Health(HealthArguments),
    /// Endpoints
    #[command(subcommand)]
    Endpoint(EndpointCommand),
    /// Addresses
    #[command(subcommand)]
    Ipam(IpamCommand),
    /// Services: where they are reached, and who serves them
    #[command(subcommand)]
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
    /// Identities
    #[command(subcommand)]
    Identity(IdentityCommand),
    /// The last restart
    #[command(subcommand)]
    Restore(RestoreCommand),
    /// Whether kernel, disk and agent agree on the node; changes nothing, works without the agent
    Verify(VerifyArguments),
    /// Who waits for whom, and since when; what began a regeneration; which rule drops a packet
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

#[derive(Debug, Subcommand)]
pub(super) enum EndpointCommand {
    /// All endpoints
    List {
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
    List,
    /// Pools, and this node's prefixes of them
    Pools,
}

#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// The rules in force, as they were written
    Get,
    /// Say what is wrong with manifests; works without the agent
    Validate {
        /// Manifests, YAML or JSON
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// How each policy stands: whom it selects, what of it is not supported, why it was refused
    Status,
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
    Ct(ListCommand),
    /// Whose address stands for whose
    #[command(subcommand)]
    Nat(ListCommand),
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

#[derive(Clone, Copy, Debug, Subcommand)]
pub(super) enum ServiceCommand {
    /// All frontends
    List,
    /// One frontend
    Get {
        /// Its number
        id: u16,
    },
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(super) enum BackendCommand {
    /// All backends
    List,
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

#[derive(Debug, Args)]
pub(super) struct Question {
    /// Begin at this endpoint; all waits if none is named
    #[arg(value_name = "ENDPOINT")]
    pub(super) id: Option<String>,
    /// What its last regeneration came from; works without the agent
    #[arg(long, requires = "id", conflicts_with = "dropped")]
    pub(super) regenerated: bool,
    /// What its policy in the kernel makes of a packet, and by which rule
    #[arg(long, requires = "id")]
    pub(super) dropped: bool,
    /// Whom the packet comes from
    #[arg(long, value_name = "ADDRESS", requires = "dropped", conflicts_with = "to")]
    pub(super) from: Option<IpAddr>,
    /// Whom the packet goes to
    #[arg(long, value_name = "ADDRESS", requires = "dropped")]
    pub(super) to: Option<IpAddr>,
    /// Port that it goes to; of ICMP its type
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "dropped")]
    pub(super) port: u16,
    /// Its protocol
    #[arg(long, value_enum, default_value = "tcp", requires = "dropped")]
    pub(super) protocol: Protocol,
}

/// Protocols that policies know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say all")]
pub(super) enum Protocol {
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmpv6,
}

impl Protocol {
    /// Its number in a packet.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Icmp => 1,
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Icmpv6 => 58,
            Self::Sctp => 132,
        }
    }
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct TraceArguments {
    #[command(subcommand)]
    pub(super) export: Option<TraceFormat>,
    #[command(flatten)]
    pub(super) filter: TraceFilter,
    /// So many records at most, the latest; 0 shows all
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    pub(super) last: usize,
}

#[derive(Debug, Subcommand)]
pub(super) enum TraceFormat {
    /// Write it for other programs
    Export(Export),
}

#[derive(Debug, Args)]
#[group(id = "format", required = true, multiple = false, args = ["perfetto", "otlp", "json"])]
pub(super) struct Export {
    #[command(flatten)]
    pub(super) filter: TraceFilter,
    /// For https://ui.perfetto.dev and chrome://tracing
    #[arg(long)]
    pub(super) perfetto: bool,
    /// For OpenTelemetry collectors: OTLP as JSON
    #[arg(long)]
    pub(super) otlp: bool,
    /// The records themselves
    #[arg(long)]
    pub(super) json: bool,
    /// To this file; to the standard output if none is named
    #[arg(short, long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct TraceFilter {
    /// Only what this endpoint did, got and waited for; by number, unless it is on this node
    #[arg(long, value_name = "ENDPOINT")]
    pub(super) endpoint: Option<String>,
    /// Only what followed from this outside event, by its number in the column ROOT
    #[arg(long, value_name = "NUMBER")]
    pub(super) root: Option<u64>,
    /// Only the last while, such as 10s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) since: Option<Duration>,
    /// `current`, `previous`, a number of `volvox restore lives`, or the file of a flight recorder
    #[arg(long, value_name = "LIFE", default_value = "current")]
    pub(super) life: Lifetime,
}

/// Which flight recorder is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// Of the agent that runs, or ran last.
    Current,
    /// Of the one before.
    Previous,
    /// Of the one with that number.
    Number(u64),
    /// Of whoever wrote that file.
    File(PathBuf),
}

impl From<&str> for Lifetime {
    fn from(text: &str) -> Self {
        match text {
            "current" => Self::Current,
            "previous" => Self::Previous,
            text => text.parse().map_or_else(|_| Self::File(text.into()), Self::Number),
        }
    }
}
