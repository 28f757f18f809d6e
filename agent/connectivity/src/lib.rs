//! Tries in a cluster whether everything reaches what it shall reach, and nothing else: what
//! `volvox connectivity test` does.
//!
//! Pods and policies are made in a namespace of their own. The pods run `volvox probe`, from the agent's
//! image, and are told what to ask by commands that are run in them through the API server. So they can
//! be asked while the network that is tried does not work.

mod api;
mod asking;
mod claim;
mod error;
mod exec;
#[cfg(test)]
mod fake;
mod hint;
mod judge;
mod junit;
mod objects;
pub mod probe;
mod report;
mod restart;
mod run;
mod scenarios;
mod setup;
#[cfg(test)]
mod tests;
mod websocket;
mod world;

use std::time::Duration;

pub use self::{
    error::ConnectivityError,
    junit::junit,
    report::{Failure, Outcome, Report, TestReport},
    run::test,
    scenarios::{Part, names},
};

/// Where progress is told, a line at a time.
pub type Say<'a> = &'a mut (dyn FnMut(&str) + 'a);

/// What is tried, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where pods are made; the other namespace has this name and `-other`.
    pub namespace: String,
    /// Patterns of names; everything if there are none.
    pub tests: Vec<String>,
    /// What pods run, if not the agent's image.
    pub image: Option<String>,
    /// How long pods, and agents that are replaced, may take to be ready.
    pub timeout: Duration,
    /// Only one node takes part.
    pub single_node: bool,
    /// Nodes that take part, one or two; the first ones that are ready if none is named.
    pub nodes: Vec<String>,
    /// What is left out.
    pub skip: Vec<Part>,
    /// Somebody outside of the cluster, HOST:PORT.
    pub external: Option<String>,
    /// Agents are replaced.
    pub restart_agents: bool,
    /// All that was made is left.
    pub keep: bool,
}
