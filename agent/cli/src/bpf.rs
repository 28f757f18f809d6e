//! `volvox bpf`: tables of what the kernel's maps hold. It reads the maps itself, without the
//! agent.

mod counters;
mod load_balancing;

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;
use volvox_actors::model::{Direction, EndpointId, PolicyEntry, PolicyKey};
use volvox_maps::{DatapathError, Dump, Peer};
use volvox_rest::models::{last_port, protocol_name};

use super::{
    args::{BpfCommand, FlowsCommand, LbCommand, ListCommand, PolicyListCommand},
    confirm::confirm,
    error::ClientError,
    named::endpoint_number,
    output::{Output, count},
};

pub(super) fn run(
    out: &mut Output<'_>,
    bpf_root: &Path,
    command: BpfCommand,
) -> Result<(), ClientError> {
    let dump = Dump::at(bpf_root);
    match command {
        BpfCommand::Lxc(ListCommand::List) => lxc(out, &dump),
        BpfCommand::Ipcache(ListCommand::List) => ipcache(out, &dump),
        BpfCommand::Policy(PolicyListCommand::List { id }) => {
            let id = id.map(|id| endpoint_number(bpf_root, &id)).transpose()?;
            policy(out, &dump, id)
        }
        BpfCommand::Ct(FlowsCommand::List) => connections(out, &dump),
        BpfCommand::Ct(FlowsCommand::Flush { yes }) => {
            let warning = "Every connection on this node will be forgotten: one that policy would not let \
                           begin now is cut off.";
            flush(out, yes, (warning, "connection"), || dump.flush_connections())
        }
        BpfCommand::Nat(FlowsCommand::List) => translations(out, &dump),
        BpfCommand::Nat(FlowsCommand::Flush { yes }) => {
            let warning =
                "Every connection that leaves this node with the node's address will be cut off.";
            flush(out, yes, (warning, "translation"), || dump.flush_translations())
        }
        BpfCommand::Metrics(ListCommand::List) => counters::list(out, &dump),
        BpfCommand::Lb(LbCommand::List(tables)) => load_balancing::list(out, &dump, tables),
    }
}

/// Removes rows, once that is confirmed.
fn flush(
    out: &mut Output<'_>,
    yes: bool,
    (warning, what): (&str, &str),
    flush: impl FnOnce() -> Result<usize, DatapathError>,
) -> Result<(), ClientError> {
    if !yes {
        confirm(warning)?;
    }
    let flushed = flush()?;
    let answer = serde_json::json!({ "flushed": flushed });
    out.answer(&answer, |out, _| out.line(format!("{} removed.", count(flushed, what))))
}

fn lxc(out: &mut Output<'_>, dump: &Dump) -> Result<(), ClientError> {
    out.answer(&dump.lxc()?, |out, rows| {
        let rows = rows.iter().map(|(address, row)| match row.endpoint {
            0 => [address.to_string(), "(the node)".into(), "".into(), "".into(), "".into()],
            endpoint => [
                address.to_string(),
                endpoint.to_string(),
                row.identity.to_string(),
                row.ifindex.to_string(),
                format!("{} (host side {})", row.mac, row.node_mac),
            ],
        });
        out.table(["ADDRESS", "ENDPOINT", "IDENTITY", "INTERFACE", "MAC"], rows)
    })
}

fn ipcache(out: &mut Output<'_>, dump: &Dump) -> Result<(), ClientError> {
    out.answer(&dump.ipcache()?, |out, rows| {
        let rows = rows.iter().map(|(prefix, row)| {
            let tunnel = row.tunnel.map(|ip| ip.to_string()).unwrap_or_default();
            [prefix.to_string(), row.identity.to_string(), tunnel]
        });
        out.table(["PREFIX", "IDENTITY", "TUNNEL"], rows)
    })
}

/// A row of a policy map.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct PolicyRow {
    endpoint: EndpointId,
    #[serde(flatten)]
    key: PolicyKey,
    #[serde(flatten)]
    entry: PolicyEntry,
}

fn policy(out: &mut Output<'_>, dump: &Dump, id: Option<u16>) -> Result<(), ClientError> {
    let endpoints = match id {
        Some(id) => vec![EndpointId(id)],
        None => {
            let ids = dump.config()?.into_values().map(|row| (row.endpoint, ()));
            ids.collect::<BTreeMap<_, _>>().into_keys().collect()
        }
    };
    let mut all = Vec::new();
    for endpoint in endpoints {
        match dump.policy(endpoint)? {
            Some(rows) => {
                all.extend(rows.into_iter().map(|(key, entry)| PolicyRow { endpoint, key, entry }))
            }
            // One that is being deleted just now has none; one that was asked for must have.
            None if id.is_none() => {}
            None => {
                return Err(ClientError::NotFound(format!(
                    "endpoint {endpoint} has no policy map"
                )));
            }
        }
    }
    out.answer(&all, |out, rows| {
        let headings = ["ENDPOINT", "DIRECTION", "PEER", "PROTOCOL", "PORT", "VERDICT", "COOKIE"];
        out.table(headings, rows.iter().map(policy_columns))
    })
}

fn policy_columns(PolicyRow { endpoint, key, entry }: &PolicyRow) -> [String; 7] {
    let port = match key.bits {
        0..=8 => "any".to_owned(),
        bits => match last_port(key.port, bits) {
            None => key.port.to_string(),
            Some(last) => format!("{}-{last}", key.port),
        },
    };
    [
        endpoint.to_string(),
        match key.direction {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        }
        .to_owned(),
        if key.identity.0 == 0 { "any".to_owned() } else { key.identity.to_string() },
        if key.bits == 0 { "any".to_owned() } else { protocol_name(key.protocol) },
        port,
        if entry.deny { "deny" } else { "allow" }.to_owned(),
        if entry.cookie == 0 { String::new() } else { format!("{:08x}", entry.cookie) },
    ]
}

fn connections(out: &mut Output<'_>, dump: &Dump) -> Result<(), ClientError> {
    out.answer(&dump.connections()?, |out, rows| {
        let rows = rows.iter().map(|row| {
            [
                protocol_name(row.protocol),
                row.direction.to_owned(),
                peer(&row.from),
                peer(&row.to),
                row.identity.to_string(),
                row.lifetime.to_string(),
            ]
        });
        out.table(["PROTOCOL", "DIRECTION", "FROM", "TO", "IDENTITY", "EXPIRES"], rows)
    })
}

fn translations(out: &mut Output<'_>, dump: &Dump) -> Result<(), ClientError> {
    out.answer(&dump.translations()?, |out, rows| {
        let rows = rows.iter().map(|row| {
            let (source, destination) = match row.direction {
                "out" => (peer(&row.becomes), String::new()),
                _ => (String::new(), peer(&row.becomes)),
            };
            [protocol_name(row.protocol), peer(&row.from), peer(&row.to), source, destination]
        });
        out.table(["PROTOCOL", "FROM", "TO", "SOURCE BECOMES", "DESTINATION BECOMES"], rows)
    })
}

fn peer(peer: &Peer) -> String {
    std::net::SocketAddr::new(peer.address, peer.port).to_string()
}
