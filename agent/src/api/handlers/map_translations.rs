//! Rows of the maps of address translation, as text.

use std::net::SocketAddr;

use volvox_maps::{DatapathError, Dump, Peer, Translation};
use volvox_rest::models::{BpfMapEntry, protocol_name};

/// The rows of a map of that name; `None` if it does not translate addresses.
pub(super) fn rows(dump: &Dump, name: &str) -> Result<Option<Vec<BpfMapEntry>>, DatapathError> {
    let is_ipv4 = match name {
        "cilium_snat_v4_external" => true,
        "cilium_snat_v6_external" => false,
        _ => return Ok(None),
    };
    let all = dump.translations()?;
    let of_family = all.iter().filter(|it| it.from.address.is_ipv4() == is_ipv4);
    Ok(Some(of_family.map(entry).collect()))
}

/// As Cilium writes it: the packet's ends, and what one of them becomes.
fn entry(row: &Translation) -> BpfMapEntry {
    let Translation { protocol, direction, from, to, becomes, created } = row;
    let end = |it: &Peer| SocketAddr::new(it.address, it.port);
    let (protocol, way) = (protocol_name(*protocol), direction.to_uppercase());
    let which = if *direction == "out" { "SRC" } else { "DST" };
    BpfMapEntry::new(
        format!("{protocol} {way} {} -> {}", end(from), end(to)),
        format!("XLATE_{which} {} created={created}", end(becomes)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_which_end_becomes_what() {
        let peer = |address: &str, port| Peer { address: address.parse().unwrap(), port };
        let out = Translation {
            protocol: 6,
            direction: "out",
            from: peer("10.0.0.1", 1234),
            to: peer("198.51.100.1", 443),
            becomes: peer("192.0.2.7", 40000),
            created: 77,
        };
        let text = |row| {
            let BpfMapEntry { key, value, .. } = entry(row);
            (key, value)
        };
        let expected = (
            "TCP OUT 10.0.0.1:1234 -> 198.51.100.1:443".into(),
            "XLATE_SRC 192.0.2.7:40000 created=77".into(),
        );
        assert_eq!(text(&out), expected);
        let back = Translation {
            direction: "in",
            from: out.to,
            to: out.becomes,
            becomes: out.from,
            ..out.clone()
        };
        let expected = (
            "TCP IN 198.51.100.1:443 -> 192.0.2.7:40000".into(),
            "XLATE_DST 10.0.0.1:1234 created=77".into(),
        );
        assert_eq!(text(&back), expected);
    }
}
