//! Metrics of services: counts of frontends and backends, and what is wrong with them.

use volvox_actors::services::service_cache::ServicesStatus;

use super::sheet::{Sheet, bare};

pub(super) fn write(sheet: &mut Sheet, status: &ServicesStatus) {
    let gauges = [
        ("volvox_services_frontends", "Frontends of services", status.frontends),
        ("volvox_services_backends", "Backends of services", status.backends),
        (
            "volvox_services_open",
            "Frontends and backends that the kernel has not as they are to be",
            status.open,
        ),
        ("volvox_services_refused", "Objects that are refused", status.refused.len()),
        ("volvox_services_problems", "What services cannot have", status.problems.len()),
        (
            "volvox_services_awaited",
            "Sources that pruning waits for: each has to say first what it knows",
            status.awaited.len(),
        ),
    ];
    for (name, help, value) in gauges {
        sheet.gauge(name, help, bare(value as f64));
    }
}
