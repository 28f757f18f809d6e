//! Installs Volvox in a cluster, upgrades it and removes it: what `volvox install`, `upgrade` and
//! `uninstall` do. All that speaks to the API server about that is here.
//!
//! The objects come from `volvox-packaging`. They are applied by the server (server-side apply), so
//! that an apply of what is there already changes nothing.

mod access;
mod apply;
mod chart;
mod checks;
mod error;
#[cfg(test)]
mod fake;
mod kinds;
mod nodes;
mod ready;
mod remove;
mod server;
mod sources;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::{
    access::{Access, Cluster},
    chart::write_chart,
    error::InstallError,
    nodes::trouble,
    remove::{Removal, uninstall},
    sources::{Sources, printed},
};
use self::{
    checks::{Installed, refuse_cilium, version_minor},
    server::Server,
};
use serde_json::Value;
use volvox_packaging::{NAME, Values, for_server, objects, record};

/// How an installation is done.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long nodes are waited for; zero does not wait.
    pub wait: Duration,
    /// Fields that others wrote are taken over.
    pub force_conflicts: bool,
}

/// Where progress is told, a line at a time.
pub type Say<'a> = &'a mut (dyn FnMut(&str) + 'a);

/// Installs Volvox with those values. `beside_cilium`, also where Cilium's agents run.
pub async fn install(
    cluster: &Cluster,
    sources: &Sources,
    beside_cilium: bool,
    options: &Options,
    say: Say<'_>,
) -> Result<(), InstallError> {
    let mut values = sources.over(Values::default())?;
    say(&format!("the API server is {}", cluster.name()));
    name_server(cluster, &mut values, say)?;
    values.check()?;
    let server = cluster.server();
    let minor = version_minor(server).await?;
    if let Some(installed) = Installed::find(server).await? {
        installed.refuse_others(&values)?;
    }
    if !beside_cilium {
        refuse_cilium(server).await?;
    }
    put(server, &values, minor, options, say).await
}

/// Changes what is installed to this version and to those values. Values that are not named stay,
/// unless `reset`.
pub async fn upgrade(
    cluster: &Cluster,
    sources: &Sources,
    reset: bool,
    options: &Options,
    say: Say<'_>,
) -> Result<(), InstallError> {
    // What cannot be read is refused before the cluster is asked.
    sources.over(Values::default())?;
    say(&format!("the API server is {}", cluster.name()));
    let server = cluster.server();
    let minor = version_minor(server).await?;
    let installed = Installed::find(server).await?.ok_or(InstallError::NotInstalled)?;
    let mut values = sources.over(if reset { Values::default() } else { installed.values()? })?;
    if reset {
        name_server(cluster, &mut values, say)?;
    }
    values.check()?;
    installed.refuse_another_namespace(&values)?;
    put(server, &values, minor, options, say).await?;
    apply::prune(server, &all_objects(&values, minor), say).await
}

/// The objects of those values; asks no cluster.
pub fn dry_run(sources: &Sources) -> Result<Vec<Value>, InstallError> {
    let values = sources.over(Values::default())?;
    values.check()?;
    Ok(objects(&values))
}

/// Values that name the API server.
const SERVERS: [&str; 3] = ["k8sServiceHost", "k8sServicePort", "k8s.apiServerURLs"];

/// Has pods reach the API server at the address that the kubeconfig has, if nobody named one.
fn name_server(cluster: &Cluster, values: &mut Values, say: Say<'_>) -> Result<(), InstallError> {
    if SERVERS.iter().any(|name| values.has(name)) {
        return Ok(());
    }
    match cluster.address_for_pods() {
        Some((host, port)) => {
            values.set(&format!("k8sServiceHost={host},k8sServicePort={port}"))?;
            say(&format!(
                "pods reach the API server at {host}:{port}, as {} says: others are named by \
                 --set 'k8s.apiServerURLs=https://HOST:PORT https://HOST:PORT'",
                cluster.source()
            ));
        }
        None => say(&format!(
            "nodes cannot reach the API server at {}, which is an address of this machine alone. Pods \
             ask the Service kubernetes, which needs kube-proxy: without it, name servers that nodes \
             reach by --set 'k8s.apiServerURLs=https://HOST:PORT https://HOST:PORT'",
            cluster.name()
        )),
    }
    Ok(())
}

/// The objects of those values and the record of the values, in the order in which they are applied.
fn all_objects(values: &Values, minor: u32) -> Vec<Value> {
    let mut all = objects(values);
    for_server(&mut all, minor);
    // The DaemonSet is last: what its pods need is there before them.
    let at = all.iter().position(|it| it["kind"] == "DaemonSet").unwrap_or(all.len());
    all.insert(at, record(values));
    all
}

async fn put(
    server: &Server,
    values: &Values,
    minor: u32,
    options: &Options,
    say: Say<'_>,
) -> Result<(), InstallError> {
    let namespace = values.namespace();
    checks::refuse_no_namespace(server, &namespace).await?;
    let all = all_objects(values, minor);
    apply::apply_all(server, &all, options.force_conflicts, say).await?;
    if options.wait.is_zero() {
        say(&format!("not waited for nodes: kubectl -n {namespace} rollout status ds/{NAME} does"));
        return Ok(());
    }
    ready::wait(server, &namespace, NAME, options.wait, say).await
}
