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

use super::sheet::{Histogram, Row, Sheet, bare, row};
use crate::spans::Span;

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

/// Phases of the start that are a scope of Cilium's.
const SCOPES: [(&str, &str); 4] = [
    ("claim directories", "earlyInit"),
    ("open maps, read kernel", "mapsInit"),
    ("reserve addresses", "ipam"),
    ("prune", "cleanup"),
];
/// Those that Cilium has in one.
const RESTORE: [&str; 4] = ["plan", "reserve addresses", "spawn endpoints", "regenerate endpoints"];

/// How long each part of the start took: by our phases, and by the scopes that Cilium has.
fn bootstrap(report: &RestoreReport, spans: &[Span]) -> Vec<(Row, f64)> {
    let span = |scope: &str, success: bool, seconds| {
        let outcome = if success { "success" } else { "failure" };
        row([("scope", scope), ("outcome", outcome)], seconds)
    };
    let took = |name: &str| {
        report.phases.iter().find(|phase| phase.name == name).map(|phase| phase.seconds)
    };
    let mut rows: Vec<_> =
        report.phases.iter().map(|phase| span(&phase.name, true, phase.seconds)).collect();
    rows.extend(SCOPES.iter().filter_map(|(phase, scope)| Some(span(scope, true, took(phase)?))));
    let restored: Option<f64> = RESTORE.into_iter().map(took).sum();
    if let Some(restored) = restored {
        let fates = [RestoreOutcome::Degraded, RestoreOutcome::Failed];
        let success = fates.into_iter().all(|fate| report.count(fate) == 0);
        rows.push(span("restore", success, restored));
    }
    rows.extend(spans.iter().map(|it| span(it.scope, it.success, it.took.as_secs_f64())));
    rows
}

/// How the last restart went.
pub(super) fn write_restore(sheet: &mut Sheet, report: &RestoreReport, spans: &[Span]) {
    let phases = || report.phases.iter();
    let help = "Length of each phase of the start, and of each scope that Cilium has";
    sheet.gauge("cilium_agent_bootstrap_seconds", help, bootstrap(report, spans));
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use volvox_actors::{
        model::EndpointId,
        restore::{EndpointReport, PhaseReport},
    };

    use super::*;

    fn report(phases: &[&str], fate: RestoreOutcome) -> RestoreReport {
        let phase = |name: &&str| PhaseReport { name: (*name).to_owned(), seconds: 0.25 };
        let (source, pod, error) = ("ep_config.json".to_owned(), None, None);
        let endpoint = EndpointReport { pod, fate, source, notes: Vec::new(), error };
        RestoreReport {
            phases: phases.iter().map(phase).collect(),
            endpoints: BTreeMap::from([(EndpointId(7), endpoint)]),
            ..RestoreReport::default()
        }
    }

    /// Scope, outcome and seconds of each row.
    fn rows(report: &RestoreReport, spans: &[Span]) -> Vec<(String, String, f64)> {
        let rows = bootstrap(report, spans).into_iter();
        rows.map(|(labels, seconds)| (labels[0].1.clone(), labels[1].1.clone(), seconds)).collect()
    }

    #[test]
    fn a_start_has_the_scopes_that_cilium_has() {
        let phases = [
            "claim directories",
            "read state directory",
            "open maps, read kernel",
            "plan",
            "reserve addresses",
            "spawn endpoints",
            "regenerate endpoints",
            "prune",
        ];
        let took = Duration::from_secs(3);
        let spans = [
            Span { scope: "overall", took, success: true },
            Span { scope: "k8sInit", took, success: false },
        ];
        let rows = rows(&report(&phases, RestoreOutcome::Restored), &spans);
        for (scope, outcome, seconds) in [
            ("earlyInit", "success", 0.25),
            ("mapsInit", "success", 0.25),
            ("ipam", "success", 0.25),
            ("cleanup", "success", 0.25),
            ("restore", "success", 1.0),
            ("overall", "success", 3.0),
            ("k8sInit", "failure", 3.0),
        ] {
            let expected = (scope.to_owned(), outcome.to_owned(), seconds);
            assert!(rows.contains(&expected), "{expected:?}: {rows:?}");
        }
        let ours = phases.map(|name| (name.to_owned(), "success".to_owned(), 0.25));
        assert_eq!(rows[..8], ours, "the names of before stay");
        assert_eq!(rows.len(), 8 + 7);
    }

    #[test]
    fn a_restore_that_goes_on_has_no_span_and_one_that_fails_says_so() {
        let mut phases = vec!["plan", "reserve addresses", "spawn endpoints"];
        let restore = |phases: &[&str], fate| {
            let rows = rows(&report(phases, fate), &[]);
            rows.into_iter().find(|row| row.0 == "restore").map(|row| row.1)
        };
        assert_eq!(restore(&phases, RestoreOutcome::Pending), None);
        phases.push("regenerate endpoints");
        for (fate, outcome) in [
            (RestoreOutcome::Rebuilt, "success"),
            (RestoreOutcome::Degraded, "failure"),
            (RestoreOutcome::Failed, "failure"),
        ] {
            assert_eq!(restore(&phases, fate).as_deref(), Some(outcome), "{fate:?}");
        }
    }
}
