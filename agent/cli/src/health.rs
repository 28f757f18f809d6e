//! `volvox health`: which nodes and health endpoints are reached, as this node's agent probes them.

use std::{env, path::Path, time::Duration};

use clap::Args;
use volvox_rest::{
    RestClient,
    models::{ConnectivityStatus, HealthStatus, NodeHealthStatus, PathStatus, PathsStatus},
};

use super::{
    error::ClientError,
    output::{Output, count},
};

/// Where Cilium's clients are told that its health daemon listens.
const ENVIRONMENT: &str = "CILIUM_HEALTH_SOCK";
/// Its name beside the agent's socket.
const NAME: &str = "health.sock";
/// Below what its paths are.
const BASE: &str = "/v1beta";
/// How long it may take to answer: it waits for no probe.
const DEADLINE: Duration = Duration::from_secs(30);

/// What of it is shown.
#[derive(Debug, Args)]
pub(super) struct HealthArguments {
    /// What each probe said, and when
    #[arg(short, long)]
    pub(super) verbose: bool,
}

pub(super) async fn run(
    agent: &Path,
    out: &mut Output<'_>,
    arguments: &HealthArguments,
) -> Result<(), ClientError> {
    out.answer(&ask(agent).await?, |out, status| show(out, status, arguments.verbose))
}

/// How nodes are reached, as the agent behind that socket says it.
pub(super) async fn ask(agent: &Path) -> Result<HealthStatus, ClientError> {
    let socket = env::var_os(ENVIRONMENT).map_or_else(|| agent.with_file_name(NAME), Into::into);
    let client = RestClient::new(socket).below(BASE).patience(Duration::ZERO).deadline(DEADLINE);
    Ok(client.get("/status").await?)
}

/// In one line, how many are reached and which are not.
pub(super) fn line(status: &HealthStatus) -> String {
    let unreached: Vec<_> =
        status.nodes.iter().filter(|node| !is_reached(node)).map(|it| it.name.as_str()).collect();
    let reached = status.nodes.len() - unreached.len();
    let all = format!("{reached} of {} reached", count(status.nodes.len(), "node"));
    match unreached.is_empty() {
        true => all,
        false => format!("{all}; not {}", unreached.join(", ")),
    }
}

fn is_reached(node: &NodeHealthStatus) -> bool {
    let paths = [&node.host, &node.health_endpoint];
    paths.into_iter().flatten().flat_map(PathsStatus::all).all(PathStatus::is_reached)
}

fn show(out: &mut Output<'_>, status: &HealthStatus, verbose: bool) -> Result<(), ClientError> {
    out.line(format!("Probes of the round that began {}", status.timestamp))?;
    out.line(format!("A round takes {}; {}", status.probe_interval, line(status)))?;
    if !verbose {
        let rows = status.nodes.iter().map(|node| {
            let name = named(status, node);
            let addresses = node.host.iter().flat_map(PathsStatus::all);
            let addresses: Vec<_> = addresses.map(|it| it.ip.as_str()).collect();
            [
                name,
                addresses.join(", "),
                of_paths(node.host.as_ref()),
                of_paths(node.health_endpoint.as_ref()),
            ]
        });
        return out.table(["NAME", "ADDRESSES", "NODE", "HEALTH ENDPOINT"], rows);
    }
    for node in &status.nodes {
        out.line(format!("{}:", named(status, node)))?;
        for (what, paths) in [("Node", &node.host), ("Health endpoint", &node.health_endpoint)] {
            for path in paths.iter().flat_map(PathsStatus::all) {
                out.line(format!("  {what} at {}:", path.ip))?;
                out.line(format!("    ICMP: {}", result(path.icmp.as_ref())))?;
                out.line(format!("    HTTP: {}", result(path.http.as_ref())))?;
            }
        }
    }
    Ok(())
}

fn named(status: &HealthStatus, node: &NodeHealthStatus) -> String {
    match node.name == status.local.name {
        true => format!("{} (this node)", node.name),
        false => node.name.clone(),
    }
}

/// How many of its addresses are reached.
fn of_paths(paths: Option<&PathsStatus>) -> String {
    let Some(paths) = paths else { return "none".to_owned() };
    let reached = paths.all().filter(|it| it.is_reached()).count();
    format!("{reached}/{}", paths.all().count())
}

fn result(result: Option<&ConnectivityStatus>) -> String {
    match result {
        None => "not known yet".to_owned(),
        Some(it) if it.status.is_empty() => {
            let latency = Duration::from_nanos(it.latency);
            format!("answered after {latency:?} ({})", it.last_probed)
        }
        Some(it) => format!("{} ({})", it.status, it.last_probed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, status: &str) -> NodeHealthStatus {
        let probe = ConnectivityStatus {
            last_probed: "2026-11-20T15:42:30Z".to_owned(),
            latency: 352_000,
            status: status.to_owned(),
        };
        let path = PathStatus { http: None, icmp: Some(probe), ip: "192.0.2.1".to_owned() };
        let host = Some(PathsStatus { primary_address: path, secondary_addresses: None });
        NodeHealthStatus { host, name: name.to_owned(), ..NodeHealthStatus::default() }
    }

    #[test]
    fn nodes_that_are_not_reached_are_named() {
        let nodes = vec![node("a", ""), node("b", "Connection timed out")];
        let mut status = HealthStatus { nodes, ..HealthStatus::default() };
        status.local.name = "a".to_owned();
        assert_eq!(line(&status), "1 of 2 nodes reached; not b");
        let mut text = Vec::new();
        show(&mut Output::new(super::super::output::Format::Table, &mut text), &status, true)
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        for expected in [
            "a (this node):",
            "ICMP: answered after 352µs",
            "ICMP: Connection timed out (2026-11-20T15:42:30Z)",
            "HTTP: not known yet",
        ] {
            assert!(text.contains(expected), "{text}");
        }
    }
}
