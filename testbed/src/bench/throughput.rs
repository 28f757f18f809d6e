//! How much goes through one connection from pod to pod: on one node, against namespaces that a bare
//! pair of interfaces joins, and to another node, against a bare tunnel over the same network. Pods are a
//! pair of interfaces away from their node's tunnel; what that costs is told by namespaces that the
//! kernel alone forwards for.

use std::{fs, net::SocketAddr, process::Command, time::Duration};

use anyhow::{Result, ensure};

use super::{Figure, Unit};
use crate::{
    fleet::{Fleet, PORT},
    lab::{Netns, Setup, ip, wait_for},
    traffic::{bulk, ends_of_the_machine},
};

/// How often both are measured, in turn, the bare ones once more.
const TURNS: usize = 24;
/// How long each.
const SPAN: Duration = Duration::from_millis(300);

/// `throughput.local`: pod 0 to pod 1, in terms of the bare pair.
pub(super) fn local(fleet: &Fleet) -> Result<[Figure; 2]> {
    let [from, to] = [&fleet.pods[0], &fleet.pods[1]];
    let target = SocketAddr::new(to.address(false)?, PORT);
    let (bare, bare_target) = bare_pair()?;
    let names = ["throughput.local", "throughput.local_rate"];
    against(names, ([&from.netns, &to.netns], target), (&bare, bare_target))
}

/// `throughput.vxlan`: from a pod of one node to a pod of another, in terms of the bare tunnel, where each
/// node has a CPU, as if they were machines; `throughput.vxlan_routed`: the same by the kernel alone; and
/// `throughput.vxlan_one_cpu`: where one CPU does what both nodes do, and their cost adds up.
pub(super) fn vxlan() -> Result<[Figure; 4]> {
    let setup = Setup::new().pod("bench/from", &[]).pod_on(2, "bench/to", &[]);
    let (_cluster, [from, to]) = setup.start_nodes(2)?;
    let target = SocketAddr::new(to.address(false)?, PORT);
    wait_for("pods of two nodes to reach each other", || {
        Ok(bulk(&from.netns, &to.netns, target, Duration::from_millis(1)).is_ok())
    })?;
    let (bare, bare_target) = bare_tunnel()?;
    let (routed, routed_target) = behind(&bare)?;
    let (ours, bare) = (([&from.netns, &to.netns], target), (&bare, bare_target));
    let one_cpu = ratio("throughput.vxlan_one_cpu", ours, bare)?.above(0.75);
    for (nth, cpu) in ends_of_the_machine()?.into_iter().enumerate() {
        give_cpu(&format!("n{}", nth + 1), cpu)?;
        give_cpu(&format!("tunnel-{}", nth + 1), cpu)?;
    }
    let [two, rate] = against(["throughput.vxlan", "throughput.vxlan_rate"], ours, bare)?;
    let routed = ([&routed[0], &routed[1]], routed_target);
    Ok([two, rate, ratio("throughput.vxlan_routed", routed, bare)?, one_cpu])
}

/// Has a CPU do what there is to be done about packets that come to a node from the network.
fn give_cpu(node: &str, cpu: usize) -> Result<()> {
    // A mask, in groups of 32 CPUs.
    let mask = format!("{:x}{}", 1_u32 << (cpu % 32), ",00000000".repeat(cpu / 32));
    let write = format!("echo {mask} > /sys/class/net/eth0/queues/rx-0/rps_cpus");
    let status = Command::new("ip").args(["netns", "exec", node, "sh", "-c", &write]).status()?;
    ensure!(status.success(), "{write}, in {node}: {status}");
    Ok(())
}

/// A way from one namespace to an address in another.
type Way<'a> = ([&'a Netns; 2], SocketAddr);
/// One between two bare namespaces.
type Bare<'a> = (&'a [Netns; 2], SocketAddr);

/// How much goes one way, in turn with how much does between bare namespaces: in terms of that.
fn ratio(name: &'static str, ours: Way<'_>, bare: Bare<'_>) -> Result<Figure> {
    let mut ratio = Figure::new(name, Unit::Ratio);
    in_turn(ours, bare)?.into_iter().for_each(|(share, _)| ratio.push(share));
    Ok(ratio)
}

