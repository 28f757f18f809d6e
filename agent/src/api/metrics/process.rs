//! Metrics of the agent's process and of its flight recorder.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use volvox_inspect::flight::FlightView;

use super::sheet::{Sheet, bare, row};
use crate::{api::Facts, logging};

pub(super) fn write(sheet: &mut Sheet, facts: &Facts) {
    let rows = [row([("version", facts.version.as_str())], 1.0)];
    sheet.gauge("cilium_version", "Version of the agent", rows);
    let Ok(stat) = fs::read_to_string("/proc/self/stat") else { return };
    let Some(usage) = usage(&stat) else { return };
    let seconds = usage.cpu_ticks as f64 / clock_ticks_per_second() as f64;
    sheet.counter("process_cpu_seconds", "Processor time of the agent", bare(seconds));
    let bytes = usage.resident_pages as f64 * page_size() as f64;
    sheet.gauge("process_resident_memory_bytes", "Memory of the agent", bare(bytes));
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let help = "Lines of the log that could not be written";
    sheet.counter("volvox_log_lines_lost", help, bare(logging::lost() as f64));
    sheet.gauge("process_open_fds", "Files that the agent has open", bare(open as f64));
}

pub(super) fn write_recorder(sheet: &mut Sheet, flight: &FlightView) {
    let help = "Records that the flight recorder began";
    sheet.counter("volvox_flight_records", help, bare(flight.records() as f64));
    let help = "Whether the flight recorder has a file, which outlives the agent";
    let in_file = flight.path().is_some();
    sheet.gauge("volvox_flight_in_file", help, bare(f64::from(u8::from(in_file))));
}

#[derive(Debug, PartialEq, Eq)]
struct Usage {
    cpu_ticks: u64,
    resident_pages: u64,
}

/// Reads `/proc/PID/stat`; the name in parentheses may itself hold spaces and parentheses.
fn usage(stat: &str) -> Option<Usage> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Fields 14, 15 and 24 of the line, of which the first two are cut off.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Usage { cpu_ticks: field(14)? + field(15)?, resident_pages: field(24)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_of_proc() {
        let stat =
            "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 100 1000000 321 18";
        assert_eq!(usage(stat), Some(Usage { cpu_ticks: 300, resident_pages: 321 }));
        assert_eq!(usage("nonsense"), None);
    }
}
