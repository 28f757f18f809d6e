//! A packet through the real from-container program, as an agent with default flags loaded and
//! pinned it: pod to local pod, egress and ingress policy and connection tracking included, nobody
//! listening to its records. Beside it the same with a record of every packet at both points; and, as
//! runs of their own because a run translates the frame, the same by a service and not.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddrV4},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use aya::{
    maps::{HashMap, Map, MapData},
    programs::SchedClassifier,
};
use serde_json::json;
use volvox_bpf_progs::{
    layouts::{BackendState, Lb4Key, LbAlgorithm, LbRow, Member4Row, MemberKey, ReverseNat4Row},
    measure::{packet_cost, single_cost, udp_frame},
    object::{FROM_CONTAINER, build_name},
};

use super::{Figure, Options, Unit, connect, throughput};
use crate::{
    fleet::PORT,
    lab::{Node, Pod},
    progress::Progress,
};

/// How often the two figures take turns, so that what else the machine does hits both alike.
const TURNS: usize = 20;

/// Batches of a turn; the mean cost of each is one value.
const BATCHES: usize = 100;

/// The option of endpoints that tells how much is recorded, and its value for every packet.
const AGGREGATION: &str = "MonitorAggregationLevel";
const EVERY_PACKET: &str = "None";

/// Runs of a turn, where each is measured alone.
const SINGLES: usize = 1000;

/// Source port of the flow; that by the service has the next.
const SOURCE: u16 = 40_000;

/// The service, and ids that no agent gives.
const VIP: Ipv4Addr = Ipv4Addr::new(10, 96, 255, 254);
const VIP_PORT: u16 = 8080;
const SERVICE: u16 = u16::MAX;
const BACKEND: u32 = u32::MAX;
const UDP: u8 = 17;

/// Sends the same datagram from pod 0 to pod 1, whose policies allow it.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let mut fleet = options.launch(&progress)?;
    let [from, to] = [&fleet.pods[0], &fleet.pods[1]];
    let (IpAddr::V4(source), IpAddr::V4(target)) = (from.address(false)?, to.address(false)?)
    else {
        bail!("the pods have no IPv4 addresses");
    };
    let [inside, host] = from.links()?;
    let frame =
        udp_frame((inside.mac.0, host.mac.0), (source.octets(), target.octets()), (SOURCE, PORT));
    let pin = pinned(fleet.node.bpf_root())?;
    let program = SchedClassifier::from_pin(&pin)
        .with_context(|| format!("cannot open {}", pin.display()))?;
    let mut established = Figure::new("packet.established", Unit::Nanoseconds).below(450.0);
    let mut all_records = Figure::new("packet.established_all_records", Unit::Nanoseconds);
    let usual = aggregation(&fleet.node, from)?;
    ensure!(usual != EVERY_PACKET, "the agent records every packet by default");
    // The first batch makes the connection.
    packet_cost(&program, host.ifindex, &frame, 1)?;
    for _ in 0..TURNS {
        for (figure, level) in
            [(&mut established, usual.as_str()), (&mut all_records, EVERY_PACKET)]
        {
            for pod in [from, to] {
                aggregate(&fleet.node, pod, level)?;
            }
            for cost in packet_cost(&program, host.ifindex, &frame, BATCHES)? {
                figure.push(cost as f64);
            }
        }
    }
    let mut figures = vec![established, all_records];
    aggregate(&fleet.node, from, &usual)?;
    aggregate(&fleet.node, to, &usual)?;
    figures.extend(throughput::local(&fleet)?);
    serve(fleet.node.bpf_root(), SocketAddrV4::new(target, PORT))?;
    let served = udp_frame(
        (inside.mac.0, host.mac.0),
        (source.octets(), VIP.octets()),
        (SOURCE + 1, VIP_PORT),
    );
    figures.extend(by_service(&program, host.ifindex, &frame, &served)?);
    let backend = SocketAddrV4::new(target, PORT);
    figures.push(connect::hook(&mut fleet, SocketAddrV4::new(VIP, VIP_PORT), |node| {
        serve(node.bpf_root(), backend)
    })?);
    figures.extend(throughput::vxlan()?);
    Ok(figures)
}

