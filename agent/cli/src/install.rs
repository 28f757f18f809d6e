//! `volvox install`, `upgrade` and `uninstall`: Volvox in a cluster.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use volvox_install::{Access, Options, Removal, Sources};
use volvox_system::duration::parse_duration;

use super::{error::ClientError, output::Output};

/// Which cluster is meant.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// The kubeconfig; if not given, that of KUBECONFIG, or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it, if not the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Which values are set.
#[derive(Debug, Args)]
pub(super) struct Given {
    /// Set a value; repeated, or separated by commas. agent/docs/install.md lists the values
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Take values from a file, YAML as for Helm; --set goes over it
    #[arg(short = 'f', long, value_name = "FILE")]
    values: Vec<PathBuf>,
}

/// How objects are applied.
#[derive(Debug, Args)]
pub(super) struct Applying {
    /// How long to wait for nodes to be ready; 0 does not wait
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    wait: Duration,
    /// Take over fields that others wrote
    #[arg(long)]
    force_conflicts: bool,
}

#[derive(Debug, Args)]
pub(super) struct InstallArguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    given: Given,
    #[command(flatten)]
    applying: Applying,
    /// Also where Cilium's agents run
    #[arg(long)]
    beside_cilium: bool,
    /// Only print the objects, as YAML or with -o json; asks no cluster
    #[arg(long)]
    dry_run: bool,
    /// Only write a Helm chart of the objects into this directory; asks no cluster
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dry_run", "set", "values"])]
    helm_chart: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct UpgradeArguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    given: Given,
    #[command(flatten)]
    applying: Applying,
    /// Forget values that were given before
    #[arg(long)]
    reset_values: bool,
}

#[derive(Debug, Args)]
pub(super) struct UninstallArguments {
    #[command(flatten)]
    target: Target,
    /// Also the definitions of Cilium's kinds, and with them all their objects
    #[arg(long)]
    definitions: bool,
    /// Also what agents made on nodes: programs, maps, state, the CNI configuration
    #[arg(long)]
    nodes: bool,
    /// How long to wait for pods to end, and for nodes; 0 does not wait
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    wait: Duration,
}

impl Target {
    pub(super) fn access(self) -> Access {
        Access { kubeconfig: self.kubeconfig, context: self.context }
    }
}

impl Given {
    fn sources(self) -> Sources {
        Sources { files: self.values, set: self.set }
    }
}

impl Applying {
    fn options(&self) -> Options {
        Options { wait: self.wait, force_conflicts: self.force_conflicts }
    }
}

/// Installs Volvox, or only shows the objects.
pub(super) async fn install(
    out: &mut Output<'_>,
    arguments: InstallArguments,
) -> Result<(), ClientError> {
    let InstallArguments { target, given, applying, beside_cilium, dry_run, helm_chart } =
        arguments;
    if let Some(directory) = helm_chart {
        let files = volvox_install::write_chart(&directory)?;
        return out.line(format!("{files} files written to {}", directory.display()));
    }
    let sources = given.sources();
    if dry_run {
        let objects = volvox_install::dry_run(&sources)?;
        let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        return out.answer(&list, |out, _| out.line(volvox_install::printed(&objects).trim_end()));
    }
    let cluster = target.access().open().await?;
    let (options, mut say) = (applying.options(), said_on(out));
    Ok(volvox_install::install(&cluster, &sources, beside_cilium, &options, &mut say).await?)
}

/// Changes what is installed.
pub(super) async fn upgrade(
    out: &mut Output<'_>,
    arguments: UpgradeArguments,
) -> Result<(), ClientError> {
    let UpgradeArguments { target, given, applying, reset_values } = arguments;
    let cluster = target.access().open().await?;
    let (sources, options) = (given.sources(), applying.options());
    let mut say = said_on(out);
    Ok(volvox_install::upgrade(&cluster, &sources, reset_values, &options, &mut say).await?)
}

/// Removes what was installed.
pub(super) async fn uninstall(
    out: &mut Output<'_>,
    arguments: UninstallArguments,
) -> Result<(), ClientError> {
    let UninstallArguments { target, definitions, nodes, wait } = arguments;
    let cluster = target.access().open().await?;
    let removal = Removal { definitions, nodes, wait };
    Ok(volvox_install::uninstall(&cluster, &removal, &mut said_on(out)).await?)
}

/// Writes progress. Nobody may read it any more, which costs the line and never the work.
fn said_on(out: &mut Output<'_>) -> impl FnMut(&str) {
    move |line| drop(out.line(line))
}
