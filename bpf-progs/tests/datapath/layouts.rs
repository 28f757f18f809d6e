//! The layouts in Rust are those of the compiled object, field by field and map by map.

use crate::common::btf::Btf;
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::{
    DEVICE_OBJECT, DropReason, OBJECT, OVERLAY_OBJECT, SOCKET_OBJECT, TracePoint, TraceReason, maps,
};

/// Compares size, names and offsets of one type with the struct of that name in C.
macro_rules! same {
    ($btf:expr, $rust:ty, $c:literal, [$($field:ident),+ $(,)?]) => {{
        let (size, members) = $btf.layout($c);
        assert_eq!(size_of::<$rust>(), size, "size of {}", $c);
        let fields = BTreeMap::from([$((stringify!($field).to_owned(), offset_of!($rust, $field))),+]);
        assert_eq!(fields, members, "offsets of {}", $c);
    }};
}

#[test]
fn rows_agree_with_c() {
    let btf = Btf::of(OBJECT);
    same!(
        btf,
        ConfigRow,
        "config_row",
        [
            generation,
            ep_id,
            flags,
            identity,
            policy_slot,
            ifindex,
            ipv4,
            ipv6,
            mac,
            pad0,
            node_mac,
            pad1,
            reserved,
        ]
    );
    same!(
        btf,
        NodeRow,
        "node_row",
        [
            router_ipv4,
            router_ipv6,
            router_mac,
            pad,
            flags,
            build_hash,
            features,
            sockets,
            tunnel_ifindex,
            tunnel_flags,
            tunnel_port,
            pad1,
            reserved,
        ]
    );
    same!(
        btf,
        EndpointRow,
        "endpoint_row",
        [
            container_id,
            container_ifname,
            host_ifname,
            ifindex,
            identity,
            netns_cookie,
            ipv4,
            ipv6,
            mac,
            node_mac,
            namespace,
            pod_name,
            uid,
            own_options,
            unsaved,
            chained,
            reserved,
            crc32,
        ]
    );
    same!(btf, LxcKey, "lxc_key", [address, family, key, cluster_id]);
    same!(
        btf,
        LxcRow,
        "lxc_row",
        [ifindex, unused, lxc_id, flags, pad0, mac, node_mac, sec_id, parent_ifindex, pad1,]
    );
    same!(btf, IpcacheKey, "ipcache_key", [prefix_len, cluster_id, pad, family, address]);
    same!(btf, IpcacheRow, "ipcache_row", [identity, tunnel_endpoint, pad, key, flags]);
    same!(btf, PolicyKey, "policy_key", [prefix_len, identity, egress, protocol, port]);
    same!(btf, PolicyRow, "policy_row", [proxy_port, flags, auth, precedence, cookie]);
    same!(
        btf,
        PolicyStatsKey,
        "policy_stats_key",
        [ep_id, pad, prefix_len, identity, egress, protocol, port]
    );
    same!(btf, PolicyStatsRow, "policy_stats_row", [packets, bytes]);
    same!(btf, Ct4Key, "ct4_key", [daddr, saddr, dport, sport, protocol, flags]);
    same!(btf, Ct6Key, "ct6_key", [daddr, saddr, dport, sport, protocol, flags]);
    same!(
        btf,
        CtRow,
        "ct_row",
        [
            nat_addr,
            packets,
            bytes,
            lifetime,
            flags,
            rev_nat_index,
            nat_port,
            tx_flags_seen,
            rx_flags_seen,
            src_sec_id,
            last_tx_report,
            last_rx_report,
        ]
    );
    same!(btf, MetricsKey, "metrics_key", [reason, direction, line, file, reserved]);
    same!(btf, MetricsRow, "metrics_row", [packets, bytes]);
}

#[test]
fn rows_of_devices_agree_with_c() {
    let btf = Btf::of(OBJECT);
    same!(btf, DeviceRow, "device_row", [ipv4, ipv6, mac, flags, ifindex, reserved]);
    same!(btf, Nat4Key, "nat4_key", [daddr, saddr, dport, sport, protocol, flags]);
    same!(btf, Nat6Key, "nat6_key", [daddr, saddr, dport, sport, protocol, flags]);
    same!(btf, Nat4Row, "nat4_row", [created, needs_ct, checked, rev_nat, address, port, pad1]);
    same!(btf, Nat6Row, "nat6_row", [created, needs_ct, checked, rev_nat, address, port, pad1]);
    same!(btf, Prefix4Key, "prefix4_key", [prefix_len, address]);
    same!(btf, Prefix6Key, "prefix6_key", [prefix_len, address]);
}

