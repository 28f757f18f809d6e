//! A new identity on another node, until its packets pass at every endpoint whose policy allows it.

use std::{
    net::{IpAddr, Ipv4Addr},
    os::fd::AsFd,
    time::Instant,
};

use anyhow::{Context, Result};
use volvox_actors::model::Mac;
use volvox_agent::ports::netlink::{Socket, Veth};

use super::{Cluster, other_node};
use crate::{
    bench::{Figure, Unit, regenerate},
    lab::Netns,
    progress::Progress,
    traffic::Sweep,
};

/// Identities for each round: of so few the hundredth part is none.
const FOR_EACH_ROUND: u16 = 20;

/// The other node's addresses.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 0);
/// Where it reaches this node.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);

/// Announces an identity that all policies let in, and its address, and pings from there.
pub(super) fn measure(
    cluster: &mut Cluster,
    rounds: u16,
    progress: &Progress,
) -> Result<Vec<Figure>> {
    let mut enforced = Figure::new("identity.enforced", Unit::Seconds);
    let mut high = Figure::new("identity.enforced_p99", Unit::Seconds).below(0.02);
    let other = OtherNode::connect()?;
    let node = &cluster.fleet.node;
    regenerate::put(node)?;
    let pods = cluster.fleet.pods.iter();
    let targets = pods.map(|pod| pod.address(false)).collect::<Result<Vec<IpAddr>>>()?;
    let count = usize::from(rounds * FOR_EACH_ROUND);
    let bar = progress.bar("announcing identities", count);
    for (nth, id) in cluster.free_identities(count)?.into_iter().enumerate() {
        let source = Ipv4Addr::from_bits(FIRST.to_bits() + 1 + u32::try_from(nth)?);
        other.add(source)?;
        let mut sweep = Sweep::start_from(source, &other.netns, targets.clone())?;
        sweep.wait_for_silence()?;
        let name = format!("prober-{id}");
        let labels = other_node::labels("probe", &[("app", "prober"), ("name", &name)]);
        let identity = other_node::identity(id, &labels);
        let address = other_node::address(source, id, "probe", &name);
        let begun = Instant::now();
        cluster.store.put(identity.iter().chain([&address]))?;
        let answered = sweep.wait_for_all()?;
        enforced.push_time(answered.last.saturating_duration_since(begun));
        bar.inc(1);
    }
    bar.finish();
    high.push(enforced.high());
    Ok(vec![high, enforced])
}

/// A namespace that is another node to this one: packets come from there by the host's stack.
struct OtherNode {
    netns: Netns,
    /// Of both sides.
    here: u32,
    there: u32,
}

impl OtherNode {
    fn connect() -> Result<Self> {
        let netns = Netns::create("other-node")?;
        let mut host = Socket::open()?;
        host.create_veth(&Veth {
            name: "other-node",
            peer: "eth0",
            peer_netns: Some(netns.as_fd()),
            mtu: 1500,
            mac: Mac([0x0e, 0, 0, 0, 0, 1]),
            peer_mac: Mac([0x0a, 0, 0, 0, 0, 1]),
        })?;
        let here = host.link_by_name("other-node")?.context("the interface has gone")?.ifindex;
        host.add_address(here, IpAddr::from(ROUTER).into())?;
        host.set_link_up(here)?;
        let there = netns.run(|| {
            let mut socket = Socket::open()?;
            let there = socket.link_by_name("eth0")?.context("no interface there")?.ifindex;
            socket.set_link_up(there)?;
            socket.put_route(ROUTER.into(), there)?;
            socket.add_default_via(ROUTER.into(), there)?;
            Ok(there)
        })?;
        Ok(Self { netns, here, there })
    }

    /// Gives it one more address.
    fn add(&self, address: Ipv4Addr) -> Result<()> {
        let address = IpAddr::from(address);
        Socket::open()?.put_route(address, self.here)?;
        self.netns.run(|| Ok(Socket::open()?.add_address(self.there, address.into())?))
    }
}
