//! Tests: packets still flow after a restart, while the agent stays away, and when a flag changes.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use aya::maps::{HashMap, Map, MapData};
use rustix::time::{ClockId, clock_gettime};
use volvox_bpf_progs::layouts::{Ct4Key, CtRow};
use volvox_system::netlink::Socket;
use volvox_testbed::{
    fleet::{Fleet, PORT},
    lab::{self, Inventory, Metrics, Netns, Node},
    traffic::{Kind, Plan, Stream, stop_clean},
};

use super::{PODS, fleet};

type Connections = HashMap<MapData, Ct4Key, CtRow>;

fn connections(node: &Node) -> Result<Connections> {
    let map = MapData::from_pin(node.bpf_root().join("tc/globals/cilium_ct4_global"))?;
    Ok(HashMap::try_from(Map::LruHashMap(map))?)
}

/// A connection of that number between two addresses that are no endpoint's, as one through the
/// node to a backend elsewhere is.
fn foreign(number: u8, lifetime: u32) -> (Ct4Key, CtRow) {
    let key = Ct4Key {
        daddr: [192, 0, 2, number],
        saddr: [198, 51, 100, 1],
        dport: 443.into(),
        sport: 40_000.into(),
        protocol: 6,
        flags: 0,
    };
    (key, CtRow { lifetime, ..CtRow::default() })
}

/// Seconds of the clock that connections' lifetimes are of.
fn seconds() -> Result<u32> {
    Ok(clock_gettime(ClockId::Monotonic).tv_sec.try_into()?)
}

/// Gives the node an address of its own, before its agent starts.
fn address_the_node() -> Result<()> {
    const LOOPBACK: u32 = 1;
    let mut netlink = Socket::open()?;
    netlink.set_link_up(LOOPBACK)?;
    Ok(netlink.add_address(LOOPBACK, "192.0.2.200".parse::<IpAddr>()?.into())?)
}

/// A stream from the node itself to a pod.
fn from_host(fleet: &Fleet, kind: Kind, to: usize) -> Result<Stream> {
    let pod = &fleet.pods[to];
    Stream::start(Plan {
        kind,
        from: Netns::open(Path::new("/proc/self/ns/net"))?,
        to: pod.netns.clone(),
        // Its pod may serve another stream.
        target: SocketAddr::new(pod.address(false)?, PORT + 1),
        rate: 200,
    })
}

/// The first collection after a start threw out what was not between local endpoints.
#[test]
fn c_29667_live_connections_survive_gc() {
    lab::test("restart::c_29667_live_connections_survive_gc", || {
        address_the_node()?;
        let mut fleet = fleet()?;
        let rounds = |node: &Node| -> Result<f64> {
            let metrics = Metrics::scrape(node.rest())?;
            let runs = metrics.family("cilium_datapath_conntrack_gc_runs");
            let total = metrics.family("cilium_datapath_conntrack_gc_runs_total");
            Ok(runs.chain(total).map(|(_, value)| value).sum())
        };
        // Connections that last: of others an end could be taken for a loss.
        let streams = vec![
            fleet.stream(Kind::Udp, 0, 1, false, 500)?,
            fleet.stream(Kind::Tcp, 2, 3, false, 500)?,
            fleet.stream(Kind::Ping, 4, 5, false, 200)?,
            from_host(&fleet, Kind::Tcp, PODS - 1)?,
        ];
        streams.iter().try_for_each(|stream| stream.wait_for_answers(1))?;
        let live = seconds()? + 20_000;
        let mut map = connections(&fleet.node)?;
        for (number, lifetime) in [(1, live), (2, live), (3, 1)] {
            let (key, row) = foreign(number, lifetime);
            map.insert(key, row, 0)?;
        }
        let before: Vec<(Ct4Key, CtRow)> = map.iter().collect::<Result<_, _>>()?;
        fleet.node.kill_agent()?;
        fleet.node.set_flag("conntrack-gc-interval", Some("1s"));
        fleet.node.start_agent()?;
        fleet.node.wait_for_ready(PODS)?;
        fleet.node.wait("no collection came", |node| Ok(rounds(node)? >= 2.0))?;
        let map = connections(&fleet.node)?;
        let after: Vec<Ct4Key> = map.keys().collect::<Result<_, _>>()?;
        // The collector did run: what had ended is gone.
        let (ended, _) = foreign(3, 0);
        ensure!(!after.contains(&ended), "a dead connection is kept");
        let now = seconds()?;
        let lives = |row: &CtRow| row.lifetime > now;
        let lost: Vec<_> =
            before.iter().filter(|(key, row)| lives(row) && !after.contains(key)).collect();
        // Two of others, both ends of the pods' TCP, one end of the host's.
        let lived = before.iter().filter(|(_, row)| lives(row)).count();
        ensure!(lived >= 5, "{before:?}");
        stop_clean(streams)?;
        ensure!(lost.is_empty(), "thrown out: {lost:?}");
        for number in [1, 2] {
            let (key, row) = foreign(number, live);
            let found = map.get(&key, 0).context("a connection of others is gone")?;
            ensure!(found == row, "it was changed: {found:?}");
        }
        Ok(())
    });
}

