//! The actors' rows as the kernel keeps them, and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use volvox_actors::{
    model::{Addresses, Direction, EndpointId, IdentityId, Mac, PolicyEntry, PolicyKey},
    ports::{ConfigRow, DeviceRow, EndpointRow, HOST_IFINDEX, IpcacheRow, LxcRow},
};
use volvox_bpf_progs::layouts as raw;
use zerocopy::IntoBytes;

/// Flag of [`raw::IpcacheRow`]: the tunnel endpoint is an IPv6 address.
const TUNNEL_IPV6: u8 = 4;

const _: () = assert!(HOST_IFINDEX == raw::HOST_IFINDEX);

/// A row of `volvox_config`, by interface.
pub fn config_row(ifindex: u32, row: raw::ConfigRow) -> Option<(u32, ConfigRow)> {
    Some((ifindex, config_from_raw(&row)))
}

/// A row of `volvox_device`, by interface.
pub fn device_row(ifindex: u32, row: raw::DeviceRow) -> Option<(u32, DeviceRow)> {
    let addresses = addresses(row.ipv4, row.ipv6);
    Some((ifindex, DeviceRow { addresses, mac: Mac(row.mac), flags: row.flags }))
}

/// The same as the kernel keeps it.
pub fn device_to_raw(ifindex: u32, row: &DeviceRow) -> raw::DeviceRow {
    let (ipv4, ipv6) = octets(row.addresses);
    let (mac, flags) = (row.mac.0, row.flags);
    raw::DeviceRow { ipv4, ipv6, mac, flags, ifindex, ..raw::DeviceRow::default() }
}

/// A destination to which pods go as themselves, unless the key is no prefix.
pub fn unmasqueraded4(key: &raw::Prefix4Key) -> Option<IpNet> {
    let bits = u8::try_from(key.prefix_len).ok()?;
    IpNet::new(Ipv4Addr::from(key.address).into(), bits).ok()
}

/// The same over IPv6.
pub fn unmasqueraded6(key: &raw::Prefix6Key) -> Option<IpNet> {
    let bits = u8::try_from(key.prefix_len).ok()?;
    IpNet::new(Ipv6Addr::from(key.address).into(), bits).ok()
}

/// Keys of destinations, by family.
pub fn unmasqueraded_keys(all: &[IpNet]) -> (Vec<raw::Prefix4Key>, Vec<raw::Prefix6Key>) {
    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
    for prefix in all {
        match prefix {
            IpNet::V4(it) => ipv4.push(raw::Prefix4Key::new(it.network(), it.prefix_len())),
            IpNet::V6(it) => ipv6.push(raw::Prefix6Key::new(it.network(), it.prefix_len())),
        }
    }
    (ipv4, ipv6)
}

/// A row of `cilium_lxc`, unless its key is no address.
pub fn lxc_row(key: raw::LxcKey, row: raw::LxcRow) -> Option<(IpAddr, LxcRow)> {
    Some((key.ip()?, lxc_from_raw(&row)))
}

/// A row of `cilium_ipcache_v2`, unless its key is no prefix of this cluster.
pub fn ipcache_row(key: raw::IpcacheKey, row: raw::IpcacheRow) -> Option<(IpNet, IpcacheRow)> {
    Some((ipcache_prefix(&key)?, ipcache_from_raw(&row)))
}

fn addresses(ipv4: [u8; 4], ipv6: [u8; 16]) -> Addresses {
    let (ipv4, ipv6) = (Ipv4Addr::from(ipv4), Ipv6Addr::from(ipv6));
    Addresses {
        ipv4: (!ipv4.is_unspecified()).then_some(ipv4),
        ipv6: (!ipv6.is_unspecified()).then_some(ipv6),
    }
}

fn octets(addresses: Addresses) -> ([u8; 4], [u8; 16]) {
    (
        addresses.ipv4.unwrap_or(Ipv4Addr::UNSPECIFIED).octets(),
        addresses.ipv6.unwrap_or(Ipv6Addr::UNSPECIFIED).octets(),
    )
}

