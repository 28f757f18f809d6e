//! Metrics of endpoints: their states, their builds, and how the last restart restored them.

use std::{collections::BTreeMap, sync::Arc};

use volvox_actors::{
    endpoints::{
        build_queue::{Class, Queued},
        endpoint::{EndpointState, EndpointView},
        supervisor::{Lengths, Regenerations},
    },
    restore::{RestoreOutcome, RestoreReport},
};

use super::sheet::{Histogram, Sheet, bare, row};

pub(super) fn write(sheet: &mut Sheet, views: &[Arc<EndpointView>], queue: &Queued) {
    let names = EndpointState::ALL.map(EndpointState::name).into_iter().chain(["not-ready"]);
    let mut states: BTreeMap<&str, u32> = names.map(|name| (name, 0)).collect();
    for view in views {
        *states.entry(view.api_state()).or_default() += 1;
    }
    sheet.gauge("cilium_endpoint", "Endpoints of this agent", bare(views.len() as f64));
    let rows =
        states.iter().map(|(name, count)| row([("endpoint_state", name)], f64::from(*count)));
    sheet.gauge("cilium_endpoint_state", "Endpoints by state", rows);

    let rows = [
        row([("state", "used")], queue.building.len() as f64),
        row([("state", "free")], queue.permits.saturating_sub(queue.building.len()) as f64),
    ];
    sheet.gauge("volvox_build_permits", "Builds that may run at a time", rows);
    let waiting =
        |expected| queue.waiting.iter().filter(|(_, class)| *class == expected).count() as f64;
    let rows = [
        row([("class", "new-pod")], waiting(Class::NewPod)),
        row([("class", "mass")], waiting(Class::Mass)),
    ];
    sheet.gauge("volvox_builds_waiting", "Endpoints that wait for a permit", rows);
}

/// Builds since the agent's start.
pub(super) fn write_regenerations(sheet: &mut Sheet, regenerations: &Regenerations) {
    let Regenerations { succeeded, failed } = regenerations;
    let rows = [
        row([("outcome", "success")], succeeded.count as f64),
        row([("outcome", "fail")], failed.count as f64),
    ];
    sheet.counter("cilium_endpoint_regenerations", "Builds of endpoints", rows);
    let lengths = |status: &str, lengths: &Lengths| {
        let labels = vec![("scope", "total".to_owned()), ("status", status.to_owned())];
        let buckets = Lengths::BOUNDS.into_iter().zip(lengths.buckets).collect();
        let sum = lengths.total.as_secs_f64();
        (labels, Histogram { sum, count: lengths.count, buckets })
    };
    let rows = [lengths("success", succeeded), lengths("failure", failed)];
    let help = "How long builds of endpoints took";
    sheet.histogram("cilium_endpoint_regeneration_time_stats_seconds", help, rows);
}

/// How the last restart went.
pub(super) fn write_restore(sheet: &mut Sheet, report: &RestoreReport) {
    let phases = || report.phases.iter();
    let rows = phases()
        .map(|phase| row([("scope", phase.name.as_str()), ("outcome", "success")], phase.seconds));
    sheet.gauge("cilium_agent_bootstrap_seconds", "Length of each phase of the start", rows);
    let rows = phases().map(|phase| row([("phase", phase.name.as_str())], phase.seconds));
    let help = "Length of each phase of restoring endpoints";
    sheet.gauge("cilium_endpoint_restoration_duration_seconds", help, rows);

    let count = |fates: &[RestoreOutcome]| {
        fates.iter().map(|fate| report.count(*fate)).sum::<usize>() as f64
    };
    let restoration = |outcome, fates: &[RestoreOutcome]| {
        row([("phase", "restoration"), ("outcome", outcome)], count(fates))
    };
    let rows = [
        restoration(
            "total",
            &[
                RestoreOutcome::Pending,
                RestoreOutcome::Restored,
                RestoreOutcome::Rebuilt,
                RestoreOutcome::Degraded,
                RestoreOutcome::Failed,
            ],
        ),
        restoration("successful", &[RestoreOutcome::Restored, RestoreOutcome::Rebuilt]),
        restoration("failed", &[RestoreOutcome::Degraded, RestoreOutcome::Failed]),
    ];
    let help = "Endpoints that were to be restored";
    sheet.gauge("cilium_endpoint_restoration_endpoints", help, rows);
    let fates = [
        ("pending", RestoreOutcome::Pending),
        ("restored", RestoreOutcome::Restored),
        ("rebuilt", RestoreOutcome::Rebuilt),
        ("degraded", RestoreOutcome::Degraded),
        ("failed", RestoreOutcome::Failed),
    ];
    let rows = fates.map(|(name, fate)| row([("fate", name)], count(&[fate])));
    sheet.gauge("volvox_restore_endpoints", "Endpoints of the life before, by fate", rows);
    let rows = bare(f64::from(u8::from(report.finished)));
    sheet.gauge("volvox_restore_finished", "Whether restoring is over", rows);
}
