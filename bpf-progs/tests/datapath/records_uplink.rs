//! What `cilium_events` says of packets at a node's device.

use crate::common::outside::{World, open_service, route_outside};
use crate::common::*;
use volvox_bpf_progs::TracePoint;
use volvox_bpf_progs::drop_reason::source_file;
use volvox_bpf_progs::layouts::*;

const RECORDS: u16 = DeviceFlags::TRACE_NOTIFY | DeviceFlags::DROP_NOTIFY;

fn world() -> (World, Listener) {
    stay_here();
    let mut world = World::new();
    route_outside();
    world.node.device(world.up.row(MASQUERADE | RECORDS));
    let listener = Listener::new(&mut world.node);
    (world, listener)
}

fn points(samples: &[Vec<u8>]) -> Vec<TracePoint> {
    let of = |sample: &Vec<u8>| match Record::parse(sample) {
        Some(Record::Trace(record, _)) => TracePoint::from_number(record.header.subtype),
        _ => None,
    };
    samples.iter().filter_map(of).collect()
}

#[test]
fn packets_are_seen_on_their_way_out_and_back() {
    let (mut world, mut listener) = world();
    for (near, own, far) in world.families() {
        world.sent(&sealed(udp(near, far, 40_000, 53)));
        let samples = listener.samples();
        let expected = [TracePoint::FromLxc, TracePoint::ToStack, TracePoint::ToNetwork];
        assert_eq!(points(&samples), expected);
        let Some(Record::Trace(last, packet)) = Record::parse(samples.last().unwrap()) else {
            panic!("{samples:?}")
        };
        assert_eq!((last.src_identity, last.ifindex), (world.a.identity, world.up.ifindex));
        assert_eq!(ends_of(packet).from, (own, 40_000), "as it is on the wire");
        world.got(&sealed(udp(far, own, 53, 40_000)));
        let expected = [TracePoint::FromNetwork, TracePoint::ToLxc];
        assert_eq!(points(&listener.samples()), expected);
    }
}

#[test]
fn drops_name_their_reason_and_place() {
    let (mut world, mut listener) = world();
    for (near, own, far) in world.families() {
        let inner = service_address(near);
        world.node.backend(7, (near, 8080).into(), 0, BackendState::Active);
        world.node.service((inner, 80).into(), UDP, random_service(SERVICE), &[7]);
        for (frame, reason, file) in
            [(udp(own, near, 1, 2), 132, "arrive.h"), (udp(far, inner, 1, 80), 174, "node_port.h")]
        {
            assert_eq!(world.node.receive(&world.up, &sealed(frame)).action, SHOT);
            let samples = listener.samples();
            let Some(Record::Drop(record, _)) = Record::parse(samples.last().unwrap()) else {
                panic!("{samples:?}")
            };
            assert_eq!((record.header.subtype, source_file(record.file)), (reason, Some(file)));
            assert_eq!(record.ifindex, world.up.ifindex);
        }
    }
}

#[test]
fn a_client_outside_is_seen_going_to_a_backend_elsewhere() {
    let (mut world, mut listener) = world();
    let (_, own, far) = world.families()[0];
    world.node.backend(7, "10.2.0.7:8080".parse().unwrap(), 0, BackendState::Active);
    world.node.service((own, 30_080).into(), UDP, open_service(SERVICE), &[7]);
    world.got(&sealed(udp(far, own, 50_000, 30_080)));
    let expected = [TracePoint::FromNetwork, TracePoint::ToNetwork];
    assert_eq!(points(&listener.samples()), expected);
}

#[test]
fn what_is_not_wanted_is_not_recorded() {
    let (mut world, mut listener) = world();
    world.node.device(world.up.row(MASQUERADE));
    for (near, own, far) in world.families() {
        assert_eq!(world.node.receive(&world.up, &sealed(udp(own, near, 1, 2))).action, SHOT);
        let frame = sealed(udp(own, far, 1, 2));
        assert_eq!(world.node.emit(&world.up, 0, &frame).action, OK);
    }
    assert_eq!(listener.samples(), Vec::<Vec<u8>>::new());
}