/// Six bytes at the front of eight.
fn wide(mac: Mac) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&mac.0);
    bytes
}

fn narrow(bytes: [u8; 8]) -> Mac {
    let [a, b, c, d, e, f, ..] = bytes;
    Mac([a, b, c, d, e, f])
}

/// A row of `volvox_config`, as the kernel keeps it.
pub fn config_to_raw(row: &ConfigRow) -> raw::ConfigRow {
    let (ipv4, ipv6) = octets(row.addresses);
    raw::ConfigRow {
        generation: row.generation,
        ep_id: row.endpoint.0,
        flags: row.flags,
        identity: row.identity.0,
        policy_slot: row.policy_slot,
        ifindex: row.ifindex,
        ipv4,
        ipv6,
        mac: row.mac.0,
        node_mac: row.node_mac.0,
        ..raw::ConfigRow::default()
    }
}

/// What a row of `volvox_config` says.
pub fn config_from_raw(row: &raw::ConfigRow) -> ConfigRow {
    ConfigRow {
        generation: row.generation,
        endpoint: EndpointId(row.ep_id),
        flags: row.flags,
        identity: IdentityId(row.identity),
        policy_slot: row.policy_slot,
        ifindex: row.ifindex,
        addresses: addresses(row.ipv4, row.ipv6),
        mac: Mac(row.mac),
        node_mac: Mac(row.node_mac),
    }
}

/// A row of `cilium_lxc`, as the kernel keeps it.
pub fn lxc_to_raw(row: &LxcRow) -> raw::LxcRow {
    raw::LxcRow {
        ifindex: row.ifindex,
        lxc_id: row.endpoint,
        flags: row.flags,
        mac: wide(row.mac),
        node_mac: wide(row.node_mac),
        sec_id: row.identity.0,
        parent_ifindex: row.parent_ifindex,
        ..raw::LxcRow::default()
    }
}

/// What a row of `cilium_lxc` says.
pub fn lxc_from_raw(row: &raw::LxcRow) -> LxcRow {
    LxcRow {
        ifindex: row.ifindex,
        endpoint: row.lxc_id,
        flags: row.flags,
        mac: narrow(row.mac),
        node_mac: narrow(row.node_mac),
        identity: IdentityId(row.sec_id),
        parent_ifindex: row.parent_ifindex,
    }
}

/// The key of a prefix in `cilium_ipcache_v2`.
pub fn ipcache_key(prefix: &IpNet) -> raw::IpcacheKey {
    raw::IpcacheKey::new(prefix.network(), prefix.prefix_len())
}

/// The prefix that such a key means, if it means one.
pub fn ipcache_prefix(key: &raw::IpcacheKey) -> Option<IpNet> {
    let (address, bits) = key.prefix().filter(|_| key.cluster_id == 0)?;
    IpNet::new(address, bits).ok()
}

/// A row of `cilium_ipcache_v2`, as the kernel keeps it.
pub fn ipcache_to_raw(row: &IpcacheRow) -> raw::IpcacheRow {
    let tunnel_endpoint = match row.tunnel {
        None => [0; 16],
        Some(address) => raw::LxcKey::new(address).address,
    };
    raw::IpcacheRow {
        identity: row.identity.0,
        tunnel_endpoint,
        key: row.key,
        flags: row.flags,
        ..raw::IpcacheRow::default()
    }
}

/// What a row of `cilium_ipcache_v2` says.
pub fn ipcache_from_raw(row: &raw::IpcacheRow) -> IpcacheRow {
    let [a, b, c, d, ..] = row.tunnel_endpoint;
    let tunnel = match row.flags & TUNNEL_IPV6 {
        0 => IpAddr::from([a, b, c, d]),
        _ => IpAddr::from(row.tunnel_endpoint),
    };
    IpcacheRow {
        identity: IdentityId(row.identity),
        tunnel: (!tunnel.is_unspecified()).then_some(tunnel),
        key: row.key,
        flags: row.flags,
    }
}

