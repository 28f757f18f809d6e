//! `volvox why` of a packet: looks it up in the policy maps and the ipcache as the datapath does.
//! The agent is asked only for the places where the rules are written.

use std::{collections::BTreeMap, net::IpAddr, path::Path};

use serde::Serialize;
use volvox_actors::{
    model::{Direction, EndpointId, IdentityId},
    policy::rules::{ClauseOrigin, Verdict, lookup},
};
use volvox_maps::Dump;
use volvox_rest::{RestClient, models::protocol_name};

use crate::{
    args::{Protocol, Question},
    error::ClientError,
    output::Output,
};

/// What the kernel's maps say of a packet at one endpoint.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Judged {
    endpoint: EndpointId,
    direction: Direction,
    peer: IpAddr,
    peer_identity: IdentityId,
    protocol: u8,
    port: u16,
    /// `allowed`, `denied`, `no-match` or `not-programmed`.
    verdict: &'static str,
    /// Where the rules behind it are written, as far as the agent says.
    origins: Vec<String>,
}

/// Says what the maps in force make of a packet, and by which rule.
pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    bpf_root: &Path,
    endpoint: u16,
    question: &Question,
) -> Result<(), ClientError> {
    let (direction, peer) = match (question.from, &question.to) {
        (Some(from), _) => (Direction::Ingress, from),
        (_, Some(to)) => (Direction::Egress, address(to)?),
        _ => {
            return Err(ClientError::Usage(
                "say which packet: `--from ADDRESS` or `--to ADDRESS`, and `--port`; drops as they \
                 happen are shown by `volvox monitor --type drop`"
                    .to_owned(),
            ));
        }
    };
    let dump = Dump::at(bpf_root);
    // Without an agent the rules' names are not known; their verdict is.
    let origins: BTreeMap<u32, Vec<ClauseOrigin>> =
        client.get("/volvox/policy/origins").await.unwrap_or_default();
    let asked = Packet {
        protocol: question.protocol.unwrap_or(Protocol::Tcp).number(),
        port: question.port,
    };
    let endpoint = EndpointId(endpoint);
    let mut all = vec![judge(&dump, endpoint, direction, peer, &asked, &origins)?];
    // A local peer judges the same packet at its own side.
    let other = dump.lxc()?.get(&peer).map(|row| EndpointId(row.endpoint));
    let own = dump
        .endpoints()?
        .remove(&endpoint)
        .and_then(|row| row.addresses.iter().find(|address| address.is_ipv4() == peer.is_ipv4()));
    if let (Some(other), Some(own)) = (other.filter(|other| other.0 != 0), own) {
        let back = match direction {
            Direction::Ingress => Direction::Egress,
            Direction::Egress => Direction::Ingress,
        };
        all.push(judge(&dump, other, back, own, &asked, &origins)?);
    }
    out.answer(&all, |out, all| all.iter().try_for_each(|judged| out.line(sentence(judged))))
}

/// The maps know addresses alone.
fn address(to: &str) -> Result<IpAddr, ClientError> {
    to.parse().map_err(|_| {
        ClientError::Usage(format!(
            "--to {to}: with --dropped it is an address, and the port is --port; without --dropped the agent \
             is asked, which knows pods and services by name"
        ))
    })
}

struct Packet {
    protocol: u8,
    port: u16,
}

fn judge(
    dump: &Dump,
    endpoint: EndpointId,
    direction: Direction,
    peer: IpAddr,
    packet: &Packet,
    origins: &BTreeMap<u32, Vec<ClauseOrigin>>,
) -> Result<Judged, ClientError> {
    let Packet { protocol, port } = *packet;
    let peer_identity = identity(dump, peer)?;
    let mut judged = Judged {
        endpoint,
        direction,
        peer,
        peer_identity,
        protocol,
        port,
        verdict: "not-programmed",
        origins: Vec::new(),
    };
    let Some(rows) = dump.policy(endpoint)? else { return Ok(judged) };
    let cookie = match lookup(&rows, direction, peer_identity, protocol, port) {
        Verdict::NoMatch => {
            judged.verdict = "no-match";
            return Ok(judged);
        }
        Verdict::Allowed(cookie) => {
            judged.verdict = "allowed";
            cookie
        }
        Verdict::Denied(cookie) => {
            judged.verdict = "denied";
            cookie
        }
    };
    judged.origins = match origins.get(&cookie) {
        Some(known) => known.iter().map(ToString::to_string).collect(),
        None if cookie == 0 => Vec::new(),
        None => vec![format!("rule {cookie:08x}; the agent, when it runs, knows where it is")],
    };
    Ok(judged)
}

/// The identity that the datapath sees behind an address: by the longest prefix, else the world.
fn identity(dump: &Dump, address: IpAddr) -> Result<IdentityId, ClientError> {
    let ipcache = dump.ipcache()?;
    let matching = ipcache.iter().filter(|(prefix, _)| prefix.contains(&address));
    if let Some((_, row)) = matching.max_by_key(|(prefix, _)| prefix.prefix_len()) {
        return Ok(row.identity);
    }
    // With both families on, each has a world of its own.
    let local = dump.lxc()?;
    let both = local.keys().any(IpAddr::is_ipv4) && local.keys().any(IpAddr::is_ipv6);
    Ok(match address {
        IpAddr::V4(_) if both => IdentityId::WORLD_IPV4,
        IpAddr::V6(_) if both => IdentityId::WORLD_IPV6,
        _ => IdentityId::WORLD,
    })
}

fn sentence(judged: &Judged) -> String {
    let Judged { endpoint, peer, peer_identity, port, .. } = judged;
    let protocol = protocol_name(judged.protocol);
    let packet = match judged.direction {
        Direction::Ingress => format!("to endpoint {endpoint} from {peer}"),
        Direction::Egress => format!("from endpoint {endpoint} to {peer}"),
    };
    let rule = match judged.origins.is_empty() {
        true => "a row that no policy is behind".to_owned(),
        false => judged.origins.join("; "),
    };
    let verdict = match judged.verdict {
        "allowed" => format!("passes: allowed by {rule}"),
        "denied" => format!("is dropped: denied by {rule}"),
        "no-match" => "is dropped: policy is enforced, and no rule allows it".to_owned(),
        _ => {
            "is dropped: the endpoint has no policy in the kernel yet; see `volvox why`".to_owned()
        }
    };
    format!("{protocol} port {port} {packet} (identity {peer_identity}) {verdict}.")
}
