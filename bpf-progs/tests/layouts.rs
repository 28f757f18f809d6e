//! The layouts in Rust are those of the compiled object, field by field and map by map.

mod common;

use common::btf::Btf;
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::{DropReason, OBJECT, TracePoint, TraceReason, maps};

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
        [router_ipv4, router_ipv6, router_mac, pad, flags, build_hash, features, reserved,]
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
}

#[test]
fn the_table_of_maps_is_that_of_the_object() {
    let defined = Btf::of(OBJECT).maps();
    let listed: BTreeMap<_, _> = maps::MAPS.iter().map(|map| (map.name.to_owned(), map)).collect();
    assert_eq!(defined.keys().collect::<Vec<_>>(), listed.keys().collect::<Vec<_>>());
    for (name, map) in listed {
        let number = |field: &str| defined[&name].get(field).copied().unwrap_or(0);
        assert_eq!(number("type"), map.map_type as u32, "type of {name}");
        assert_eq!(number("max_entries"), map.max_entries, "rows of {name}");
        assert_eq!(number("map_flags"), map.flags, "flags of {name}");
        assert_eq!(number("key_size"), map.key_size, "key of {name}");
        if map.inner.is_none() {
            assert_eq!(number("value_size"), map.value_size, "value of {name}");
        }
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
    assert_eq!(IpcacheKey { prefix_len: 31, ..IpcacheKey::default() }.prefix(), None);
    assert_eq!(IpcacheKey { prefix_len: 65, family: 1, ..IpcacheKey::default() }.prefix(), None);
    assert_eq!(LxcKey::default().ip(), None);
}
