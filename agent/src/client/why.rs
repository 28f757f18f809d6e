use super::{
    error::ClientError,
    output::{Output, seconds},
};
use crate::{
    api::models::{WaitEntry, WaitList, Why},
    rest_client::{RestClient, escape},
};

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    id: Option<&str>,
) -> Result<(), ClientError> {
    match id {
        None => out.answer(&client.get::<WaitList>("/volvox/waits").await?, all),
        Some(id) => {
            let path = format!("/volvox/endpoint/{}/why", escape(id));
            out.answer(&client.get::<Why>(&path).await?, one)
        }
    }
}

fn all(out: &mut Output<'_>, list: &WaitList) -> Result<(), ClientError> {
    if list.waits.is_empty() {
        return out.line("Nobody waits for anybody.");
    }
    table(out, &list.waits)?;
    if !list.cycle.is_empty() {
        out.line("\nThese wait for each other: none goes on before a deadline passes.")?;
        table(out, &list.cycle)?;
    }
    Ok(())
}

fn one(out: &mut Output<'_>, why: &Why) -> Result<(), ClientError> {
    let since = seconds(why.since_seconds);
    out.line(format!("Endpoint {} is {} since {since}.", why.id, why.state))?;
    if let Some(error) = &why.last_error {
        out.line(format!("Its last build failed: {error}"))?;
    }
    match why.chain.is_empty() {
        true => out.line("It waits for nobody."),
        false => table(out, &why.chain),
    }
}

fn table(out: &mut Output<'_>, waits: &[WaitEntry]) -> Result<(), ClientError> {
    let rows = waits.iter().map(|wait| {
        let (since, left) = (seconds(wait.since_seconds), seconds(wait.left_seconds));
        [wait.who.clone(), wait.whom.clone(), wait.why.clone(), since, left]
    });
    out.table(["WHO", "WAITS FOR", "ABOUT", "SINCE", "AT MOST"], rows)
}
