//! `volvox status --wait`: until the agent is well and has restored what it had.

use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::Value;
use volvox_actors::restore::RestoreReport;
use volvox_rest::{RestClient, RestError, models::StatusAnswer};

use crate::{error::ClientError, output::seconds};

const PAUSE: Duration = Duration::from_millis(500);

/// Comes back once it is well; fails with what was wrong last.
pub(super) async fn wait(client: &RestClient, longest: Duration) -> Result<(), ClientError> {
    let deadline = Instant::now() + longest;
    loop {
        let wrong = match look(client).await {
            Ok(None) => return Ok(()),
            Ok(Some(wrong)) => ClientError::Failed(format!(
                "after {} the agent is not well: {wrong}; `volvox status` says more",
                seconds(longest.as_secs_f64())
            )),
            // An agent that starts cannot be reached yet.
            Err(error) => error.into(),
        };
        if Instant::now() >= deadline {
            return Err(wrong);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What is wrong, if anything is.
async fn look(client: &RestClient) -> Result<Option<String>, RestError> {
    let headers = [("brief", "true")];
    let answer = client.send(Method::GET, "/healthz", &headers, None::<&Value>).await?;
    let StatusAnswer { cilium, .. } = answer.json()?;
    if cilium.state != "Ok" {
        // The version comes first.
        let mut said = cilium.msg.split("; ").skip(1);
        let (first, more) = (said.next().unwrap_or_default(), said.next().map_or("", |_| "; …"));
        return Ok(Some(format!("{}: {first}{more}", cilium.state)));
    }
    let restore: RestoreReport = client.get("/volvox/restore").await?;
    Ok((!restore.finished).then(|| "it restores endpoints".to_owned()))
}
