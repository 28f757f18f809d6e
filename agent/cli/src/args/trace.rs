//! The command line of `volvox trace`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use volvox_system::duration::parse_duration;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TraceArguments {
    #[command(subcommand)]
    pub(crate) export: Option<TraceFormat>,
    #[command(flatten)]
    pub(crate) filter: TraceFilter,
    /// So many records at most, the latest; 0 shows all
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    pub(crate) last: usize,
    /// And what comes
    #[arg(short, long)]
    pub(crate) follow: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceFormat {
    /// Write it for other programs
    Export(Export),
}

#[derive(Debug, Args)]
#[group(id = "format", required = true, multiple = false, args = ["perfetto", "otlp", "json"])]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) filter: TraceFilter,
    /// For https://ui.perfetto.dev and chrome://tracing
    #[arg(long)]
    pub(crate) perfetto: bool,
    /// For OpenTelemetry collectors: OTLP as JSON
    #[arg(long)]
    pub(crate) otlp: bool,
    /// The records themselves
    #[arg(long)]
    pub(crate) json: bool,
    /// To this file; to the standard output if none is named
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TraceFilter {
    /// Only what this endpoint did, got and waited for; by number, unless it is on this node
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) endpoint: Option<String>,
    /// Only what followed from this outside event, by its number in the column ROOT
    #[arg(long, value_name = "NUMBER")]
    pub(crate) root: Option<u64>,
    /// Only the last while, such as 10s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// `current`, `previous`, a number of `volvox restore lives`, or the file of a flight recorder
    #[arg(long, value_name = "LIFE", default_value = "current")]
    pub(crate) life: Lifetime,
}

/// Which flight recorder is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
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