#[test]
fn rows_of_load_balancing_agree_with_c() {
    let btf = Btf::of(OBJECT);
    same!(btf, Lb4Key, "lb4_key", [address, port, slot, protocol, scope, pad]);
    same!(btf, Lb6Key, "lb6_key", [address, port, slot, protocol, scope, pad]);
    same!(btf, LbRow, "lb_row", [backend, count, rev_nat, flags, flags2, qcount]);
    same!(
        btf,
        Backend4Row,
        "backend4_row",
        [address, port, protocol, state, cluster_id, zone, tag]
    );
    same!(
        btf,
        Backend6Row,
        "backend6_row",
        [address, port, protocol, state, cluster_id, zone, tag]
    );
    same!(btf, MemberKey, "member_key", [backend, rev_nat, pad]);
    same!(btf, Member4Row, "member4_row", [address, port, protocol, state, key]);
    same!(btf, Member6Row, "member6_row", [address, port, protocol, state, key]);
    same!(btf, ReverseNat4Row, "reverse_nat4_row", [address, port]);
    same!(btf, ReverseNat6Row, "reverse_nat6_row", [address, port]);
    same!(btf, Affinity4Key, "affinity4_key", [client, rev_nat, netns_cookie, pad1, pad2]);
    same!(btf, Affinity6Key, "affinity6_key", [client, rev_nat, netns_cookie, pad1, pad2]);
    same!(btf, AffinityRow, "affinity_row", [last_used, backend, pad]);
    same!(btf, AffinityMatchKey, "affinity_match_key", [backend, rev_nat, pad]);
    same!(btf, SourceRange4Key, "source_range4_key", [prefix_len, rev_nat, pad, address]);
    same!(btf, SourceRange6Key, "source_range6_key", [prefix_len, rev_nat, pad, address]);
    same!(btf, ReverseSk4Key, "reverse_sk4_key", [cookie, address, port, pad]);
    same!(btf, ReverseSk6Key, "reverse_sk6_key", [cookie, address, port, pad]);
    same!(btf, ReverseSk4Row, "reverse_sk4_row", [address, port, rev_nat]);
    same!(btf, ReverseSk6Row, "reverse_sk6_row", [address, port, rev_nat]);
    same!(
        btf,
        SocketNote,
        "socket_note",
        [backend, service, backend_port, service_port, rev_nat, family, pad]
    );
    same!(btf, SocketSet, "socket_set", [sockets, notes]);
    same!(btf, Fragment4Key, "fragment4_key", [daddr, saddr, id, protocol, pad]);
    same!(btf, Fragment6Key, "fragment6_key", [id, protocol, pad, daddr, saddr]);
    same!(btf, FragmentRow, "fragment_row", [sport, dport]);
    same!(btf, LbNumbersRow, "lb_numbers_row", [next_backend, next_service, reserved]);
}

#[test]
fn records_agree_with_c() {
    let btf = Btf::of(OBJECT);
    same!(
        btf,
        EventHeader,
        "event_header",
        [kind, subtype, source, hash, len_orig, len_cap, version, ext_version,]
    );
    same!(
        btf,
        TraceRecord,
        "trace_record",
        [header, src_identity, dst_identity, dst_ep, reason, flags, ifindex, orig_ip, trace_id,]
    );
    same!(
        btf,
        DropRecord,
        "drop_record",
        [
            header,
            src_identity,
            dst_identity,
            dst_ep,
            line,
            file,
            ext_error,
            ifindex,
            flags,
            pad,
            trace_id,
        ]
    );
    same!(
        btf,
        VerdictRecord,
        "verdict_record",
        [header, remote_identity, verdict, dport, protocol, bits, auth, pad, cookie, pad1,]
    );
    same!(btf, SignalRecord, "signal_record", [signal, data]);
}

