//! A new identity on another node, from when etcd has it until its packets pass at every endpoint
//! whose policy allows it.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Instant,
};

use anyhow::Result;

use super::{neighbours::Neighbours, other_node::OtherNode};
use crate::{
    bench::{Figure, Unit, regenerate},
    lab::other_node,
    progress::Progress,
    traffic::Sweep,
};

/// Identities for each round: of so few the hundredth part is none.
const FOR_EACH_ROUND: u16 = 50;

/// The other node's addresses.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 0);

/// Announces an identity that all policies let in, and its address, and pings from there.
pub(super) fn measure(
    neighbours: &mut Neighbours,
    rounds: u16,
    progress: &Progress,
) -> Result<Vec<Figure>> {
    let mut enforced = Figure::new("identity.enforced", Unit::Seconds);
    let mut high = Figure::new("identity.enforced_p99", Unit::Seconds).below(0.02);
    let other = OtherNode::connect()?;
    let node = &neighbours.fleet.node;
    regenerate::put(node)?;
    let pods = neighbours.fleet.pods.iter();
    let targets = pods.map(|pod| pod.address(false)).collect::<Result<Vec<IpAddr>>>()?;
    let count = usize::from(rounds * FOR_EACH_ROUND);
    // The first is there when the policy that lets it in is: how long that takes is not meant.
    let free = neighbours.free_identities(count + 1)?;
    progress.rounds("announcing identities", free.len(), |nth| {
        let id = free[nth];
        let source = Ipv4Addr::from_bits(FIRST.to_bits() + 1 + u32::try_from(nth)?);
        other.add(source)?;
        let mut sweep = Sweep::start_from(source, &other.netns, targets.clone())?;
        sweep.wait_for_silence()?;
        let name = format!("prober-{id}");
        let labels = other_node::labels("probe", &[("app", "prober"), ("name", &name)]);
        let identity = other_node::identity(id, &labels);
        let address = other_node::address(source, id, "probe", &name);
        let announced: Vec<_> = identity.into_iter().chain([address]).collect();
        neighbours.store.put_many(&announced)?;
        // etcd has it: how long its disk takes is not meant.
        let begun = Instant::now();
        // The address is mapped, for all at once, when every policy knows its identity.
        let answered = sweep.wait_for_all_at_once()?;
        if nth > 0 {
            enforced.push_time(answered.last.saturating_duration_since(begun));
        }
        Ok(())
    })?;
    high.push(enforced.high());
    Ok(vec![high, enforced])
}
