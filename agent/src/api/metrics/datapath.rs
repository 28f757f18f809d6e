//! Metrics of the datapath: packets forwarded and dropped, writes to BPF maps, and how full the
//! maps are.

use std::{collections::BTreeMap, path::Path};

use volvox_actors::services::service_cache::ServicesStatus;
use volvox_bpf_progs::{
    DropReason,
    layouts::{MetricsDirection, MetricsKey, MetricsRow},
};
use volvox_maps::{
    Dump,
    tally::{POLICY_MAP, PRESSED},
};

use super::sheet::{Sheet, row};
use crate::datapath::Writes;

/// Endpoints' policy maps are many: as in Cilium they share one row, which is that of the fullest.
const POLICY_MAPS: &str = "cilium_policy_v2_*";

pub(super) fn write(sheet: &mut Sheet, writes: &Writes, bpf_root: &Path) {
    let help = "Changes made to the kernel since the agent's start";
    let rows = writes.counts().map(|(object, count)| row([("object", object)], count as f64));
    sheet.counter("volvox_kernel_writes", help, rows);
    match Dump::at(bpf_root).metrics() {
        Ok(rows) => write_packets(sheet, &rows),
        Err(error) => tracing::debug!(%error, "packets are not counted in this answer"),
    }
}

/// What was done to each map, and how full it is. `largest` is the longest policy of an endpoint.
pub(super) fn write_maps(
    sheet: &mut Sheet,
    writes: &Writes,
    largest: usize,
    services: &ServicesStatus,
) {
    let mut ops = Vec::new();
    let mut pressure = Vec::new();
    for (name, tally) in writes.maps() {
        for (operation, outcome, count) in tally.ops() {
            let labels = [("map_name", name), ("operation", operation), ("outcome", outcome)];
            ops.push(row(labels, count as f64));
        }
        let (label, rows) = match name {
            POLICY_MAP => (POLICY_MAPS, largest as u64),
            _ => (name, tally.rows()),
        };
        if let Some(room) = tally.room().filter(|_| PRESSED.contains(&name)) {
            pressure.push(row([("map_name", label)], rows as f64 / f64::from(room)));
        }
    }
    // Their owner knows at any time what the maps of services hold.
    for (name, rows) in services.maps.iter().filter(|_| services.room > 0) {
        let label = name.strip_prefix("cilium_").unwrap_or(name);
        pressure.push(row([("map_name", label)], *rows as f64 / services.room as f64));
    }
    sheet.counter("cilium_bpf_map_ops", "Rows written to and removed from maps, and refusals", ops);
    let help = "How full a map was when it was last read, 1 is full; of policy maps the fullest, of services' \
                maps now";
    sheet.gauge("cilium_bpf_map_pressure", help, pressure);
}

fn write_packets(sheet: &mut Sheet, rows: &BTreeMap<MetricsKey, MetricsRow>) {
    // Lines of the source are for developers: one row a reason here.
    let mut sums: BTreeMap<(u8, &str), MetricsRow> = BTreeMap::new();
    for (key, counted) in rows {
        let sum = sums.entry((key.reason, direction(key))).or_default();
        sum.packets += counted.packets;
        sum.bytes += counted.bytes;
    }
    let forwarded = |value: fn(&MetricsRow) -> u64| -> Vec<_> {
        sums.iter()
            .filter(|((reason, _), _)| *reason == 0)
            .map(|((_, direction), sum)| row([("direction", direction)], value(sum) as f64))
            .collect()
    };
    let dropped = |value: fn(&MetricsRow) -> u64| -> Vec<_> {
        sums.iter()
            .filter(|((reason, _), _)| *reason != 0)
            .map(|((reason, direction), sum)| {
                let labels = [("reason", text(*reason)), ("direction", (*direction).to_owned())];
                (labels.to_vec(), value(sum) as f64)
            })
            .collect()
    };
    sheet.counter("cilium_forward_count", "Packets forwarded", forwarded(|sum| sum.packets));
    sheet.counter("cilium_forward_bytes", "Bytes forwarded", forwarded(|sum| sum.bytes));
    sheet.counter("cilium_drop_count", "Packets dropped", dropped(|sum| sum.packets));
    sheet.counter("cilium_drop_bytes", "Bytes dropped", dropped(|sum| sum.bytes));
}

fn direction(key: &MetricsKey) -> &'static str {
    const INGRESS: u8 = MetricsDirection::Ingress as u8;
    const EGRESS: u8 = MetricsDirection::Egress as u8;
    match key.direction & 3 {
        INGRESS => "INGRESS",
        EGRESS => "EGRESS",
        _ => "UNKNOWN",
    }
}

fn text(reason: u8) -> String {
    DropReason::from_number(reason)
        .map_or_else(|| reason.to_string(), |reason| reason.text().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_summed_over_lines_and_named() {
        let key = |reason, line| MetricsKey { reason, direction: 1, line, ..Default::default() };
        let counted = |packets| MetricsRow { packets, bytes: packets * 100 };
        let mut sheet = Sheet::default();
        let rows = [(key(0, 0), counted(5)), (key(133, 7), counted(1)), (key(133, 9), counted(2))];
        write_packets(&mut sheet, &rows.into());
        let text = sheet.text().unwrap();
        for line in [
            "cilium_forward_count_total{direction=\"INGRESS\"} 5.0",
            "cilium_drop_count_total{reason=\"Policy denied\",direction=\"INGRESS\"} 3.0",
            "cilium_drop_bytes_total{reason=\"Policy denied\",direction=\"INGRESS\"} 300.0",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
