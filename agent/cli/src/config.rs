//! `volvox config` and `volvox version`: how the agent is set, and what runs.

use hyper::Method;
use serde::Serialize;
use serde_json::{Map, Value, json};
use volvox_rest::{
    RestClient, RestError,
    models::{Configuration, StatusAnswer},
};

use super::{
    args::{ConfigArguments, VersionArguments},
    endpoint::parse_changes,
    error::ClientError,
    output::Output,
};

/// By this name the mode of enforcement is changed, which is no option of endpoints.
const ENFORCEMENT: &str = "PolicyEnforcement";

/// Shows the configuration, or changes options of all endpoints first.
pub(super) async fn config(
    client: &RestClient,
    out: &mut Output<'_>,
    arguments: &ConfigArguments,
) -> Result<(), ClientError> {
    if !arguments.changes.is_empty() {
        let mut body = Map::new();
        let mut options = Map::new();
        for (name, value) in parse_changes(&arguments.changes)? {
            match name.eq_ignore_ascii_case(ENFORCEMENT) {
                true => drop(body.insert("policy-enforcement".to_owned(), json!(value))),
                false => drop(options.insert(name.to_owned(), json!(value))),
            }
        }
        if !options.is_empty() {
            body.insert("options".to_owned(), Value::Object(options));
        }
        client.send(Method::PATCH, "/config", &[], Some(&Value::Object(body))).await?;
    }
    let found: Configuration = client.get("/config").await?;
    out.answer(&found, |out, found| show(out, found, arguments.all))
}

fn show(out: &mut Output<'_>, found: &Configuration, all: bool) -> Result<(), ClientError> {
    let realized = &found.status.realized;
    let enforcement = (ENFORCEMENT.to_owned(), realized.policy_enforcement.clone());
    let options = realized.options.iter().map(|(name, value)| (name.clone(), value.clone()));
    let options = options.chain([enforcement]).map(|(name, value)| [name, value]);
    out.table(["OPTION", "VALUE"], options)?;
    if all {
        out.line("")?;
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let settings = found.status.daemon_configuration_map.iter();
        out.table(["SETTING", "VALUE"], settings.map(|(name, it)| [name.clone(), text(it)]))?;
    }
    Ok(())
}

/// What runs; the agent's part is missing where none answers.
#[derive(Debug, Serialize)]
struct Versions {
    client: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
}

/// Shows both versions. The agent's is no answer if there is no agent, and that is said by the exit code.
pub(super) async fn version(
    client: &RestClient,
    out: &mut Output<'_>,
    arguments: &VersionArguments,
) -> Result<(), ClientError> {
    let mut versions = Versions { client: env!("VOLVOX_VERSION"), agent: None };
    let mut missing = None;
    if !arguments.client {
        match agent(client).await {
            Ok(version) => versions.agent = Some(version),
            Err(error) => missing = Some(error),
        }
    }
    out.answer(&versions, |out, versions| {
        out.members(&[
            ("Client", versions.client.to_owned()),
            ("Agent", versions.agent.clone().unwrap_or_default()),
        ])
    })?;
    missing.map_or(Ok(()), |error| Err(error.into()))
}

async fn agent(client: &RestClient) -> Result<String, RestError> {
    let headers = [("brief", "true")];
    let answer = client.send(Method::GET, "/healthz", &headers, None::<&Value>).await?;
    let said: StatusAnswer = answer.json()?;
    Ok(said.cilium.version_and_trouble().0.to_owned())
}
