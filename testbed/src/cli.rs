//! The command line.

use std::path::Path;

use anyhow::Result;
use clap::{Parser, Subcommand};
use volvox_sim as sim;

use crate::{
    bench, chaos, cluster, demo, kernels,
    lab::{self, build},
    picture, tidy,
};

/// `cargo testbed VERB`.
#[derive(Parser)]
#[command(name = "testbed", about = "Tries the agent on nodes in namespaces of their own")]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show what a restart costs
    Demo {
        /// Where random moments come from
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Have histories of restarts happen, told in files, and judge them by the guarantees
    Chaos {
        #[command(subcommand)]
        verb: chaos::Verb,
    },
    /// Measure what something costs
    Bench {
        /// What to measure
        verb: bench::Verb,
        #[command(flatten)]
        options: bench::Options,
    },
    /// Live through thousands of restarts in memory
    Sim {
        #[command(flatten)]
        options: sim::Options,
    },
    /// Try Volvox in Kubernetes itself: control plane, kubelets, containerd
    Cluster {
        #[command(flatten)]
        options: cluster::Options,
    },
    /// Try Volvox on other kernels, in virtual machines
    Kernels {
        #[command(flatten)]
        options: kernels::Options,
    },
    /// Build the agent that upgrades are tried with: its programs differ
    OtherAgent,
    /// Run a command in an empty lab
    Lab {
        /// Program and arguments
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// Make the documents' picture of the dashboard anew, from a real run
    DashboardPicture,
    /// Print the page of the agent's flags
    Flags,
    /// Check that the sources are in order
    Tidy,
}

/// Does what the command line says; the exit code.
pub fn run(cli: &Cli) -> Result<i32> {
    if let Verb::Kernels { options } = &cli.verb {
        return kernels::run(options);
    }
    if let Verb::Chaos { verb } = &cli.verb {
        return chaos::run(verb);
    }
    if !lab::is_inside() {
        match &cli.verb {
            Verb::Tidy => return tidy::run().map(|()| 0),
            Verb::Flags => {
                tidy::print_flags();
                return Ok(0);
            }
            Verb::Sim { options } => return sim::run(options),
            Verb::OtherAgent => return build::build_other().map(|()| 0),
            Verb::Cluster { options } if options.list => {
                cluster::list();
                return Ok(0);
            }
            Verb::Lab { .. } | Verb::Kernels { .. } | Verb::Chaos { .. } => {}
            Verb::Bench { verb: bench::Verb::Upgrade, .. } => build::build_other()?,
            Verb::Bench { .. }
            | Verb::Cluster { .. }
            | Verb::Demo { .. }
            | Verb::DashboardPicture => build::build()?,
        }
    }
    lab::inside(|| match &cli.verb {
        Verb::Demo { seed } => demo::run(*seed),
        Verb::Bench { verb, options } => bench::run(*verb, options),
        Verb::Cluster { options } => cluster::run(options),
        Verb::Lab { command } => lab::command(command),
        Verb::DashboardPicture => {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(picture::FILE);
            picture::make(&file, picture::PODS)
        }
        Verb::Chaos { .. }
        | Verb::Kernels { .. }
        | Verb::Tidy
        | Verb::Flags
        | Verb::OtherAgent
        | Verb::Sim { .. } => unreachable!("none of them is here"),
    })
}
