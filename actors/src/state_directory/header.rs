//! The C header form of an endpoint's record (`ep_config.h`), for agents that read no JSON form.

use std::{borrow::Cow, fmt::Write};

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{EndpointRecord, StateError};

/// What marks the line with the data: then base64 of the writer's version, a colon, and base64 of
/// the record's JSON.
const MARK: &str = "CILIUM_BASE64_";

/// The version that wrote it, as a JSON text.
const VERSION: &str = concat!("\"", env!("CARGO_PKG_VERSION"), " volvox\"");

impl EndpointRecord {
    /// The content of `ep_config.h`: `json`, which [`Self::to_json`] gave, behind a comment's line,
    /// for agents that know no other form.
    pub fn to_header(&self, json: &[u8]) -> Vec<u8> {
        write(self, json)
    }

    /// Reads `ep_config.h` or `lxc_config.h`; `file` names it in errors.
    pub fn from_header(file: &str, bytes: &[u8]) -> Result<Self, StateError> {
        Self::from_json(file, &data(file, bytes)?)
    }
}

/// Writes a record, of which `json` is the other form, as a comment in a C header, where older
/// agents look for it.
fn write(record: &EndpointRecord, json: &[u8]) -> Vec<u8> {
    let (version, data) = (BASE64_STANDARD.encode(VERSION), BASE64_STANDARD.encode(json));
    let mut text = format!(
        "/*\n * State of an endpoint, for agents that do not read ep_config.json.\n * {MARK}{version}:{data}\n *\n"
    );
    // Only numbers and addresses: nothing here can end the comment.
    let mut line = |what: &str, value: &dyn std::fmt::Display| {
        writeln!(text, " * {what}: {value}").expect("a String takes everything");
    };
    line("Endpoint", &record.id);
    line("Identity", &record.security.id);
    if let Some(address) = &record.ipv4 {
        line("IPv4 address", address);
    }
    if let Some(address) = &record.ipv6 {
        line("IPv6 address", address);
    }
    line("NodeMAC", &record.node_mac);
    line("PolicyMap", &format_args!("cilium_policy_v2_{:05}", record.id.0));
    text.push_str(" */\n");
    text.into_bytes()
}

/// The version of another agent that wrote a header; `None` of our own.
pub fn writer_of_header(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let (version, _) = text.split_once(MARK)?.1.split_once(':')?;
    let text = String::from_utf8(BASE64_STANDARD.decode(version).ok()?).ok()?;
    let of_ours = text.ends_with("volvox\"");
    let version = text.trim_matches('"').split(' ').next().filter(|_| !of_ours);
    version.map(str::to_owned)
}

/// The record's JSON in a header.
fn data(file: &str, bytes: &[u8]) -> Result<Vec<u8>, StateError> {
    let bad = |cause| StateError::Header { file: file.to_owned(), cause };
    let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
    let line = text
        .lines()
        .find_map(|line| Some(line.split_once(MARK)?.1))
        .ok_or_else(|| bad("no line holds CILIUM_BASE64_"))?;
    let (_, data) =
        line.trim_end().split_once(':').ok_or_else(|| bad("the line of data has no colon"))?;
    if data.contains(':') {
        return Err(bad("the line of data has more than one colon"));
    }
    BASE64_STANDARD.decode(data).map_err(|_| bad("the line of data is torn or no base64"))
}