#[test]
fn the_table_of_maps_is_that_of_the_object() {
    let listed: BTreeMap<_, _> = maps::MAPS.iter().map(|map| (map.name.to_owned(), map)).collect();
    for object in [OBJECT, DEVICE_OBJECT, OVERLAY_OBJECT] {
        let defined = Btf::of(object).maps();
        assert_eq!(defined.keys().collect::<Vec<_>>(), listed.keys().collect::<Vec<_>>());
        for (name, map) in &listed {
            let number = |field: &str| defined[name].get(field).copied().unwrap_or(0);
            assert_eq!(number("type"), map.map_type as u32, "type of {name}");
            assert_eq!(number("max_entries"), map.max_entries, "rows of {name}");
            assert_eq!(number("map_flags"), map.flags, "flags of {name}");
            assert_eq!(number("key_size"), map.key_size, "key of {name}");
            if map.inner.is_none() {
                assert_eq!(number("value_size"), map.value_size, "value of {name}");
            }
        }
    }
}

#[test]
fn the_maps_that_sockets_use_are_the_same() {
    for (name, defined) in Btf::of(SOCKET_OBJECT).maps() {
        let map = maps::by_name(&name).unwrap_or_else(|| panic!("{name} is not in the table"));
        let number = |field: &str| defined.get(field).copied().unwrap_or(0);
        assert_eq!(number("type"), map.map_type as u32, "type of {name}");
        assert_eq!(number("max_entries"), map.max_entries, "rows of {name}");
        assert_eq!(number("map_flags"), map.flags, "flags of {name}");
        assert_eq!(number("key_size"), map.key_size, "key of {name}");
    }
}

#[test]
fn numbers_and_names_are_found_again() {
    for reason in DropReason::ALL {
        assert_eq!(DropReason::from_number(reason as u8), Some(reason));
    }
    assert_eq!(DropReason::from_number(0), None);
    for point in TracePoint::ALL {
        assert_eq!(TracePoint::from_number(point as u8), Some(point));
    }
    assert_eq!(TracePoint::from_number(14), None);
    assert_eq!(TraceReason::from_number(3), Some(TraceReason::Related));
    assert_eq!(maps::by_name("cilium_lxc").map(|map| map.value_size), Some(48));
    assert_eq!(maps::policy_pin_name(442), "cilium_policy_v2_00442");
}

#[test]
fn keys_are_built_as_they_are_read() {
    let key = PolicyKey::ports(Direction::Egress, 7, 6, 0x1234, 12);
    assert_eq!((key.prefix_len, key.port.get(), key.l4_bits()), (60, 0x1230, 20));
    assert_eq!(key.direction(), Direction::Egress);
    assert_eq!(
        PolicyKey::ports(Direction::Ingress, 7, 6, 80, 0),
        PolicyKey::protocol(Direction::Ingress, 7, 6)
    );
    assert_eq!(PolicyRow::deny(&key, 1).flags, 20 << 3 | 1);
    for (address, bits) in [("10.0.0.0", 8), ("f00d::", 64)] {
        let address = address.parse().unwrap();
        assert_eq!(IpcacheKey::new(address, bits).prefix(), Some((address, bits)));
        assert_eq!(LxcKey::new(address).ip(), Some(address));
    }
    for frontend in ["10.0.0.1:80", "[f00d::1]:80"] {
        let frontend = frontend.parse().unwrap();
        let key = LbKey::new(frontend, 6, LbScope::Internal);
        assert_eq!((key.frontend(), key.slot(7).frontend()), (frontend, frontend));
        assert_ne!(key, key.slot(7));
        assert_eq!(LbKey::wildcard(frontend.ip()).frontend().port(), 0);
    }
    let row = LbRow { backend: LbRow::choice(LbAlgorithm::Maglev, 3600), ..LbRow::default() };
    assert_eq!((row.algorithm(), row.affinity_timeout()), (Some(LbAlgorithm::Maglev), 3600));
    let row = LbRow { backend: LbRow::choice(LbAlgorithm::Random, u32::MAX), ..LbRow::default() };
    assert_eq!((row.algorithm(), row.affinity_timeout()), (Some(LbAlgorithm::Random), 0xff_ffff));
    assert_eq!(IpcacheKey { prefix_len: 31, ..IpcacheKey::default() }.prefix(), None);
    assert_eq!(IpcacheKey { prefix_len: 65, family: 1, ..IpcacheKey::default() }.prefix(), None);
    assert_eq!(LxcKey::default().ip(), None);
}
