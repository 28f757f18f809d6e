//! `volvox endpoint`: shows endpoints, and changes, regenerates or disconnects one.

use std::collections::BTreeMap;

use hyper::Method;
use serde_json::{Value, json};
use volvox_rest::{
    RestClient, RestError, escape,
    models::{
        ConfigurationAnswer, Endpoint, EndpointHealth, LabelsAnswer, Regenerated, StatusChange,
    },
};

use super::{
    args::{BuildLevel, EndpointCommand},
    confirm::confirm,
    endpoint_text::{configuration, endpoint, labels, log},
    error::ClientError,
    output::{Output, list},
};

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    command: EndpointCommand,
) -> Result<(), ClientError> {
    use EndpointCommand::{Config, Disconnect, Get, Health, Labels, List, Log, Regenerate};
    match command {
        List { listing, labels } => {
            let path = format!("/endpoint{}", label_query(&labels));
            list(out, &listing, async || none_is_empty(client.get::<Vec<Endpoint>>(&path).await))
                .await
        }
        Get { endpoint: name } => {
            let found: Endpoint = client.get(&path(&name.id, "")).await?;
            out.answer(&found, endpoint)
        }
        Log { endpoint } => {
            let entries: Vec<StatusChange> = client.get(&path(&endpoint.id, "/log")).await?;
            out.answer(&entries, |out, entries| log(out, entries))
        }
        Health { endpoint } => {
            let health: EndpointHealth = client.get(&path(&endpoint.id, "/healthz")).await?;
            out.answer(&health, |out, health| {
                out.members(&[
                    ("Overall", health.overall_health.clone()),
                    ("Programs", health.bpf.clone()),
                    ("Policy", health.policy.clone()),
                    ("Connected", health.connected.to_string()),
                ])
            })
        }
        Regenerate { endpoint, level } => regenerate(client, out, &endpoint.id, level).await,
        Disconnect { endpoint, yes } => disconnect(client, out, &endpoint.id, yes).await,
        Labels { endpoint, set } => {
            if let Some(user) = set {
                let body = json!({"user": user});
                client
                    .send(Method::PATCH, &path(&endpoint.id, "/labels"), &[], Some(&body))
                    .await?;
            }
            let answer: LabelsAnswer = client.get(&path(&endpoint.id, "/labels")).await?;
            out.answer(&answer, labels)
        }
        Config { endpoint, changes } => {
            if !changes.is_empty() {
                let body = json!({"options": parse_changes(&changes)?});
                client
                    .send(Method::PATCH, &path(&endpoint.id, "/config"), &[], Some(&body))
                    .await?;
            }
            let answer: ConfigurationAnswer = client.get(&path(&endpoint.id, "/config")).await?;
            out.answer(&answer, configuration)
        }
    }
}

async fn regenerate(
    client: &RestClient,
    out: &mut Output<'_>,
    id: &str,
    level: BuildLevel,
) -> Result<(), ClientError> {
    let level = match level {
        BuildLevel::Load => "load",
        BuildLevel::Rewrite => "rewrite",
        BuildLevel::Rebuild => "rebuild",
    };
    let path = format!("/volvox/endpoint/{}/regenerate?level={level}", escape(id));
    let answer = client.send(Method::POST, &path, &[], None::<&Value>).await?;
    let built: Regenerated = answer.json()?;
    out.answer(&built, |out, Regenerated { endpoint, repaired }| {
        let (id, state) = (endpoint.id, &endpoint.status.state);
        out.line(format!("Endpoint {id} is built again; it is {state}."))?;
        match repaired.as_slice() {
            [] => out.line("All rows were as they are to be."),
            all => all.iter().try_for_each(|it| out.line(format!("Repaired {}.", it.text))),
        }
    })
}

async fn disconnect(
    client: &RestClient,
    out: &mut Output<'_>,
    id: &str,
    yes: bool,
) -> Result<(), ClientError> {
    let found: Endpoint = client.get(&path(id, "")).await?;
    let pod = &found.status.external_identifiers.pod_name;
    if !yes {
        confirm(&format!("Endpoint {} ({pod}) will be cut off from the network.", found.id))?;
    }
    let number = found.id.to_string();
    let answer = client.send(Method::DELETE, &path(&number, ""), &[], None::<&Value>).await?;
    let leftovers: u32 = if answer.body.is_empty() { 0 } else { answer.json()? };
    out.answer(&json!({"id": found.id, "leftovers": leftovers}), |out, _| match leftovers {
        0 => out.line(format!("Endpoint {number} is deleted.")),
        _ => out.line(format!(
            "Endpoint {number} is deleted, but {leftovers} of its things could not be removed; \
             the agent's log names them."
        )),
    })
}

pub(super) fn parse_changes(changes: &[String]) -> Result<BTreeMap<&str, &str>, ClientError> {
    changes
        .iter()
        .map(|change| {
            change.split_once('=').ok_or_else(|| {
                ClientError::Usage(format!("{change:?} is no change: write OPTION=VALUE"))
            })
        })
        .collect()
}

/// The API has no list of what nobody is in: it says that there is none.
pub(super) fn none_is_empty<T>(answer: Result<Vec<T>, RestError>) -> Result<Vec<T>, ClientError> {
    match answer {
        Err(error) if error.status() == Some(404) => Ok(Vec::new()),
        answer => Ok(answer?),
    }
}

/// The query that narrows a list to these labels.
pub(super) fn label_query(labels: &[String]) -> String {
    let pairs: Vec<_> = labels.iter().map(|label| format!("labels={}", escape(label))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

fn path(id: &str, part: &str) -> String {
    format!("/endpoint/{}{part}", escape(id))
}
