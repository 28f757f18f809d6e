//! `cargo testbed cluster`: Kubernetes itself, brought up with bare machines, Volvox installed by its own
//! command, and what happens to a cluster tried on it.

mod connectivity;
mod everyday;
mod faults;
mod many;
mod roll;
mod scene;

use std::{process::Command, time::Instant};

use anyhow::{Result, ensure};

use crate::lab::Kubernetes;
pub use roll::Losses;
pub use scene::Scene;

/// Something that happens to a cluster. It leaves the cluster as it was.
pub struct Scenario {
    /// What it is called by.
    pub name: &'static str,
    /// What happens, and what must hold.
    pub about: &'static str,
    /// Lets it happen.
    pub run: fn(&mut Scene) -> Result<()>,
}

/// All of them.
pub const SCENARIOS: [Scenario; 6] = [
    Scenario {
        name: "everyday",
        about: "pods are reached in every way, looked into, and rolled while they serve",
        run: everyday::run,
    },
    Scenario {
        name: "connectivity",
        about: "volvox connectivity test passes while agents are replaced, and fails when it should",
        run: connectivity::run,
    },
    Scenario {
        name: "roll",
        about: "all agents are replaced at once: no packet, no connection is lost",
        run: roll::run,
    },
    Scenario {
        name: "kills",
        about: "every part of the cluster is killed under traffic: nothing is lost",
        run: faults::kills,
    },
    Scenario {
        name: "node-gone",
        about: "a node is drained, loses its power and comes back",
        run: faults::node_gone,
    },
    Scenario { name: "many", about: "sixty pods come and go at once", run: many::run },
];

/// What `cargo testbed cluster` is told.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// What to try; all of it if nothing is named
    scenarios: Vec<String>,
    /// How many machines there are, 2 or 3
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=3))]
    machines: u8,
    /// Open a shell in the cluster in place of trying anything
    #[arg(long, conflicts_with = "scenarios")]
    shell: bool,
    /// With a shell: leave the machines bare
    #[arg(long, requires = "shell")]
    bare: bool,
    /// List the scenarios
    #[arg(long)]
    pub(crate) list: bool,
}

/// Says what there is.
pub fn list() {
    for Scenario { name, about, .. } in &SCENARIOS {
        volvox_system::say!("{name:12} {about}");
    }
}

/// Brings the cluster up and tries what is named.
pub fn run(options: &Options) -> Result<()> {
    let chosen = chosen(&options.scenarios)?;
    let started = Instant::now();
    let Some(cluster) = Kubernetes::start(options.machines)? else { return Ok(()) };
    volvox_system::say!("{} bare machines after {:.1?}", options.machines, started.elapsed());
    if options.shell {
        return shell(cluster, options.bare);
    }
    let mut scene = Scene::install(cluster)?;
    volvox_system::say!("Volvox is ready on all of them after {:.1?}", started.elapsed());
    for scenario in chosen {
        let begun = Instant::now();
        scene.try_out(scenario)?;
        volvox_system::say!(
            "{:12} {:5.1} s  {}",
            scenario.name,
            begun.elapsed().as_secs_f64(),
            scenario.about
        );
    }
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>> {
    for name in names {
        let known = SCENARIOS.map(|it| it.name);
        ensure!(
            known.contains(&name.as_str()),
            "no scenario {name}: there are {}",
            known.join(", ")
        );
    }
    let wanted = |it: &&Scenario| names.is_empty() || names.iter().any(|name| name == it.name);
    Ok(SCENARIOS.iter().filter(wanted).collect())
}

fn shell(cluster: Kubernetes, bare: bool) -> Result<()> {
    let cluster = if bare { cluster } else { Scene::install(cluster)?.cluster };
    volvox_system::say!("kubectl asks this cluster; it is gone when the shell ends");
    Command::new("bash").env("KUBECONFIG", cluster.kubeconfig()).status()?;
    Ok(())
}