/// The same, beside how much it is.
fn against([ratio, rate]: [&'static str; 2], ours: Way<'_>, bare: Bare<'_>) -> Result<[Figure; 2]> {
    let mut ratio = Figure::new(ratio, Unit::Ratio).above(0.9);
    let mut rate = Figure::new(rate, Unit::Megabytes);
    for (share, bytes) in in_turn(ours, bare)? {
        ratio.push(share);
        rate.push(bytes / 1e6);
    }
    Ok([ratio, rate])
}

/// How much goes one way, in terms of the bare ones just before and after it, as the machine is faster now
/// and slower then; and in bytes a second.
fn in_turn((ours, target): Way<'_>, (bare, bare_target): Bare<'_>) -> Result<Vec<(f64, f64)>> {
    let theirs = || bulk(&bare[0], &bare[1], bare_target, SPAN);
    let (mut before, mut turns) = (theirs()?, Vec::new());
    for _ in 0..TURNS {
        let ours = bulk(ours[0], ours[1], target, SPAN)?;
        let after = theirs()?;
        turns.push((ours / ((before + after) / 2.0), ours));
        before = after;
    }
    Ok(turns)
}

/// Two namespaces at the network of the cluster, each with an end of a tunnel, and the address of the
/// second's.
fn bare_tunnel() -> Result<([Netns; 2], SocketAddr)> {
    let pair = [Netns::create("tunnel-1")?, Netns::create("tunnel-2")?];
    for (own, other) in [(1, 2), (2, 1)] {
        let name = format!("tunnel-{own}");
        for words in [
            format!("link add {name} type veth peer name eth0 netns {name}"),
            format!("link set {name} master cluster up"),
            format!("-n {name} addr add 192.0.2.10{own}/24 dev eth0"),
            format!("-n {name} link set eth0 up"),
            format!(
                "-n {name} link add tunnel type vxlan id 9 dstport 4789 dev eth0 remote 192.0.2.10{other}"
            ),
            format!("-n {name} addr add 203.0.113.{own}/24 dev tunnel"),
            format!("-n {name} link set tunnel up"),
        ] {
            ip(&words)?;
        }
    }
    Ok((pair, SocketAddr::new("203.0.113.2".parse()?, PORT)))
}

/// A namespace behind each end of the bare tunnel, which the kernel forwards for as for a pod, and the
/// address of the second's.
fn behind(tunnel: &[Netns; 2]) -> Result<([Netns; 2], SocketAddr)> {
    let pair = [Netns::create("routed-1")?, Netns::create("routed-2")?];
    for (own, other) in [(1, 2), (2, 1)] {
        let (pod, node) = (format!("routed-{own}"), format!("tunnel-{own}"));
        for words in [
            // As much as the tunnel takes.
            format!(
                "link add eth0 mtu 1450 netns {pod} type veth peer name pod mtu 1450 netns {node}"
            ),
            format!("-n {pod} addr add 198.18.{own}.2/24 dev eth0"),
            format!("-n {node} addr add 198.18.{own}.1/24 dev pod"),
            format!("-n {pod} link set eth0 up"),
            format!("-n {node} link set pod up"),
            format!("-n {pod} route add default via 198.18.{own}.1"),
            format!("-n {node} route add 198.18.{other}.0/24 via 203.0.113.{other}"),
        ] {
            ip(&words)?;
        }
        tunnel[own - 1].run(|| Ok(fs::write("/proc/sys/net/ipv4/ip_forward", "1")?))?;
    }
    Ok((pair, SocketAddr::new("198.18.2.2".parse()?, PORT)))
}

/// Two namespaces, and the address of the second.
fn bare_pair() -> Result<([Netns; 2], SocketAddr)> {
    let pair = [Netns::create("bare-0")?, Netns::create("bare-1")?];
    for words in [
        "link add eth0 netns bare-0 type veth peer name eth0 netns bare-1",
        "-n bare-0 addr add 203.0.113.1/24 dev eth0",
        "-n bare-1 addr add 203.0.113.2/24 dev eth0",
        "-n bare-0 link set eth0 up",
        "-n bare-1 link set eth0 up",
    ] {
        ip(words)?;
    }
    Ok((pair, SocketAddr::new("203.0.113.2".parse()?, PORT)))
}
