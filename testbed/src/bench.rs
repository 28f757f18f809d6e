//! What it costs, in figures with names, units and targets.
//!
//! *Ready* is the agent's own state, seen through its API. *Realised* is visible to a packet.

mod cluster;
mod cni;
mod connect;
mod create;
mod dashboard;
mod drift;
mod figure;
mod image;
mod kubernetes;
mod lb;
mod losses;
mod memory;
mod nat;
mod observe;
mod operator;
mod packet;
mod regenerate;
mod restart;
mod takeover;
mod throughput;
mod trace;
mod upgrade;

use anyhow::Result;
use clap::{Args, ValueEnum};

pub use figure::{Figure, Unit};

use crate::{
    fleet::Fleet,
    lab::{Node, Through},
    progress::Progress,
};

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verb {
    /// SIGKILL and start again, under traffic.
    Restart,
    /// Start an agent whose programs differ, forward and back, under traffic.
    Upgrade,
    /// Take a node of ten pods over from what stands in for Cilium, and give it back, under traffic.
    Takeover,
    /// Endpoints made through REST.
    Create,
    /// A policy change that touches every endpoint.
    Regenerate,
    /// A packet through the from-container program, and as many as go from pod to pod.
    Packet,
    /// The flight recorder: a record, and its share of the agent's work.
    Trace,
    /// Flows: what they cost, how late and how complete they are, and what a SIGKILL leaves of them.
    Observe,
    /// A page that looks on while the actors handle thousands of messages a second.
    Dashboard,
    /// Many services, from objects to maps, and a restart with them; translations of addresses that
    /// are collected under traffic.
    Lb,
    /// All rows of the kernel compared with what was written, with 5,000 services.
    Drift,
    /// A cluster of many nodes: what others announce in etcd.
    Cluster,
    /// A pod's network made by the CNI plugin, beside another plugin.
    Cni,
    /// A cluster of Kubernetes itself: installing, rolling all agents, and requests when nothing happens.
    Kubernetes,
    /// The operator of a large cluster: its memory.
    Operator,
    /// The agent's image: its size.
    Image,
    /// Memory of an agent in its first run, with few endpoints.
    Memory,
}

/// How to measure.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Endpoints on the node
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u16).range(20..=4000))]
    pub endpoints: u16,
    /// How often to repeat what is repeated
    #[arg(long, default_value_t = 10)]
    pub rounds: u16,
    /// One JSON line a figure instead of a table
    #[arg(long)]
    pub json: bool,
    /// Where random moments come from; the same seed draws the same ones
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A flag for the agent, such as flight-recorder=false; may be given again
    #[arg(long = "agent-flag", value_name = "NAME=VALUE")]
    pub agent_flags: Vec<String>,
    /// Services that there are, each of one backend
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(100..=60_000))]
    pub services: u32,
    /// How large a cluster is
    #[command(flatten)]
    pub cluster: cluster::Size,
}

impl Options {
    /// Pods, all ready, and an agent that was started with the flags asked for.
    fn launch(&self, progress: &Progress) -> Result<Fleet> {
        let mut fleet = Fleet::launch(self.endpoints.into(), Through::Rest, progress)?;
        if !self.agent_flags.is_empty() {
            self.add_flags(&mut fleet.node);
            fleet.node.kill_agent()?;
            fleet.node.start_agent()?;
            fleet.node.wait_for_ready(fleet.pods.len())?;
        }
        Ok(fleet)
    }

    /// Has agents started from now on get the flags asked for.
    fn add_flags(&self, node: &mut Node) {
        let flags: Vec<_> = self.agent_flags.iter().map(|flag| format!("--{flag}")).collect();
        node.flags(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// Measures and prints.
pub fn run(verb: Verb, options: &Options) -> Result<()> {
    let figures = match verb {
        Verb::Restart => restart::run(options),
        Verb::Upgrade => upgrade::run(options),
        Verb::Takeover => takeover::run(options),
        Verb::Create => create::run(options),
        Verb::Regenerate => regenerate::run(options),
        Verb::Packet => packet::run(options),
        Verb::Trace => trace::run(options),
        Verb::Observe => observe::run(options),
        Verb::Dashboard => dashboard::run(options),
        Verb::Lb => lb::run(options),
        Verb::Drift => drift::run(options),
        Verb::Cluster => cluster::run(options),
        Verb::Cni => cni::run(options),
        Verb::Kubernetes => kubernetes::run(options),
        Verb::Operator => operator::run(options),
        Verb::Image => image::run(),
        Verb::Memory => memory::run(),
    }?;
    figure::print(figures, options.json);
    Ok(())
}
