//! Rows of the maps that balance load, as text.

use volvox_actors::{
    model::{BackendId, Frontend, ServiceId},
    ports::{BackendRow, ServiceTables, SlotRow},
};
use volvox_maps::{Client, DatapathError, Dump, MaglevShares, ServedClient};
use volvox_rest::models::{BpfMapEntry, backend_state};

/// The rows of a map of that name; `None` if it does not balance load, or has no text form.
pub(super) fn rows(dump: &Dump, name: &str) -> Result<Option<Vec<BpfMapEntry>>, DatapathError> {
    Ok(Some(match name {
        "cilium_lb4_affinity" | "cilium_lb6_affinity" => {
            let is_ipv4 = name == "cilium_lb4_affinity";
            dump.served_clients(is_ipv4)?.iter().map(client).collect()
        }
        "cilium_lb4_maglev" | "cilium_lb6_maglev" => {
            dump.maglev(name == "cilium_lb4_maglev")?.iter().map(maglev).collect()
        }
        "cilium_lb4_services_v2"
        | "cilium_lb6_services_v2"
        | "cilium_lb4_backends_v3"
        | "cilium_lb6_backends_v3"
        | "volvox_lb4_members"
        | "volvox_lb6_members"
        | "cilium_lb4_reverse_nat"
        | "cilium_lb6_reverse_nat"
        | "cilium_lb_affinity_match"
        | "cilium_lb4_source_range"
        | "cilium_lb6_source_range" => entries(&dump.services(&[name])?),
        _ => return Ok(None),
    }))
}

fn entries(tables: &ServiceTables) -> Vec<BpfMapEntry> {
    let ServiceTables { slots, backends, members, reverse_nat, affinity, ranges, .. } = tables;
    let mut all: Vec<_> = slots.iter().map(slot).collect();
    all.extend(backends.iter().map(backend));
    all.extend(members.iter().map(|((service, id), row)| {
        BpfMapEntry::new(format!("{id} {service}"), backend_text(row))
    }));
    all.extend(reverse_nat.iter().map(|(id, at)| BpfMapEntry::new(id, at)));
    all.extend(
        affinity.iter().map(|(backend, id)| BpfMapEntry::new(format!("{backend} {id}"), "")),
    );
    all.extend(ranges.iter().map(|(id, range)| BpfMapEntry::new(format!("{range} ({id})"), "")));
    all
}

fn slot(((frontend, slot), row): &((Frontend, u16), SlotRow)) -> BpfMapEntry {
    let SlotRow { word, count, id, flags, quarantined } = *row;
    let [flags, flags2] = flags.to_le_bytes();
    BpfMapEntry::new(
        format!("{frontend} ({slot})"),
        format!("{word} {count}[{quarantined}] ({id}) [{flags:#x} {flags2:#x}]"),
    )
}

fn backend((id, row): &(BackendId, BackendRow)) -> BpfMapEntry {
    BpfMapEntry::new(id, backend_text(row))
}

fn backend_text(row: &BackendRow) -> String {
    let BackendRow { at, state, zone } = row;
    let zone = if *zone == 0 { String::new() } else { format!(" zone={zone}") };
    let at = format!("{}://{}", at.transport, at.socket());
    format!("{at} ({}){zone}", backend_state(*state))
}

fn client(served: &ServedClient) -> BpfMapEntry {
    let ServedClient { service, client, backend, last_used } = served;
    let client = match client {
        Client::Address(address) => address.to_string(),
        Client::NetnsCookie(cookie) => format!("netns {cookie}"),
    };
    BpfMapEntry::new(format!("{client} ({service})"), format!("{backend} last_used={last_used}"))
}

fn maglev((service, shares): (&ServiceId, &MaglevShares)) -> BpfMapEntry {
    let size: usize = shares.values().sum();
    let share = |(id, places): (&BackendId, &usize)| format!("{id}:{places}");
    let shares: Vec<_> = shares.iter().map(share).collect();
    BpfMapEntry::new(service, format!("{size} places, by backend {}", shares.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datapath::tests::{sandbox::Sandbox, services::serve};

    #[test]
    fn each_map_has_its_own_familys_rows() {
        Sandbox::run(|sandbox| {
            serve(sandbox);
            let dump = Dump::at(sandbox.root());
            let texts = |name: &str| -> Vec<(String, String)> {
                let rows = rows(&dump, name).unwrap().unwrap();
                rows.into_iter().map(|row| (row.key, row.value)).collect()
            };
            for (name, expected) in [
                (
                    "cilium_lb4_services_v2",
                    &[
                        ("10.96.0.1:80/TCP (0)", "33555032 1[1] (3) [0xb0 0x10]"),
                        ("10.96.0.1:80/TCP (1)", "10 0[0] (3) [0x0 0x0]"),
                        ("10.96.0.1:80/TCP (2)", "20 0[0] (3) [0x0 0x40]"),
                        ("10.96.0.2:443/TCP/i (0)", "16777216 1[0] (4) [0x0 0x0]"),
                        ("10.96.0.2:443/TCP/i (1)", "99 0[0] (4) [0x0 0x0]"),
                    ][..],
                ),
                (
                    "cilium_lb6_backends_v3",
                    &[
                        ("11", "TCP://[fd00::9:0:0]:8080 (active)"),
                        ("21", "TCP://[fd00::9:0:1]:8080 (quarantined) zone=1"),
                    ],
                ),
                ("cilium_lb4_reverse_nat", &[("3", "10.96.0.1:80"), ("4", "10.96.0.2:443")]),
                ("cilium_lb6_source_range", &[("2001:db8::/32 (5)", "")]),
                (
                    "cilium_lb_affinity_match",
                    &[("10 3", ""), ("11 5", ""), ("20 3", ""), ("21 5", "")],
                ),
                ("cilium_lb4_affinity", &[("192.0.2.7 (3)", "10 last_used=77")]),
                ("cilium_lb6_affinity", &[("netns 4711 (5)", "21 last_used=77")]),
                ("cilium_lb4_maglev", &[("3", "251 places, by backend 10:126,20:125")]),
            ] {
                let expected: Vec<_> = expected
                    .iter()
                    .map(|(key, value)| (key.to_string(), value.to_string()))
                    .collect();
                assert_eq!(texts(name), expected, "{name}");
            }
            assert_eq!(texts("cilium_lb6_services_v2").len(), 5);
            assert!(rows(&dump, "cilium_lb4_reverse_sk").unwrap().is_none());
        });
    }
}
