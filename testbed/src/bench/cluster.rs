//! A node among many: what it costs to know what others announce in etcd, and to enforce the
//! policies of a cluster.

mod addresses;
mod change;
mod compile;
mod identity;
mod ipcache;
mod neighbours;
mod objects;
mod other_node;
mod policies;
mod restart;

use anyhow::Result;
use clap::Args;

use super::{Figure, Options};
use crate::{lab::ApiServer, progress::Progress};
use neighbours::Neighbours;
use policies::Cluster;

/// How large the cluster is.
#[derive(Clone, Debug, Args)]
pub struct Size {
    /// Of a cluster: identities that other nodes announce
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=30_000))]
    pub identities: u32,
    /// Of a cluster: addresses that other nodes announce
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=400_000))]
    pub addresses: u32,
    /// Of a cluster: pods on all nodes, beside those on this one
    #[arg(long, default_value_t = 9_750, value_parser = clap::value_parser!(u32).range(1..=400_000))]
    pub pods: u32,
    /// Of a cluster: policies, each for the pods of an app of its own
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(20..=20_000))]
    pub policies: u32,
}

/// Measures everything.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let mut neighbours = Neighbours::launch(options, &progress)?;
    let mut figures = addresses::measure(&mut neighbours, options.rounds, &progress)?;
    figures.extend(identity::measure(&mut neighbours, options.rounds, &progress)?);
    neighbours.end()?;
    let Some(program) = ApiServer::find() else { return Ok(figures) };
    let mut cluster = Cluster::launch(program, options, &progress)?;
    figures.extend(compile::measure(&mut cluster, options.rounds, &progress)?);
    figures.extend(change::measure(&mut cluster, options.rounds, &progress)?);
    figures.extend(restart::measure(&mut cluster, options.rounds, &progress)?);
    Ok(figures)
}
