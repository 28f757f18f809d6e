//! A restart in the cluster with nothing changed.

use std::collections::BTreeSet;

use anyhow::Result;

use super::policies::Cluster;
use crate::{
    bench::{Figure, Unit},
    lab::Asked,
    progress::Progress,
};

/// Kills and starts, again and again, until all is ready and until all is known.
pub(super) fn measure(
    cluster: &mut Cluster,
    rounds: u16,
    progress: &Progress,
) -> Result<Vec<Figure>> {
    let mut memory = Figure::new("cluster.rss", Unit::Megabytes).below(120.0);
    let mut peak = Figure::new("cluster.rss_peak", Unit::Megabytes);
    let mut ready = Figure::new("cluster.restart_ready", Unit::Seconds).below(0.2);
    let mut converged = Figure::new("cluster.converged", Unit::Seconds).below(3.0);
    let mut asked = Figure::new("cluster.requests", Unit::Count);
    let mut surplus = Figure::new("cluster.requests_beyond_lists", Unit::Count).zero();
    progress.rounds("restarting", rounds.into(), |_| {
        let before = cluster.server.asked_by_agents()?.len();
        let count = cluster.fleet.pods.len();
        cluster.fleet.node.kill_agent()?;
        cluster.fleet.node.exec_agent()?;
        ready.push_time(cluster.fleet.node.wait_for_ready(count)?);
        converged.push_time(cluster.wait_until_converged()?);
        let usage = cluster.fleet.node.agent()?.usage()?;
        memory.push(usage.memory as f64 / 1e6);
        peak.push(usage.memory_peak as f64 / 1e6);
        let requests = cluster.server.asked_by_agents()?.split_off(before);
        surplus.push_count(beyond_lists(&requests));
        asked.push_count(requests.len() as u64);
        Ok(())
    })?;
    Ok(vec![memory, peak, ready, converged, asked, surplus])
}

/// How many of these requests are no part of listing each resource once and watching it.
fn beyond_lists(requests: &[Asked]) -> u64 {
    let mut seen = BTreeSet::new();
    let is_part = |asked: &&Asked| {
        let (path, query) = asked.uri.split_once('?').unwrap_or((&asked.uri, ""));
        let selected = query.split('&').find(|it| it.starts_with("fieldSelector="));
        let once = match asked.verb.as_str() {
            // Each page by its own token.
            "list" => asked.uri.clone(),
            // Of definitions that nobody has made, each alone.
            "watch" => format!("{path}?{}", selected.unwrap_or_default()),
            // Whether the resource is defined.
            "get" if path.contains("/customresourcedefinitions/") => path.to_owned(),
            _ => return false,
        };
        seen.insert((asked.verb.clone(), once))
    };
    (requests.len() - requests.iter().filter(is_part).count()) as u64
}
