//! How a restart went: of the agent that runs, and of its earlier runs.

use std::path::Path;

use serde_json::json;
use volvox_actors::{
    host::flight::Life,
    restore::{EndpointReport, RestoreOutcome, RestoreReport},
};
use volvox_inspect::{
    evidence::{self, Evidence, Lost},
    flight::boot_id,
};
use volvox_rest::RestClient;

use super::{
    args::{Lifetime, RestoreCommand},
    error::ClientError,
    output::{Output, count, seconds},
    trace,
};

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    state_dir: &Path,
    command: RestoreCommand,
) -> Result<(), ClientError> {
    match command {
        RestoreCommand::Report { life: None } => {
            out.answer(&client.get::<RestoreReport>("/volvox/restore").await?, report)
        }
        RestoreCommand::Report { life: Some(number) } => {
            let life = Evidence::at(state_dir).life(number).ok_or_else(|| {
                ClientError::NotFound(format!(
                    "nothing is kept of how life {number} restored: `volvox restore lives` lists \
                     those that are kept"
                ))
            })?;
            out.answer(&*life.report, report)
        }
        RestoreCommand::Lives => lives(out, state_dir),
    }
}

/// Each life that something is kept of, the newest first; and who was lost since the machine booted.
fn lives(out: &mut Output<'_>, state_dir: &Path) -> Result<(), ClientError> {
    let evidence = Evidence::at(state_dir);
    let ended = |number: u64| {
        let flight = trace::read(state_dir, &Lifetime::Number(number)).ok()?;
        let running = trace::is_running(&flight.life);
        Some(Life { previous: !running, ..flight.life })
    };
    let numbers = evidence.lives().into_iter().rev();
    let all: Vec<_> = numbers.map(|it| (it, ended(it), evidence.life(it))).collect();
    let lost = evidence.lost(&boot_id());
    if out.is_for_programs() {
        let lives = all.iter().map(|(number, life, restored)| {
            let ended = life.as_ref().map(evidence::end);
            json!({ "number": number, "end": ended, "recorded": life, "restored": restored })
        });
        return out.value(&json!({ "lives": lives.collect::<Vec<_>>(), "lost": lost }));
    }
    let rows = all.into_iter().map(|(number, life, restored)| {
        let end = life.as_ref().map_or("is not recorded", evidence::end);
        let version = restored.as_ref().map(|it| it.version.clone()).unwrap_or_default();
        let how = restored.map_or_else(String::new, |it| summary(&it.report));
        [number.to_string(), version, end.to_owned(), how]
    });
    out.table(["LIFE", "VERSION", "END", "RESTORED"], rows)?;
    lost.iter().try_for_each(|lost| out.line(lost_line(lost)))
}

/// A sentence about an endpoint that was lost.
pub(super) fn lost_line(lost: &Lost) -> String {
    let pod = lost.pod.as_ref().map(|pod| format!(" ({pod})")).unwrap_or_default();
    format!("endpoint {}{pod} was lost in life {}: {}", lost.id, lost.life, lost.error)
}

fn report(out: &mut Output<'_>, report: &RestoreReport) -> Result<(), ClientError> {
    out.line(summary(report))?;
    if !report.phases.is_empty() {
        out.line("")?;
        let rows = report.phases.iter().map(|it| [it.name.clone(), seconds(it.seconds)]);
        out.table(["PHASE", "TIME"], rows)?;
    }
    // Endpoints that came back as their files say need no line of their own.
    let noteworthy: Vec<_> =
        report.endpoints.iter().filter(|(_, endpoint)| is_noteworthy(endpoint)).collect();
    if !noteworthy.is_empty() {
        out.line("")?;
        let rows = noteworthy.into_iter().map(|(id, endpoint)| {
            let remarks = endpoint.notes.iter().chain(&endpoint.error);
            let remarks = remarks.cloned().collect::<Vec<_>>().join("\n");
            let pod = endpoint.pod.clone().unwrap_or_default();
            [id.to_string(), fate(endpoint.fate).to_owned(), pod, endpoint.source.clone(), remarks]
        });
        out.table(["ENDPOINT", "FATE", "POD", "FROM", "REMARKS"], rows)?;
    }
    if !report.ipcache_waits_for.is_empty() {
        let ids: Vec<_> = report.ipcache_waits_for.iter().map(ToString::to_string).collect();
        out.line(format!(
            "\nRows of the ipcache that nobody claims stay until these endpoints are built or \
             deleted: {}",
            ids.join(", ")
        ))?;
    }
    for (title, lines) in [
        ("Put aside", &report.quarantined),
        ("Removed, as nobody claimed it", &report.pruned),
        ("Problems", &report.problems),
    ] {
        if !lines.is_empty() {
            out.line(format!("\n{title}:"))?;
            lines.iter().try_for_each(|line| out.line(format!("  {line}")))?;
        }
    }
    Ok(())
}

fn is_noteworthy(endpoint: &EndpointReport) -> bool {
    endpoint.fate != RestoreOutcome::Restored
        || !endpoint.notes.is_empty()
        || endpoint.error.is_some()
}

/// One line that says how the restart went.
pub(super) fn summary(report: &RestoreReport) -> String {
    if report.endpoints.is_empty() {
        let state = if report.finished { "finished" } else { "under way" };
        return format!("{state}: there was nothing to restore");
    }
    let fates = [
        RestoreOutcome::Restored,
        RestoreOutcome::Rebuilt,
        RestoreOutcome::Degraded,
        RestoreOutcome::Failed,
        RestoreOutcome::Pending,
    ];
    let counts = fates
        .into_iter()
        .map(|it| (report.count(it), it))
        .filter(|(number, _)| *number > 0)
        .map(|(number, it)| format!("{number} {}", fate(it)))
        .collect::<Vec<_>>()
        .join(", ");
    let state = if report.finished { "finished" } else { "under way" };
    format!("{state}: {}: {counts}", count(report.endpoints.len(), "endpoint"))
}

fn fate(fate: RestoreOutcome) -> &'static str {
    match fate {
        RestoreOutcome::Pending => "pending",
        RestoreOutcome::Restored => "restored",
        RestoreOutcome::Rebuilt => "rebuilt",
        RestoreOutcome::Degraded => "degraded",
        RestoreOutcome::Failed => "failed",
    }
}
