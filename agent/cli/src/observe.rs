//! Flows: who sends what to whom, and what becomes of it. It asks as Hubble's own client does, and shows
//! what that shows.

mod args;
#[cfg(test)]
mod tests;
mod text;

use std::path::{Path, PathBuf};

use prost::Message;
use volvox_hubble::{
    client::{HubbleAnswers, HubbleClient, HubbleClientError},
    filter::{FlagError, flag_filters},
    json::{parse_moment, to_json},
    messages::{FieldMask, GetEventsRequest, GetFlowsRequest, GetFlowsResponse, Timestamp, now},
    schema::{AGENT_EVENTS_RESPONSE, FLOWS_RESPONSE, Schema},
};
use volvox_system::duration::parse_duration;

pub(super) use self::args::ObserveArguments;
use self::{args::Span, text::Writer};
use super::{
    error::ClientError,
    output::{Format, Output},
};

/// Name of Hubble's socket, beside the API's.
const SOCKET: &str = "hubble.sock";
/// How many flows are shown of themselves.
const LAST: u64 = 20;
/// What is asked of each flow that is shown to people.
const MASK: [&str; 23] = [
    "time",
    "verdict",
    "ethernet",
    "IP",
    "l4",
    "source.identity",
    "source.namespace",
    "source.pod_name",
    "source.labels",
    "destination.identity",
    "destination.namespace",
    "destination.pod_name",
    "destination.labels",
    "Type",
    "node_name",
    "event_type",
    "source_service",
    "destination_service",
    "is_reply",
    "Summary",
    "traffic_direction",
    "policy_match_type",
    "drop_reason_desc",
];
/// And of policies.
const POLICY_MASK: [&str; 4] =
    ["egress_allowed_by", "ingress_allowed_by", "egress_denied_by", "ingress_denied_by"];

/// Shows what was asked for.
pub(super) async fn run(
    api: &Path,
    out: &mut Output<'_>,
    format: &Format,
    arguments: &ObserveArguments,
) -> Result<(), ClientError> {
    let socket = match &arguments.server {
        Some(server) => PathBuf::from(server.strip_prefix("unix://").unwrap_or(server)),
        None => api.with_file_name(SOCKET),
    };
    let client = HubbleClient::connect(&socket).await?;
    if arguments.agent_events {
        let request = events_request(&arguments.span)?;
        return show_events(client.agent_events(&request).await?, out, format).await;
    }
    let request = request(arguments, format)?;
    let mut answers = client.flows(&request).await?;
    let mut writer = Writer::new(format.clone(), arguments.print_policy_names);
    while let Some(bytes) = answers.next().await? {
        if is_json(format) {
            json_line(out, &FLOWS_RESPONSE, &bytes)?;
            continue;
        }
        let response = GetFlowsResponse::decode(&*bytes);
        let response = response.map_err(|error| ClientError::Failed(error.to_string()))?;
        for line in writer.lines(&response) {
            out.line(line)?;
        }
        out.flush()?;
    }
    Ok(())
}

fn is_json(format: &Format) -> bool {
    format.is_for_programs()
}

fn json_line(
    out: &mut Output<'_>,
    schema: &'static Schema,
    bytes: &[u8],
) -> Result<(), ClientError> {
    out.record(&to_json(schema, bytes))
}

async fn show_events(
    mut answers: HubbleAnswers,
    out: &mut Output<'_>,
    format: &Format,
) -> Result<(), ClientError> {
    while let Some(bytes) = answers.next().await? {
        if is_json(format) {
            json_line(out, &AGENT_EVENTS_RESPONSE, &bytes)?;
        } else {
            out.line(text::agent_event(&to_json(&AGENT_EVENTS_RESPONSE, &bytes)))?;
            out.flush()?;
        }
    }
    Ok(())
}

/// The request that the arguments mean.
fn request(arguments: &ObserveArguments, format: &Format) -> Result<GetFlowsRequest, ClientError> {
    let (whitelist, blacklist) = flag_filters(&arguments.filters)?;
    let GetEventsRequest { number, follow, since, until, first } = events_request(&arguments.span)?;
    let mut paths: Vec<String> = MASK.iter().map(|path| (*path).to_owned()).collect();
    if arguments.print_policy_names {
        paths.extend(POLICY_MASK.iter().map(|path| (*path).to_owned()));
    }
    let field_mask = (!is_json(format)).then_some(FieldMask { paths });
    Ok(GetFlowsRequest { number, follow, blacklist, whitelist, since, until, first, field_mask })
}

fn events_request(span: &Span) -> Result<GetEventsRequest, ClientError> {
    let moment = |flag: &str, text: &Option<String>| {
        text.as_ref().map(|text| read_moment(flag, text)).transpose()
    };
    let (since, until) = (moment("since", &span.since)?, moment("until", &span.until)?);
    let number = match (span.last, span.first, span.all) {
        (Some(number), ..) | (_, Some(number), _) => number,
        (.., true) => u64::MAX,
        _ if span.follow || since.is_some() || until.is_some() => 0,
        _ => LAST,
    };
    Ok(GetEventsRequest {
        number,
        follow: span.follow,
        since,
        until: until.filter(|_| !span.follow),
        first: span.first.is_some(),
    })
}

/// A time ago, `5m`, or a moment, `2026-11-28T09:30:00Z` or a part of it.
fn read_moment(flag: &str, text: &str) -> Result<Timestamp, ClientError> {
    if let Ok(ago) = parse_duration(text) {
        let ago = u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX);
        return Ok(Timestamp::from_nanoseconds(now().saturating_sub(ago)));
    }
    parse_moment(text).ok_or_else(|| {
        ClientError::Usage(format!(
            "--{flag}={text}: neither a time ago, as 5m, nor a moment, as 2026-11-28T09:30:00Z"
        ))
    })
}

impl From<FlagError> for ClientError {
    fn from(error: FlagError) -> Self {
        Self::Usage(format!("--{error}"))
    }
}

impl From<HubbleClientError> for ClientError {
    fn from(error: HubbleClientError) -> Self {
        match error {
            HubbleClientError::Refused(text) => Self::Usage(text),
            HubbleClientError::Unreachable { .. } => Self::Unreachable(error.to_string()),
            HubbleClientError::Failed(_) => Self::Failed(error.to_string()),
        }
    }
}
