use volvox_actors::restore::{EndpointReport, Fate, RestoreReport};

use super::{
    args::RestoreCommand,
    error::ClientError,
    output::{Output, count, seconds},
};
use crate::rest_client::RestClient;

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    command: RestoreCommand,
) -> Result<(), ClientError> {
    let RestoreCommand::Report = command;
    out.answer(&client.get::<RestoreReport>("/volvox/restore").await?, report)
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
            [id.to_string(), fate(endpoint.fate).to_owned(), endpoint.source.clone(), remarks]
        });
        out.table(["ENDPOINT", "FATE", "FROM", "REMARKS"], rows)?;
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
    endpoint.fate != Fate::Restored || !endpoint.notes.is_empty() || endpoint.error.is_some()
}

/// One line that says how the restart went.
pub(super) fn summary(report: &RestoreReport) -> String {
    if report.endpoints.is_empty() {
        let state = if report.finished { "finished" } else { "under way" };
        return format!("{state}: there was nothing to restore");
    }
    let fates = [Fate::Restored, Fate::Rebuilt, Fate::Degraded, Fate::Failed, Fate::Pending];
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

fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Pending => "pending",
        Fate::Restored => "restored",
        Fate::Rebuilt => "rebuilt",
        Fate::Degraded => "degraded",
        Fate::Failed => "failed",
    }
}
