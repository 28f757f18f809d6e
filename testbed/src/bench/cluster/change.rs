//! One policy of many is changed: from when the API server has it until packets see it.

use std::{net::Ipv4Addr, time::Instant};

use anyhow::Result;

use super::{other_node::OtherNode, policies::Cluster};
use crate::{
    bench::{Figure, Unit},
    progress::Progress,
    traffic::Sweep,
};

/// Policies for each round.
const FOR_EACH_ROUND: usize = 5;

/// Where who probes is.
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);

/// Lets a pod of another node in, and out, by the policies of one app after the other.
pub(super) fn measure(
    cluster: &mut Cluster,
    rounds: u16,
    progress: &Progress,
) -> Result<Vec<Figure>> {
    let mut changed = Figure::new("policy.change", Unit::Seconds).below(0.01);
    let other = OtherNode::connect()?;
    other.add(SOURCE)?;
    cluster.announce_prober(SOURCE)?;
    cluster.wait_until_converged()?;
    let count = usize::from(rounds) * FOR_EACH_ROUND;
    progress.rounds("changing policies", count, |nth| {
        let number = nth % cluster.fleet.pods.len();
        let (app, pod) = (cluster.app(number), &cluster.fleet.pods[number]);
        let target = pod.address(false)?;
        let mut sweep = Sweep::start_from(SOURCE, &other.netns, vec![target])?;
        sweep.wait_for_silence()?;
        let (path, change) = app.change(true);
        let client = cluster.server.client();
        let (answered, seen) = std::thread::scope(|scope| {
            let answered = scope.spawn(|| client.patch(&path, &change).map(|()| Instant::now()));
            let seen = sweep.wait_for_all();
            (answered.join().expect("a request does not panic"), seen)
        });
        changed.push_time(seen?.last.saturating_duration_since(answered?));
        let (path, change) = app.change(false);
        cluster.server.client().patch(&path, &change)?;
        sweep.wait_for_silence()
    })?;
    Ok(vec![changed])
}
