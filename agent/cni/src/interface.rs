//! The pod's interface: a veth pair, one side in the pod and one on the node.

use std::{net::IpAddr, os::fd::AsFd, path::Path, time::Duration};

use ipnet::IpNet;
use sha2::{Digest, Sha256};
use volvox_actors::{model::Mac, ports::Link};
use volvox_rest::delete_queue::hex;
use volvox_system::{
    netlink::{Socket, Veth},
    netns::{Netns, own_cookie},
    sysctl::Sysctl,
};

use super::{CniError, ErrorCode, Invocation};

/// How long the kernel may take until both sides carry packets.
const CARRIER_PATIENCE: Duration = Duration::from_secs(5);

/// The host side's name: `lxc` and twelve digits that the attachment's name is hashed to.
pub(super) fn host_name(attachment_id: &str) -> String {
    format!("lxc{}", hex(&Sha256::digest(attachment_id)[..6]))
}

/// The container's namespace, and a socket in it. It is entered once for all that a socket can ask: each time
/// costs a thread, for which a busy node has to find a processor.
pub(super) struct Inside {
    pub(super) netns: Netns,
    pub(super) socket: Socket,
    /// The namespace's own number.
    pub(super) cookie: u64,
}

impl Inside {
    /// Opens it. The node's own namespace is refused: in it, `eth0` is the node's.
    pub(super) fn open(path: &Path) -> Result<Self, CniError> {
        let netns = Netns::open(path)?;
        let enter = || Ok::<_, CniError>((Socket::open()?, own_cookie()?));
        let (socket, cookie) = netns.run(enter)??;
        if cookie == own_cookie()? {
            return Err(CniError::new(
                ErrorCode::InvalidEnvironment,
                format!("CNI_NETNS={path:?} is wrong"),
                "it is the node's own namespace, not a container's",
            ));
        }
        Ok(Self { netns, socket, cookie })
    }
}

/// What a further interface of a container adds to its number for the table of its routes.
const TABLE_BASE: u32 = 1000;

/// Makes the pair, both sides down. Answers both sides, the host's first.
///
/// The host side stays down until the agent has attached its programs: until then nothing passes.
pub(super) fn create(
    invocation: &Invocation,
    inside: &mut Inside,
    mtu: u32,
) -> Result<(Link, Link), CniError> {
    let attachment_id = invocation.attachment_id();
    let name = host_name(&attachment_id);
    let mut socket = Socket::open()?;
    socket.create_veth(&Veth {
        name: &name,
        peer: &invocation.ifname,
        peer_netns: Some(inside.netns.as_fd()),
        mtu,
        mac: mac("host", &attachment_id),
        peer_mac: mac("container", &attachment_id),
    })?;
    Sysctl::default().prepare_host_side(&name)?;
    let host = socket.link_by_name(&name)?.ok_or_else(|| vanished(&name))?;
    let ifname = &invocation.ifname;
    let container = inside.socket.link_by_name(ifname)?.ok_or_else(|| vanished(ifname))?;
    Ok((host, container))
}

/// Gives the container's side its addresses, brings it up and routes through the router of each
/// address: everything where nothing is routed yet, else only what is sent from that address, for
/// another interface of the container has the default route. Answers whose routers have it now.
pub(super) fn configure(
    inside: &mut Inside,
    container: &Link,
    addresses: &[(IpAddr, IpAddr)],
) -> Result<Vec<IpAddr>, CniError> {
    if addresses.iter().any(|(address, _)| address.is_ipv6()) {
        inside.netns.run(|| Sysctl::default().enable_ipv6(&container.name))??;
    }
    let socket = &mut inside.socket;
    let others: Vec<bool> = socket.default_routes()?.iter().map(|it| it.is_ipv4).collect();
    socket.set_link_up(container.ifindex)?;
    let mut first = Vec::new();
    for &(address, router) in addresses {
        socket.add_address(container.ifindex, IpNet::from(address))?;
        if others.contains(&address.is_ipv4()) {
            let place = (container.ifindex, TABLE_BASE + container.ifindex);
            socket.route_from(address, router, place)?;
        } else {
            socket.put_route(router, container.ifindex)?;
            socket.add_default_via(router, container.ifindex)?;
            first.push(router);
        }
    }
    Ok(first)
}

/// Waits until both sides carry packets. Before, a pod's first packet would be lost, or wait a second
/// for the neighbour that was asked for in vain.
pub(super) fn wait_for_carriers(
    inside: &mut Inside,
    host: &Link,
    container: &Link,
) -> Result<(), CniError> {
    let outside = Socket::open()?.wait_for_carrier(host.ifindex, CARRIER_PATIENCE)?;
    if !(outside && inside.socket.wait_for_carrier(container.ifindex, CARRIER_PATIENCE)?) {
        // It is the pod's as it is: perhaps somebody took one side down.
        tracing::warn!(host = host.name, ?CARRIER_PATIENCE, "the interface has no carrier");
    }
    Ok(())
}

/// Removes an interface of the calling thread's namespace by its name. False if there was none.
pub(super) fn remove(name: &str) -> Result<bool, CniError> {
    let mut socket = Socket::open()?;
    match socket.link_by_name(name)? {
        Some(link) => Ok(socket.delete_link(link.ifindex)?),
        None => Ok(false),
    }
}

/// A locally administered address that belongs to one attachment and side: no two share it, and
/// no source of randomness is needed.
fn mac(side: &str, attachment_id: &str) -> Mac {
    let digest = Sha256::digest(format!("{side} {attachment_id}"));
    let mut bytes = [0; 6];
    bytes.copy_from_slice(&digest[..6]);
    bytes[0] = bytes[0] & 0xfc | 0x02;
    Mac(bytes)
}

fn vanished(name: &str) -> CniError {
    let remedy = "something else on the node removes interfaces: see who";
    CniError::new(ErrorCode::Interface, format!("{name} vanished while it was set up"), remedy)
}
