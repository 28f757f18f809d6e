//! Why something is as it is: who waits for whom, what began a regeneration, which rule drops a
//! packet.

mod dropped;
mod regenerated;
mod traffic;
mod unborn;

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use volvox_actors::{
    host::flight::{Life, RecordedWait},
    model::Timestamp,
};
use volvox_inspect::{
    evidence::{Evidence, Lost},
    flight::boot_id,
    trace::Story,
};
use volvox_rest::{
    RestClient, RestError, escape,
    models::{Endpoint, PruningWait, RootCause, WaitEntry, WaitList, Why},
};

use super::{
    args::{Lifetime, Question},
    error::ClientError,
    named::endpoint_number,
    output::{Output, count, seconds},
    restore::lost_line,
    trace,
};

/// Where answers are found besides the agent.
pub(super) struct Places<'a> {
    pub(super) state_dir: &'a Path,
    pub(super) bpf_root: &'a Path,
}

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    places: &Places<'_>,
    question: &Question,
) -> Result<(), ClientError> {
    let Some(id) = &question.id else {
        return out.answer(&client.get::<WaitList>("/volvox/waits").await?, all);
    };
    if question.regenerated {
        let number = number(client, places.bpf_root, id).await?;
        return regenerated::run(out, places.state_dir, number);
    }
    if question.dropped {
        let number = number(client, places.bpf_root, id).await?;
        return dropped::run(client, out, places.bpf_root, number, question).await;
    }
    if let Some(to) = &question.to {
        return traffic::run(client, out, id, to, question).await;
    }
    let path = format!("/volvox/endpoint/{}/why", escape(id));
    match client.get::<Why>(&path).await {
        Ok(why) => out.answer(&why, one),
        // The dead cannot be asked, but they left a record.
        Err(error @ RestError::Unreachable { .. }) => of_the_dead(out, places, id, error),
        Err(error) if error.status() == Some(404) => {
            let lost = Evidence::at(places.state_dir).lost(&boot_id());
            let is_it = |lost: &&Lost| {
                let name = id.strip_prefix("pod-name:").unwrap_or(id);
                let pod = lost.pod.as_ref();
                let is_pod = pod.is_some_and(|pod| {
                    pod == name || pod.split_once('/').is_some_and(|(_, bare)| bare == name)
                });
                lost.id.to_string() == *id || is_pod
            };
            match lost.iter().rev().find(is_it) {
                Some(lost) => out.answer(lost, |out, lost| out.line(lost_line(lost))),
                None => not_made(client, out, id, error).await,
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// A pod that is asked for and has no endpoint yet, or that nobody knows.
async fn not_made(
    client: &RestClient,
    out: &mut Output<'_>,
    id: &str,
    unknown: RestError,
) -> Result<(), ClientError> {
    let waits = unborn::waits(client, id).await?;
    if waits.is_empty() {
        return Err(unknown.into());
    }
    out.answer(&waits, |out, waits| {
        out.line(format!("{id} has no endpoint yet. What is asked for it:"))?;
        waits.iter().try_for_each(|wait| out.line(format!("  {}", sentence(wait))))
    })
}

/// The endpoint's number, whatever it is called by; the kernel is asked where no agent answers.
async fn number(client: &RestClient, bpf_root: &Path, id: &str) -> Result<u16, ClientError> {
    if let Ok(number) = id.parse() {
        return Ok(number);
    }
    match client.get::<Endpoint>(&format!("/endpoint/{}", escape(id))).await {
        Ok(endpoint) => Ok(endpoint.id),
        Err(RestError::Unreachable { .. }) => endpoint_number(bpf_root, id),
        Err(error) => Err(error.into()),
    }
}

/// So few waits are shown each by itself, too.
const FEW: usize = 8;
/// Of more waits of an endpoint so many, the nearest.
const NEAREST: usize = 3;

fn all(out: &mut Output<'_>, list: &WaitList) -> Result<(), ClientError> {
    list.pruning.iter().try_for_each(|PruningWait { what, whom }| {
        let text =
            format!("Pruning of {what} waits for {whom}: nothing of them is removed before.");
        out.paragraph(&text, 2)
    })?;
    list.unreached.iter().try_for_each(|unreached| out.line(unreached))?;
    if list.waits.is_empty() {
        return out.line("Nobody waits for anybody.");
    }
    list.causes.iter().try_for_each(|cause| out.paragraph(&cause_text(cause), 2))?;
    if list.waits.len() > FEW && !out.is_wide() {
        out.line(format!("`volvox why -o wide` shows each of {} waits.", list.waits.len()))?;
    } else {
        out.line("")?;
        let rows = list.waits.iter().map(|wait| {
            let (since, left) = (seconds(wait.since_seconds), seconds(wait.left_seconds));
            [wait.who.clone(), wait.whom.clone(), wait.why.clone(), since, left]
        });
        out.table(["WHO", "WAITS FOR", "ABOUT", "SINCE", "AT MOST"], rows)?;
    }
    ring(out, &list.cycle)
}

/// What waits come down to, since when, and whom that concerns.
fn cause_text(cause: &RootCause) -> String {
    let what = match (&cause.error, &cause.about) {
        (Some(error), _) => {
            let mut error = error.clone();
            if let Some(first) = error.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            error
        }
        (None, Some(about)) => format!("{} is waited for: {about}", cause.whom),
        (None, None) => format!("{} is waited for", cause.whom),
    };
    let numbers = [
        (cause.sources.len(), "source", ""),
        (cause.keeping.len(), "endpoint", " keep their policy"),
        (cause.endpoints.len(), "endpoint", " wait"),
        (cause.pods, "new pod", " wait"),
        (cause.others.len(), "other", " wait"),
    ];
    let texts =
        numbers.into_iter().filter(|(number, ..)| *number > 0).map(|(number, thing, does)| {
            let does = match (number, does) {
                (1, " keep their policy") => " keeps its policy",
                (1, " wait") => " waits",
                (_, does) => does,
            };
            format!("{}{does}", count(number, thing))
        });
    let whom = texts.collect::<Vec<_>>().join(", ");
    format!(
        "{what}, since {} ({}): {whom}.",
        clock(cause.since_seconds),
        seconds(cause.since_seconds)
    )
}

/// The time of day, UTC, so many seconds ago.
fn clock(ago: f64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let then = now.saturating_sub(Duration::from_secs_f64(ago.max(0.0)));
    let nanos = u64::try_from(then.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(nanos).0.get(11..19).unwrap_or_default().to_owned()
}

fn ring(out: &mut Output<'_>, cycle: &[WaitEntry]) -> Result<(), ClientError> {
    if cycle.is_empty() {
        return Ok(());
    }
    out.line("\nThese wait for each other: none goes on before a deadline passes.")?;
    cycle.iter().try_for_each(|wait| out.line(format!("  {}", sentence(wait))))
}

fn one(out: &mut Output<'_>, why: &Why) -> Result<(), ClientError> {
    let since = seconds(why.since_seconds);
    out.line(format!("Endpoint {} is {} since {since}.", why.id, why.state))?;
    if let Some(error) = &why.last_error {
        out.line(format!("Its last build failed: {error}"))?;
    }
    if let Some(trouble) = &why.not_served {
        out.line(format!("The kernel does not serve it: {trouble}"))?;
    }
    why.policies.iter().try_for_each(|remark| out.line(format!("Of its policies: {remark}")))?;
    why.numbering.iter().try_for_each(|text| out.line(format!("Its number: {text}.")))?;
    if why.chain.is_empty() {
        return out.line("It waits for nobody.");
    }
    let shown = match why.chain.len() {
        all if all <= FEW || out.is_wide() || why.causes.is_empty() => all,
        _ => NEAREST,
    };
    if shown < why.chain.len() {
        why.causes.iter().try_for_each(|cause| out.paragraph(&cause_text(cause), 2))?;
    }
    let nearest = why.chain.iter().take(shown);
    nearest.map(sentence).try_for_each(|text| out.paragraph(&format!("  {text}"), 4))?;
    if shown < why.chain.len() {
        out.line(format!("  and so on: `-o wide` shows each of {} waits.", why.chain.len()))?;
    }
    if !why.building.is_empty() {
        out.line(format!("  build-queue has given its permits to {}", why.building.join(", ")))?;
        let theirs = why.building_waits.iter();
        theirs.map(sentence).try_for_each(|text| out.line(format!("    {text}")))?;
    }
    ring(out, &why.cycle)
}

/// A wait as a sentence.
fn sentence(wait: &WaitEntry) -> String {
    let (since, left) = (seconds(wait.since_seconds), seconds(wait.left_seconds));
    let whom = wait.whom.strip_prefix("port ").unwrap_or(&wait.whom);
    format!("{} waits {since} for {whom}: {}; gives up in {left}", wait.who, wait.why)
}

/// Answers from the recorder of an agent that does not run.
fn of_the_dead(
    out: &mut Output<'_>,
    places: &Places<'_>,
    name: &str,
    unreachable: RestError,
) -> Result<(), ClientError> {
    let Ok(flight) = trace::read(places.state_dir, &Lifetime::Current) else {
        return Err(unreachable.into());
    };
    let story = Story::new(&flight);
    let Ok(endpoint) = trace::endpoint_in(&story, places.bpf_root, name) else {
        return Err(unreachable.into());
    };
    let end = story.end();
    let Some((state, reason, since)) = story.state(endpoint) else {
        return Err(ClientError::NotFound(format!(
            "{unreachable}; and its flight recorder knows no endpoint {endpoint}"
        )));
    };
    let entry = |wait: &RecordedWait| WaitEntry {
        who: wait.who.map_or_else(|| "outside".to_owned(), |cell| story.name(cell).to_string()),
        whom: wait.whom.to_string(),
        why: wait.why.to_string(),
        since_seconds: end.since(wait.since).as_secs_f64(),
        left_seconds: wait.until.since(end).as_secs_f64(),
    };
    let chain: Vec<_> = story.chain(endpoint).into_iter().map(entry).collect();
    let why = Why {
        id: endpoint,
        state: state.to_string(),
        since_seconds: end.since(since).as_secs_f64(),
        chain,
        ..Why::default()
    };
    if out.is_for_programs() {
        return out.value(&why);
    }
    let Life { number, pid, .. } = &flight.life;
    out.line(format!(
        "The agent does not answer. When life {number} (pid {pid}) recorded for the last time:"
    ))?;
    one(out, &why)?;
    match reason.is_empty() {
        true => Ok(()),
        false => out.line(format!("It came into that state because of this: {reason}")),
    }
}
