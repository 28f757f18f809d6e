//! What `volvox monitor` is asked.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct MonitorFilter {
    /// Only what this endpoint sends or receives; repeated: any of them
    #[arg(long = "endpoint", value_name = "ENDPOINT")]
    pub(crate) endpoints: Vec<String>,
    /// Only records of this kind; repeated: any of them
    #[arg(short, long = "type", value_enum, value_name = "TYPE")]
    pub(crate) kinds: Vec<RecordKind>,
    /// End after so many records
    #[arg(long, value_name = "NUMBER")]
    pub(crate) count: Option<u64>,
}

/// Kinds of records of the datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecordKind {
    /// A packet was dropped
    Drop,
    /// A packet passed a point of observation
    Trace,
    /// A policy was consulted
    #[value(name = "policy-verdict")]
    PolicyVerdict,
}
