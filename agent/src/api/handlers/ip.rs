//! `GET /ip`: what the ipcache holds.

use std::net::IpAddr;

use axum::{extract::State, http::Uri};
use ipnet::IpNet;
use volvox_actors::policy::ipcache::IpcacheMsg;
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::IpListEntry;

use super::{
    node::status,
    query::{first, query},
};
use crate::api::Api;

/// Addresses and prefixes with their identities; all, or those within one prefix.
pub(crate) async fn list(State(api): State<Api>, uri: Uri) -> Answer {
    let query = query(&uri)?;
    let within = first(&query, "cidr").map(parse_prefix).transpose()?;
    let mut entries = api.gateway.ask("GET /ip", |node| &node.ipcache, IpcacheMsg::List).await?;
    if let Some(within) = within {
        entries.retain(|prefix, _| within.contains(prefix));
        if entries.is_empty() {
            return Err(ApiError::not_found(format!("no address within {within} is known")));
        }
    }
    let node = status(&api).await?.addresses.first().copied();
    ok(&IpListEntry::list(&entries, node))
}

fn parse_prefix(text: &str) -> Result<IpNet, ApiError> {
    text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).map_err(|_| {
        ApiError::bad_request(format!("cidr: {text:?} is neither a prefix nor an address"))
    })
}