/// A key of a policy map, as the kernel keeps it.
pub fn policy_key_to_raw(key: &PolicyKey) -> raw::PolicyKey {
    raw::PolicyKey {
        prefix_len: raw::PolicyKey::STATIC_BITS + u32::from(key.bits),
        identity: key.identity.0,
        egress: u8::from(key.direction == Direction::Egress),
        protocol: key.protocol,
        port: key.port.into(),
    }
}

/// What a key of a policy map says.
pub fn policy_key_from_raw(key: &raw::PolicyKey) -> PolicyKey {
    PolicyKey {
        direction: if key.egress & 1 == 1 { Direction::Egress } else { Direction::Ingress },
        identity: IdentityId(key.identity),
        protocol: key.protocol,
        port: key.port.get(),
        bits: key.l4_bits(),
    }
}

/// A row of a policy map, as the kernel keeps it.
pub fn policy_entry_to_raw(key: &raw::PolicyKey, entry: &PolicyEntry) -> raw::PolicyRow {
    let row = match entry.deny {
        true => raw::PolicyRow::deny(key, entry.cookie),
        false => raw::PolicyRow::allow(key, entry.cookie),
    };
    raw::PolicyRow { precedence: entry.precedence, ..row }
}

/// What a row of a policy map says.
pub fn policy_entry_from_raw(row: &raw::PolicyRow) -> PolicyEntry {
    PolicyEntry { deny: row.is_deny(), precedence: row.precedence, cookie: row.cookie }
}

/// Copies a text into a NUL-padded field, cut at a character where it is too long.
fn put_text(field: &mut [u8], text: &str) {
    let mut end = text.len().min(field.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    field[..end].copy_from_slice(&text.as_bytes()[..end]);
}

/// The text of a NUL-padded field.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// The checksum that a row of `volvox_endpoint` ought to have.
pub fn checksum(row: &raw::EndpointRow) -> u32 {
    crc32fast::hash(&row.as_bytes()[..raw::EndpointRow::CHECKED_BYTES])
}

/// A row of `volvox_endpoint`, as the kernel keeps it.
pub fn endpoint_to_raw(row: &EndpointRow) -> raw::EndpointRow {
    let (ipv4, ipv6) = octets(row.addresses);
    let mut to = raw::EndpointRow {
        ifindex: row.ifindex,
        identity: row.identity.0,
        netns_cookie: row.netns_cookie,
        ipv4,
        ipv6,
        mac: row.mac.0,
        node_mac: row.node_mac.0,
        own_options: row.own_options,
        unsaved: row.unsaved.into(),
        chained: row.chained.into(),
        ..raw::EndpointRow::default()
    };
    put_text(&mut to.container_id, &row.container_id);
    put_text(&mut to.container_ifname, &row.container_ifname);
    put_text(&mut to.host_ifname, &row.ifname);
    put_text(&mut to.namespace, &row.namespace);
    put_text(&mut to.pod_name, &row.pod_name);
    put_text(&mut to.uid, &row.pod_uid);
    to.crc32 = checksum(&to);
    to
}

/// `None` if the checksum is wrong.
pub fn endpoint_from_raw(row: &raw::EndpointRow) -> Option<EndpointRow> {
    (row.crc32 == checksum(row)).then(|| EndpointRow {
        container_id: text(&row.container_id),
        container_ifname: text(&row.container_ifname),
        ifname: text(&row.host_ifname),
        ifindex: row.ifindex,
        identity: IdentityId(row.identity),
        netns_cookie: row.netns_cookie,
        addresses: addresses(row.ipv4, row.ipv6),
        mac: Mac(row.mac),
        node_mac: Mac(row.node_mac),
        namespace: text(&row.namespace),
        pod_name: text(&row.pod_name),
        pod_uid: text(&row.uid),
        own_options: row.own_options,
        unsaved: row.unsaved != 0,
        chained: row.chained != 0,
    })
}
