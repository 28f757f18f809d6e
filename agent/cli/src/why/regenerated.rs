//! `volvox why` of a regeneration: the messages that led to it, from the flight recorder.

use std::path::Path;

use serde_json::json;
use volvox_actors::host::flight::What;
use volvox_inspect::trace::{Story, lines};

use crate::{args::Lifetime, error::ClientError, output::Output, trace};

/// Says what the last regeneration of an endpoint came from, back to the outside event.
pub(super) fn run(
    out: &mut Output<'_>,
    state_dir: &Path,
    endpoint: u16,
) -> Result<(), ClientError> {
    let flight = trace::read(state_dir, &Lifetime::Current)?;
    let story = Story::new(&flight);
    let Some(regenerated) = story.regenerated(endpoint) else {
        return Err(ClientError::NotFound(format!(
            "the flight recorder of this life knows no regeneration of endpoint {endpoint}: it was \
             long ago, or in the life before (`volvox trace --life previous --endpoint {endpoint}`)"
        )));
    };
    if out.is_for_programs() {
        return out.value(&json!({
            "endpoint": endpoint,
            "at-unix-ns": story.wall(regenerated.at),
            "why": regenerated.why,
            "root": regenerated.root,
            "messages": regenerated.messages,
        }));
    }
    let shown = lines(&story, &regenerated.messages);
    let when = shown.last().map_or("a moment", |line| line.time.as_str());
    out.line(format!("Endpoint {endpoint} was last regenerated at {when}: {}", regenerated.why))?;
    match &regenerated.root {
        Some(root) => out.line(format!("It began outside, with: {root}"))?,
        None => out.line("What it began with is overwritten in the record.")?,
    }
    let complete = regenerated
        .messages
        .first()
        .is_some_and(|first| matches!(&first.what, What::Message { cause, .. } if cause.0 == 0));
    if !complete {
        out.line("Some messages in between are overwritten.")?;
    }
    let rows = shown.into_iter().map(|line| [line.time, line.actor, line.what]);
    out.table(["TIME", "ACTOR", "WHAT"], rows)
}
