//! Applies objects in order, says what became of each, and removes what an older version had.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};
use volvox_packaging::{MANAGED_BY, MANAGER};

use crate::{
    InstallError, Say,
    kinds::{DEFINITION, KINDS, named, path},
    server::{How, Refusal, Server},
};

/// The label of a definition that says of which version its schema is.
const SCHEMA: &str = "io.cilium.k8s.crd.schema.version";
/// How long the server may take to serve a kind that was defined.
const DEFINED_PATIENCE: Duration = Duration::from_secs(60);
/// How often it is asked whether it does.
const DEFINED_PAUSE: Duration = Duration::from_millis(200);

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Created,
    Changed,
    Unchanged,
    /// A definition of somebody else, which is as new or newer.
    Left,
}

/// Applies all, definitions first; waits until the server serves what is defined. What the server
/// refuses is refused before anything is changed.
pub(crate) async fn apply_all(
    server: &Server,
    objects: &[Value],
    force: bool,
    say: Say<'_>,
) -> Result<(), InstallError> {
    for object in objects {
        apply(server, object, How { force, rehearse: true }, &mut |_| ()).await?;
    }
    let how = How { force, rehearse: false };
    let is_definition = |it: &&Value| it["kind"] == DEFINITION.name;
    let mut counts = [0_usize; 4];
    for object in objects.iter().filter(is_definition) {
        counts[apply(server, object, how, say).await? as usize] += 1;
    }
    let [created, changed, unchanged, left] = counts;
    say(&format!(
        "definitions: {created} created, {changed} changed, {unchanged} unchanged, {left} left"
    ));
    for definition in objects.iter().filter(is_definition) {
        established(server, definition).await?;
    }
    for object in objects.iter().filter(|it| !is_definition(it)) {
        let word = match apply(server, object, how, say).await? {
            Outcome::Created => "created",
            Outcome::Changed => "changed",
            Outcome::Unchanged | Outcome::Left => "unchanged",
        };
        say(&format!("{}: {word}", named(object)));
    }
    Ok(())
}

async fn apply(
    server: &Server,
    object: &Value,
    how: How,
    say: Say<'_>,
) -> Result<Outcome, InstallError> {
    let there = server.get(&path(object).unwrap_or_default()).await?;
    let ours = |it: &Value| it["metadata"]["labels"][MANAGED_BY] == MANAGER;
    let is_ours = there.as_ref().is_some_and(ours);
    if let Some(there) = &there
        && object["kind"] == DEFINITION.name
        && leaves(there, object, is_ours, say)
    {
        return Ok(Outcome::Left);
    }
    let version = |it: &Value| it["metadata"]["resourceVersion"].clone();
    let applied = match server.apply(object, how).await {
        Err(Refusal::Conflict(fields)) if is_ours => {
            say(&format!("{}: taken back from others: {}", named(object), fields.join(", ")));
            server.apply(object, How { force: true, ..how }).await
        }
        applied => applied,
    };
    let now = applied.map_err(|refusal| match refusal {
        Refusal::Conflict(fields) => InstallError::Conflict { object: named(object), fields },
        Refusal::Error(error) => error,
    })?;
    Ok(match there {
        None => Outcome::Created,
        Some(there) if version(&there) == version(&now) => Outcome::Unchanged,
        Some(_) => Outcome::Changed,
    })
}

/// Whether a definition stays as it is: it is newer, or of somebody else and as new.
fn leaves(there: &Value, wanted: &Value, is_ours: bool, say: Say<'_>) -> bool {
    let text = |it: &Value| it["metadata"]["labels"][SCHEMA].as_str().map(str::to_owned);
    let (Some(theirs), Some(our)) = (text(there), text(wanted)) else { return false };
    let (newer, as_new) = (numbers(&theirs) > numbers(&our), numbers(&theirs) == numbers(&our));
    if newer {
        say(&format!("{}: left, its schema {theirs} is newer than {our}", named(wanted)));
    }
    newer || as_new && !is_ours
}

/// A version as numbers that can be compared.
fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map(|part| part.parse().unwrap_or_default()).collect()
}

/// Waits until the server serves a kind.
async fn established(server: &Server, definition: &Value) -> Result<(), InstallError> {
    let until = Instant::now() + DEFINED_PATIENCE;
    let path = path(definition).unwrap_or_default();
    loop {
        let now = server.get(&path).await?.unwrap_or_default();
        let conditions = now["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let holds = |kind: &str| conditions.iter().find(|it| it["type"] == kind);
        if holds("Established").is_some_and(|it| it["status"] == "True") {
            return Ok(());
        }
        if Instant::now() > until {
            let why = holds("NamesAccepted").or_else(|| holds("Established"));
            let why = why.and_then(|it| it["message"].as_str()).unwrap_or("it does not say why");
            return Err(InstallError::Refused(format!(
                "the API server does not serve {} ({why}): see kubectl describe",
                named(definition)
            )));
        }
        sleep(DEFINED_PAUSE).await;
    }
}

/// Removes objects of ours that are not among those any more. Definitions stay: with one of them
/// all its objects would go.
pub(crate) async fn prune(
    server: &Server,
    objects: &[Value],
    say: Say<'_>,
) -> Result<(), InstallError> {
    for kind in KINDS.into_iter().filter(|kind| *kind != DEFINITION) {
        for object in server.ours(kind).await? {
            if !objects.iter().any(|it| path(it) == path(&object)) {
                server.delete(&object).await?;
                say(&format!("{}: removed, this version does not have it", named(&object)));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("1.32.10") > numbers("1.32.6"));
        assert!(numbers("1.32") < numbers("1.32.6"));
    }
}
