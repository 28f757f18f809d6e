//! Whose an interface is, before anything is made in its place.
//!
//! The host side says it in its alias: the network, and that an ADD is at it until that has
//! answered. So an ADD that is asked for again tells what one left that was killed from what a
//! container uses.

use std::time::Duration;

use hyper::Method;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};
use volvox_actors::ports::Link;
use volvox_rest::{RestError, delete_queue::hex, escape, models::Endpoint};
use volvox_system::{netlink::Socket, netns::Netns};

use super::{
    CniError, ErrorCode,
    cancel::Cancel,
    interface::{self, Namespaces},
    run::Call,
};

/// What an alias of ours begins with.
const ALIAS: &str = "volvox-cni:";
/// What it ends with until ADD has answered.
const ADDING: &str = " (adding)";
/// The network of interfaces that an older plugin made, which gave them no alias.
const OLDEST_NETWORK: &str = "volvox";
/// The longest network's name that an alias has room for.
const NETWORK_MAX: usize = 128;
/// How long another ADD of the same container may take.
const TURN_PATIENCE: Duration = Duration::from_secs(60);
const TURN_RETRY: Duration = Duration::from_millis(20);

/// Waits until nobody else works in the namespace; it is this call's until the value is dropped, or
/// the process ends. False if somebody does for too long.
pub(super) async fn take_turn(netns: &Netns, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    loop {
        match flock(netns, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => sleep(TURN_RETRY).await,
            Err(Errno::WOULDBLOCK) => return false,
            // Where such files have no locks, runtimes still ask one thing at a time.
            Ok(()) | Err(_) => return true,
        }
    }
}

/// The same for an ADD, which nothing else may meet half-way.
pub(super) async fn take_turn_to_add(netns: &Netns, cancel: &mut Cancel) -> Result<(), CniError> {
    if cancel.race(take_turn(netns, TURN_PATIENCE)).await? {
        return Ok(());
    }
    let why = "another ADD of this container goes on: see with `ps` whether it hangs";
    Err(CniError::new(ErrorCode::TryLater, "the container is busy", why))
}

/// Sees that nothing of the container's is in the way, and removes what an ADD left that never
/// answered. The agent knew all its endpoints when it was asked for this attachment's: who got addresses
/// from it before may be sure.
pub(super) async fn make_room(
    call: &Call,
    namespaces: &mut Namespaces,
    endpoint: Option<&Endpoint>,
) -> Result<(), CniError> {
    let attachment = call.invocation.attachment_id();
    let name = interface::host_name(&attachment);
    let socket = &mut namespaces.node;
    if let Some(endpoint) = endpoint {
        let own = &endpoint.status.networking.interface_name;
        let used = match own.as_str() {
            "" => None,
            own => socket.link_by_name(own)?,
        };
        if let Some(link) = used
            && (*own != name || !is_unanswered(socket, &link)?)
        {
            return Err(taken(call, format!("endpoint {} has it", endpoint.id)));
        }
    }
    let host = socket.link_by_name(&name)?;
    let ifname = &call.invocation.ifname;
    let inside = namespaces.container.link_by_name(ifname)?;
    if let Some(inside) = inside
        && !host.as_ref().is_some_and(|host| are_a_pair(host, &inside))
    {
        return Err(taken(call, "volvox-cni did not make that interface".to_owned()));
    }
    if endpoint.is_some() || host.is_some() {
        let id = format!("cni-attachment-id:{attachment}");
        remove_endpoint(call, &id).await?;
        let removed = interface::remove(&name)?;
        tracing::info!(attachment, removed, "removed what an earlier ADD left");
    }
    Ok(())
}

