//! Pods that speak with the world while the maps of translations are nearly full and are collected
//! again and again: what still has a connection stays.

use std::{
    collections::BTreeSet,
    fs,
    net::{Ipv4Addr, SocketAddr},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use aya::maps::{HashMap, Map, MapData};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use volvox_bpf_progs::layouts::{Ct4Key, CtRow, Nat4Key, Nat4Row, TupleFlags};

use super::{Figure, Options, Unit};
use crate::{
    lab::{Binaries, Neighbour, Node, Pod, Through},
    progress::Progress,
    traffic::{Kind, Plan, Stream, stop_all},
};

/// Rows that the map has room for, and how many of them are filled.
const ROOM: u32 = 131_072;
const FILLED: u32 = ROOM / 5 * 4;
/// Pods that send datagrams.
const PODS: u16 = 8;
/// Rounds of collecting that are waited for.
const ROUNDS: u64 = 4;
const PATIENCE: Duration = Duration::from_secs(60);
const UDP: u8 = 17;
/// Whose flows fill the map: nobody's here.
const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 11, 255, 254);

type Nat = HashMap<MapData, Nat4Key, Nat4Row>;
type Ct = HashMap<MapData, Ct4Key, CtRow>;

/// Fills the map with flows that live and as many that do not, and has it collected under traffic.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let mut lost = Figure::new("nat.loss", Unit::Count).zero();
    let mut removed = Figure::new("nat.live_removed", Unit::Count).zero();
    let mut orphans = Figure::new("nat.orphans_left", Unit::Count).zero();
    let neighbour = Neighbour::connect()?;
    let mut node = Node::new(Binaries::find()?)?;
    node.flags(&[&format!("--bpf-nat-global-max={ROOM}"), "--conntrack-gc-interval=1s"]);
    node.start_agent()?;
    node.wait_for_device()?;
    let streams = (0..PODS).map(|nth| -> Result<Stream> {
        let pod = Pod::create(&node, &format!("nat/pod-{nth}"), &[], Through::Rest)?;
        let [theirs, _] = Neighbour::addresses(false);
        let (from, to) = (pod.netns.clone(), neighbour.netns().clone());
        let target = SocketAddr::new(theirs, 6000 + nth);
        // One of them opens a connection each time.
        let kind = if nth == 0 { Kind::Connect } else { Kind::Udp };
        Stream::start(Plan { kind, from, to, target, rate: 200 })
    });
    let streams = streams.collect::<Result<Vec<_>>>()?;
    streams.iter().try_for_each(|stream| stream.wait_for_answers(20))?;
    let mut maps = Maps::open(&node)?;
    progress.rounds("collecting translations", options.rounds.into(), |_| {
        let live = maps.fill()?;
        let before = rounds(&node)?;
        let begun = Instant::now();
        while rounds(&node)? < before + ROUNDS {
            ensure!(begun.elapsed() < PATIENCE, "translations are not collected");
            thread::sleep(Duration::from_millis(20));
        }
        let left = maps.of_stranger()?;
        removed.push_count(live.difference(&left).count() as u64);
        orphans.push_count(left.difference(&live).count() as u64);
        Ok(())
    })?;
    for report in stop_all(streams)? {
        lost.push_count(report.lost + report.failures);
    }
    node.uninstall()?;
    Ok(vec![lost, removed, orphans])
}

/// Rounds of collecting so far.
fn rounds(node: &Node) -> Result<u64> {
    let status: Value = node.rest().get("/volvox/conntrack")?;
    status["rounds"].as_u64().context("the agent counts no rounds")
}

/// The maps of translations and of connections.
struct Maps {
    nat: Nat,
    ct: Ct,
}

impl Maps {
    fn open(node: &Node) -> Result<Self> {
        let open = |name: &str| -> Result<MapData> {
            let pin = node.bpf_root().join("tc/globals").join(name);
            ensure!(fs::exists(&pin)?, "{} is missing", pin.display());
            Ok(MapData::from_pin(&pin)?)
        };
        Ok(Self {
            nat: Map::LruHashMap(open("cilium_snat_v4_external")?).try_into()?,
            ct: Map::LruHashMap(open("cilium_ct_any4_global")?).try_into()?,
        })
    }

    /// Makes the rows of many flows, every second of which has a connection; the keys of those.
    fn fill(&mut self) -> Result<BTreeSet<Nat4Key>> {
        let now = u32::try_from(clock_gettime(ClockId::Monotonic).tv_sec)?;
        let mut live = BTreeSet::new();
        for flow in 0..FILLED / 2 {
            let [_, a, b, c] = flow.to_be_bytes();
            let world = [100, 64 + a, b, c];
            let (pod, node) = (STRANGER.octets(), [198, 51, 100, 1]);
            let (port, dport, protocol) = (40_000.into(), 443.into(), UDP);
            let out = Nat4Key {
                daddr: world,
                saddr: pod,
                dport,
                sport: port,
                protocol,
                flags: TupleFlags::OUT,
            };
            let back = Nat4Key {
                daddr: node,
                saddr: world,
                dport: port,
                sport: dport,
                protocol,
                flags: TupleFlags::IN,
            };
            if flow % 2 == 0 {
                let key = Ct4Key {
                    daddr: pod,
                    saddr: world,
                    dport,
                    sport: port,
                    protocol,
                    flags: TupleFlags::OUT,
                };
                self.ct.insert(key, CtRow { lifetime: now + 8000, ..CtRow::default() }, 0)?;
                live.extend([out, back]);
            }
            self.nat.insert(out, Nat4Row { address: node, port, ..Nat4Row::default() }, 0)?;
            self.nat.insert(back, Nat4Row { address: pod, port, ..Nat4Row::default() }, 0)?;
        }
        Ok(live)
    }

    /// The keys of those flows that are there.
    fn of_stranger(&self) -> Result<BTreeSet<Nat4Key>> {
        let mut found = BTreeSet::new();
        for row in self.nat.iter() {
            let (key, value) = row?;
            if STRANGER.octets() == key.saddr || STRANGER.octets() == value.address {
                found.insert(key);
            }
        }
        Ok(found)
    }
}
