//! For the fuzzer (`testbed/fuzz`): what others write, by one function, which takes bytes and panics over
//! what must not be. Nothing else is for it to be called from elsewhere.

use prost::Message;

use crate::{
    decode::flow,
    filter::{Filters, Words},
    json::{from_json, parse_moment, to_json},
    mask::Mask,
    messages::{FlowFilter, GetFlowsRequest, GetFlowsResponse},
    names::{Names, Node},
    ring::{Content, Ring, Stored},
    schema::{FLOW_FILTER, FLOWS_RESPONSE},
};

/// What runs a parser over bytes.
pub type Parser = fn(&[u8]);

/// What can be fuzzed, by name.
pub const TARGETS: &[(&str, Parser)] = &[("flows", flows)];

/// Records of the datapath, requests, filters in JSON, and files of names: the first byte says which.
pub fn flows(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    match first % 4 {
        0 => record(rest),
        1 => request(rest),
        2 => json(rest),
        _ => {
            let mut names = Names::new(Node::default());
            names.restore_bytes(rest);
            names.forget_before(1 << 60);
            names.to_keep();
        }
    }
}

fn record(bytes: &[u8]) {
    let content = Content::Record { cookie: 1, bytes: bytes.to_vec() };
    let stored = Stored { number: 1, time: 1, cpu: 0, content };
    let ring = Ring::in_memory(1);
    let Some(flow) = flow(&stored, &ring, &Names::new(Node::default())) else { return };
    let encoded = flow.encode_to_vec();
    to_json(&crate::schema::FLOW, &encoded);
    let all: Vec<String> = vec!["source.ID".into(), "l4.TCP.flags".into(), "time".into()];
    let mask = Mask::of_flow(&all).ok().flatten().map(|mask| mask.apply(&encoded));
    assert!(mask.is_some_and(|kept| kept.len() <= encoded.len()));
}

fn request(bytes: &[u8]) {
    let Ok(request) = GetFlowsRequest::decode(bytes) else { return };
    let paths = request.field_mask.unwrap_or_default().paths;
    if let Ok(Some(mask)) = Mask::of_flow(&paths) {
        mask.apply(bytes);
    }
    if let Ok(filters) = Filters::new(&request.whitelist, &request.blacklist) {
        filters.pass(&crate::messages::Flow::default());
    }
    to_json(&FLOWS_RESPONSE, bytes);
}

fn json(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    parse_moment(text);
    if let Ok(words) = Words::parse(text) {
        words.pass(&crate::messages::Flow::default());
    }
    let Ok(value) = serde_json::from_str(text) else { return };
    if let Ok(bytes) = from_json(&FLOW_FILTER, &value) {
        assert!(FlowFilter::decode(&*bytes).is_ok(), "what JSON says is a message");
    }
    if let Ok(bytes) = from_json(&FLOWS_RESPONSE, &value) {
        assert!(GetFlowsResponse::decode(&*bytes).is_ok(), "what JSON says is a message");
    }
}

#[cfg(test)]
mod tests;