/// The same for the interface of another plugin: an endpoint that lives at it stays, one whose own
/// interface is gone is what an earlier ADD left.
pub(super) async fn make_room_behind(call: &Call, host: &Link) -> Result<(), CniError> {
    let attachment = call.invocation.attachment_id();
    let Some(endpoint) = endpoint(call, &attachment).await? else { return Ok(()) };
    let networking = &endpoint.status.networking;
    let own = networking.interface_index;
    let found = Socket::open()?.link_by_index(own)?;
    // Numbers are given again.
    let is_there = found.is_some_and(|link| link.name == networking.interface_name);
    if own == host.ifindex || is_there {
        return Err(taken(call, format!("endpoint {} has it", endpoint.id)));
    }
    remove_endpoint(call, &format!("cni-attachment-id:{attachment}")).await?;
    tracing::info!(attachment, interface = own, "removed what an earlier ADD left");
    Ok(())
}

/// Deletes an endpoint, or what is under way to become one; none is fine.
pub(super) async fn remove_endpoint(call: &Call, id: &str) -> Result<(), CniError> {
    let path = format!("/endpoint/{}", escape(id));
    match call.client.send(Method::DELETE, &path, &[], None::<&Value>).await {
        Err(error) if error.status() != Some(404) => Err(error.into()),
        _ => Ok(()),
    }
}

/// The attachment's endpoint; one that goes does not count.
pub(super) async fn endpoint(call: &Call, attachment: &str) -> Result<Option<Endpoint>, CniError> {
    let path = format!("/endpoint/{}", escape(&format!("cni-attachment-id:{attachment}")));
    match call.client.get::<Endpoint>(&path).await {
        Ok(endpoint) if endpoint.status.state.starts_with("disconnect") => Ok(None),
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(RestError::Refused { status: 404, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Says on the host side that an ADD for the call's network is at it.
pub(super) fn begin(call: &Call, node: &mut Socket, host: &Link) -> Result<(), CniError> {
    let alias = format!("{ALIAS}{}{ADDING}", tag(&call.config.name));
    Ok(node.set_alias(host.ifindex, &alias)?)
}

/// Says that the ADD has answered. The container uses the interface, whether this fails or not.
pub(super) fn conclude(call: &Call) {
    let name = interface::host_name(&call.invocation.attachment_id());
    let alias = format!("{ALIAS}{}", tag(&call.config.name));
    let conclude = || Socket::open()?.set_alias_of(&name, &alias);
    if let Err(error) = conclude() {
        tracing::error!(%error, "the interface is still marked as being made");
    }
}

/// Whether an interface was made for the call's network.
pub(super) fn is_of_network(call: &Call, host_name: &str) -> Result<bool, CniError> {
    let mut socket = Socket::open()?;
    // Of one that is gone nobody knows it any more: the agent itself collects its endpoint.
    let Some(link) = socket.link_by_name(host_name)? else { return Ok(false) };
    let alias = socket.alias(link.ifindex)?;
    let network = alias.as_deref().and_then(|alias| alias.strip_prefix(ALIAS));
    let network = network.map(|network| network.strip_suffix(ADDING).unwrap_or(network));
    Ok(network.unwrap_or(OLDEST_NETWORK) == tag(&call.config.name))
}

fn is_unanswered(socket: &mut Socket, link: &Link) -> Result<bool, CniError> {
    let alias = socket.alias(link.ifindex)?.unwrap_or_default();
    Ok(alias.starts_with(ALIAS) && alias.ends_with(ADDING))
}

/// Each names the other as its peer.
fn are_a_pair(host: &Link, inside: &Link) -> bool {
    host.peer_ifindex == inside.ifindex && inside.peer_ifindex == host.ifindex
}

/// A network's name as an alias has room for it.
fn tag(network: &str) -> String {
    let is_plain = !network.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_plain && network.len() <= NETWORK_MAX {
        return network.to_owned();
    }
    hex(&Sha256::digest(network)[..16])
}

fn taken(call: &Call, why: String) -> CniError {
    let msg = format!("{} is in use in the container", call.invocation.ifname);
    let remedy = "the runtime is to ask for DEL before it asks for ADD again";
    CniError::new(ErrorCode::InvalidEnvironment, msg, format!("{why}; {remedy}"))
}
