//! Why something is as it is: who waits for whom, what began a regeneration, which rule drops a
//! packet.

mod dropped;
mod regenerated;
mod unborn;

use std::path::Path;

use volvox_actors::host::flight::{Life, RecordedWait};
use volvox_inspect::{
    evidence::{Evidence, Lost},
    flight::boot_id,
    trace::Story,
};
use volvox_rest::{
    RestClient, RestError, escape,
    models::{Endpoint, PruningWait, WaitEntry, WaitList, Why},
};

use super::{
    args::{Lifetime, Question},
    error::ClientError,
    named::endpoint_number,
    output::{Output, seconds},
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
    let path = format!("/volvox/endpoint/{}/why", escape(id));
    match client.get::<Why>(&path).await {
        Ok(why) => out.answer(&why, one),
        // The dead cannot be asked, but they left a record.
        Err(error @ RestError::Unreachable { .. }) => match endpoint_number(places.bpf_root, id) {
            Ok(number) => of_the_dead(out, places.state_dir, number, error),
            Err(_) => Err(error.into()),
        },
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

fn all(out: &mut Output<'_>, list: &WaitList) -> Result<(), ClientError> {
    list.pruning.iter().try_for_each(|PruningWait { what, whom }| {
        out.line(format!("Pruning of {what} waits for {whom}: nothing of them is removed before."))
    })?;
    list.unreached.iter().try_for_each(|unreached| out.line(unreached))?;
    if list.waits.is_empty() {
        return out.line("Nobody waits for anybody.");
    }
    let rows = list.waits.iter().map(|wait| {
        let (since, left) = (seconds(wait.since_seconds), seconds(wait.left_seconds));
        [wait.who.clone(), wait.whom.clone(), wait.why.clone(), since, left]
    });
    out.table(["WHO", "WAITS FOR", "ABOUT", "SINCE", "AT MOST"], rows)?;
    ring(out, &list.cycle)
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
    why.chain.iter().try_for_each(|wait| out.line(format!("  {}", sentence(wait))))?;
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
    state_dir: &Path,
    endpoint: u16,
    unreachable: RestError,
) -> Result<(), ClientError> {
    let Ok(flight) = trace::read(state_dir, &Lifetime::Current) else {
        return Err(unreachable.into());
    };
    let story = Story::new(&flight);
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
    if out.is_json() {
        return out.json(&why);
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