/// Runs one by one of a frame that goes to its receiver itself and of one by a service, in turn; and how
/// much more the second costs.
fn by_service(
    program: &SchedClassifier,
    ifindex: u32,
    direct: &[u8],
    served: &[u8],
) -> Result<[Figure; 3]> {
    let mut figures =
        ["packet.single", "packet.service"].map(|name| Figure::new(name, Unit::Nanoseconds));
    let mut ratio = Figure::new("packet.service_ratio", Unit::Ratio).below(1.3);
    for _ in 0..TURNS {
        let mut medians = [0.0; 2];
        for ((figure, median), frame) in figures.iter_mut().zip(&mut medians).zip([direct, served])
        {
            let mut turn = Figure::new("of a turn", Unit::Nanoseconds);
            for cost in single_cost(program, ifindex, frame, SINGLES)? {
                figure.push(cost as f64);
                turn.push(cost as f64);
            }
            [_, *median, _] = turn.spread();
        }
        ratio.push(medians[1] / medians[0]);
    }
    let [single, service] = figures;
    Ok([single, service, ratio])
}

/// Makes the rows of a service that has this one backend.
fn serve(bpf_root: &Path, backend: SocketAddrV4) -> Result<()> {
    let open = |name: &str| -> Result<Map> {
        let pin = bpf_root.join("tc/globals").join(name);
        let map =
            MapData::from_pin(&pin).with_context(|| format!("cannot open {}", pin.display()))?;
        Ok(Map::HashMap(map))
    };
    let at = SocketAddrV4::new(VIP, VIP_PORT);
    let mut members: HashMap<_, MemberKey, Member4Row> = open("volvox_lb4_members")?.try_into()?;
    let key = MemberKey::new(BACKEND, SERVICE);
    members.insert(key, Member4Row::new(key, backend, UDP, BackendState::Active), 0)?;
    let mut reverse: HashMap<_, [u8; 2], ReverseNat4Row> =
        open("cilium_lb4_reverse_nat")?.try_into()?;
    reverse.insert(SERVICE.to_be_bytes(), ReverseNat4Row::new(at), 0)?;
    let mut services: HashMap<_, Lb4Key, LbRow> = open("cilium_lb4_services_v2")?.try_into()?;
    let key =
        Lb4Key { address: VIP.octets(), port: VIP_PORT.into(), protocol: UDP, ..Lb4Key::default() };
    let slot = LbRow { backend: BACKEND, rev_nat: SERVICE.into(), ..LbRow::default() };
    services.insert(Lb4Key { slot: 1, ..key }, slot, 0)?;
    let algorithm = LbRow::choice(LbAlgorithm::Random, 0);
    services.insert(key, LbRow { backend: algorithm, count: 1, ..slot }, 0)?;
    Ok(())
}

/// The API's path to an endpoint's options.
fn options(pod: &Pod) -> Result<String> {
    Ok(format!("/endpoint/ipv4:{}/config", pod.address(false)?))
}

/// How much is recorded of a pod's packets.
fn aggregation(node: &Node, pod: &Pod) -> Result<String> {
    let config: serde_json::Value = node.rest().get(&options(pod)?)?;
    let level = config["realized"]["options"][AGGREGATION].as_str();
    Ok(level.with_context(|| format!("no {AGGREGATION} in {config}"))?.to_owned())
}

/// Changes that, and returns when it is in force.
fn aggregate(node: &Node, pod: &Pod, level: &str) -> Result<()> {
    let path = options(pod)?;
    let body = json!({ "options": { AGGREGATION: level } });
    let answer = node.rest().request("PATCH", &path, Some(&body))?;
    let text = String::from_utf8_lossy(&answer.body);
    ensure!(answer.status == 200, "PATCH {path}: {}: {text}", answer.status);
    Ok(())
}

/// The from-container program of this build, whatever features it was loaded with.
fn pinned(bpf_root: &Path) -> Result<PathBuf> {
    let folder = bpf_root.join("volvox/progs");
    for generation in fs::read_dir(&folder)? {
        let generation = generation?;
        if generation.file_name().to_string_lossy().starts_with(&build_name()) {
            return Ok(generation.path().join(FROM_CONTAINER));
        }
    }
    bail!("{} holds no programs of this build", folder.display())
}
