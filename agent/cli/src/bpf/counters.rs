//! Packets and bytes that the datapath counts, by what became of them.

use serde::Serialize;
use volvox_bpf_progs::{DropReason, layouts::MetricsDirection};
use volvox_maps::Dump;

use crate::{
    error::ClientError,
    output::{Listed, Output, shown},
};

/// A row of `cilium_metrics`, all CPUs together.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Counted {
    /// Number of the reason; 0 is forwarded.
    reason: u8,
    reason_text: String,
    direction: &'static str,
    packets: u64,
    bytes: u64,
    /// Line of the source that dropped, and the number of that file.
    line: u16,
    file: u8,
}

impl Listed for Counted {
    const HEADINGS: &'static [&'static str] = &["REASON", "DIRECTION", "PACKETS", "BYTES"];
    const WIDE: &'static [&'static str] = &["LINE", "FILE"];

    fn cells(&self) -> Vec<String> {
        let Self { packets, bytes, line, file, .. } = self;
        let numbers = [*packets, *bytes, u64::from(*line), u64::from(*file)];
        let texts = [self.reason_text.clone(), self.direction.to_owned()];
        texts.into_iter().chain(numbers.map(|it| it.to_string())).collect()
    }
}

pub(super) fn list(out: &mut Output<'_>, dump: &Dump) -> Result<(), ClientError> {
    const INGRESS: u8 = MetricsDirection::Ingress as u8;
    const EGRESS: u8 = MetricsDirection::Egress as u8;
    let rows = dump.metrics()?.into_iter().map(|(key, row)| Counted {
        reason: key.reason,
        reason_text: match key.reason {
            0 => "forwarded".to_owned(),
            reason => DropReason::from_number(reason)
                .map_or_else(|| format!("reason {reason}"), |it| it.text().to_owned()),
        },
        direction: match key.direction & 3 {
            INGRESS => "ingress",
            EGRESS => "egress",
            _ => "unknown",
        },
        packets: row.packets,
        bytes: row.bytes,
        line: key.line,
        file: key.file,
    });
    shown(out, &rows.collect::<Vec<_>>())
}