/// With the agent stopped the node lost its network.
#[test]
fn c_30609_an_agent_that_stops_for_ever_leaves_everything_working() {
    lab::test("restart::c_30609_an_agent_that_stops_for_ever_leaves_everything_working", || {
        address_the_node()?;
        let mut fleet = fleet()?;
        for signal in ["TERM", "KILL"] {
            match signal {
                "TERM" => fleet.node.stop_agent()?,
                _ => fleet.node.kill_agent()?,
            }
            // Everything is new to the datapath: no connection is from the agent's time.
            let mut streams = fleet.all_streams()?;
            streams.push(from_host(&fleet, Kind::Connect, PODS - 1)?);
            let forbidden = fleet.stream(Kind::Udp, 0, 5, false, 100)?;
            streams.iter().try_for_each(|stream| stream.wait_for_answers(100))?;
            stop_clean(streams)?;
            let answered = forbidden.answers();
            forbidden.stop()?;
            ensure!(answered == 0, "{signal}: policy does not hold");
            fleet.node.start_agent()?;
            fleet.node.wait_for_ready(PODS)?;
        }
        Ok(())
    });
}

/// A switch of the datapath's mode with living pods made them unreachable.
#[test]
fn c_42482_a_changed_flag_is_refused_or_followed() {
    lab::test("restart::c_42482_a_changed_flag_is_refused_or_followed", || {
        let mut fleet = fleet()?;
        let before = Inventory::read(&fleet.node)?;
        for (flag, value, followed) in [
            ("tunnel-protocol", "geneve", false),
            ("routing-mode", "native", true),
            ("tunnel-port", "4789", true),
            ("ipv4-range", "10.12.0.0/16", true),
            ("enable-ipv6", "false", true),
            ("bpf-ct-global-tcp-max", "65536", true),
            ("bpf-policy-map-max", "4096", true),
            ("enable-policy", "always", true),
            ("bpf-events-trace-enabled", "false", true),
            ("enable-source-ip-verification", "false", true),
            ("mtu", "1400", true),
        ] {
            let what = format!("--{flag}={value}");
            let streams = fleet.all_streams()?;
            streams.iter().try_for_each(|stream| stream.wait_for_answers(1))?;
            fleet.node.kill_agent()?;
            fleet.node.set_flag(flag, Some(value)).exec_agent()?;
            let lives = fleet.node.ready_or_ended(PODS).with_context(|| what.clone())?;
            ensure!(lives == followed, "{what}: lives is {lives}: {}", fleet.node.log_end());
            if lives {
                ensure!(before.moved(&Inventory::read(&fleet.node)?) == 0, "{what}: numbers moved");
            } else {
                ensure!(fleet.node.log_end().contains(flag), "{what} is not named");
            }
            let reached = streams.iter().try_for_each(|stream| stream.wait_for_answers(1));
            reached.with_context(|| format!("{what}: {}", fleet.node.log_end()))?;
            fleet.node.kill_agent()?;
            fleet.node.set_flag(flag, None).start_agent()?;
            fleet.node.wait_for_ready(PODS).with_context(|| format!("back from {what}"))?;
            ensure!(before.moved(&Inventory::read(&fleet.node)?) == 0, "{what}: numbers moved");
            stop_clean(streams).with_context(|| what)?;
        }
        Ok(())
    });
}
