use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::rest_client::DEFAULT_SOCKET;

/// Speak to the node agent
#[derive(Debug, Parser)]
#[command(name = "volvox", version, propagate_version = true, arg_required_else_help = true)]
pub(super) struct Arguments {
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

    /// How to answer
    #[arg(short, long, value_enum, global = true, default_value = "table")]
    pub(super) output: Format,

    #[command(subcommand)]
    pub(super) command: Command,
}

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// How the agent is
    Status {
        /// Only whether it is well
        #[arg(long)]
        brief: bool,
    },
    /// Endpoints
    #[command(subcommand)]
    Endpoint(EndpointCommand),
    /// Addresses
    #[command(subcommand)]
    Ipam(IpamCommand),
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
    /// Who waits for whom, and since when
    Why {
        /// Begin at this endpoint; all waits if none is named
        id: Option<String>,
    },
    /// What the datapath does with packets, as it happens; works without the agent
    ///
    /// Connections are shown as they open, close and every few seconds; the endpoint's option
    /// `MonitorAggregationLevel=None` has every packet shown.
    Monitor(MonitorFilter),
    /// Metrics, as Prometheus reads them
    Metrics,
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
    /// Its number, or a prefix and a value: pod-name:NAMESPACE/POD, container-id:ID, ipv4:ADDRESS
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
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(super) enum ListCommand {
    /// All rows
    List,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(super) enum PolicyListCommand {
    /// The rows of one endpoint's policy, or of all
    List {
        /// The endpoint's number
        id: Option<u16>,
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
    Report,
}

#[derive(Debug, Args)]
pub(super) struct MonitorFilter {
    /// Only what this endpoint sends or receives, by number; repeated: any of them
    #[arg(long = "endpoint", value_name = "ID")]
    pub(super) endpoints: Vec<u16>,
    /// Only records of this kind; repeated: any of them
    #[arg(short, long = "type", value_enum, value_name = "TYPE")]
    pub(super) kinds: Vec<RecordKind>,
    /// End after so many records
    #[arg(long, value_name = "NUMBER")]
    pub(super) count: Option<u64>,
}

/// Kinds of records of the datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RecordKind {
    /// A packet was dropped
    Drop,
    /// A packet passed a point of observation
    Trace,
    /// A policy was consulted
    #[value(name = "policy-verdict")]
    PolicyVerdict,
}
