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

/// The container's namespace and the node's, with a socket in each for all that is asked and changed there.
pub(super) struct Namespaces {
    /// The container's.
    pub(super) netns: Netns,
    pub(super) container: Socket,
    pub(super) node: Socket,
    /// The number of the container's.
    pub(super) cookie: u64,
}

impl Namespaces {
    /// Opens them. The node's own is refused as a container's: in it, `eth0` is the node's.
    pub(super) fn open(path: &Path) -> Result<Self, CniError> {
        let netns = Netns::open(path)?;
        let enter = || Ok::<_, CniError>((Socket::open()?, own_cookie()?));
        let (container, cookie) = netns.visit(enter)??;
        if cookie == own_cookie()? {
            return Err(CniError::new(
                ErrorCode::InvalidEnvironment,
                format!("CNI_NETNS={path:?} is wrong"),
                "it is the node's own namespace, not a container's",
            ));
        }
        Ok(Self { netns, container, node: Socket::open()?, cookie })
    }
}

/// What a further interface of a container adds to its number for the table of its routes.
const TABLE_BASE: u32 = 1000;

/// Makes the pair, both sides down. Answers both sides, the host's first; `None` if one of their names is
/// taken.
///
/// The host side stays down until the agent has attached its programs: until then nothing passes.
pub(super) fn create(
    invocation: &Invocation,
    namespaces: &mut Namespaces,
    mtu: u32,
) -> Result<Option<(Link, Link)>, CniError> {
    let attachment_id = invocation.attachment_id();
    let name = host_name(&attachment_id);
    let veth = Veth {
        name: &name,
        peer: &invocation.ifname,
        peer_netns: Some(namespaces.netns.as_fd()),
        mtu,
        mac: mac("host", &attachment_id),
        peer_mac: mac("container", &attachment_id),
    };
    let host = match namespaces.node.create_veth(&veth) {
        Err(error) if error.is_taken() => return Ok(None),
        made => made?.ok_or_else(|| vanished(&name))?,
    };
    // It is as it was asked for, and the host's side has its number: the kernel need not be asked again.
    let container = Link {
        ifindex: host.peer_ifindex,
        name: invocation.ifname.clone(),
        mac: veth.peer_mac,
        mtu: host.mtu,
        peer_ifindex: host.ifindex,
        kind: host.kind.clone(),
        ..Link::default()
    };
    Ok(Some((host, container)))
}

/// Gives the container's side its addresses, brings it up and routes through the router of each
/// address: everything where nothing is routed yet, else only what is sent from that address, for
/// another interface of the container has the default route. Both sides get the container's MTU. Answers whose
/// routers have the default route now.
pub(super) fn configure(
    namespaces: &mut Namespaces,
    host: &Link,
    container: &Link,
    addresses: &[(IpAddr, IpAddr)],
) -> Result<Vec<IpAddr>, CniError> {
    if host.mtu != container.mtu {
        namespaces.node.set_mtu(host.ifindex, container.mtu)?;
        namespaces.container.set_mtu(container.ifindex, container.mtu)?;
    }
    if addresses.iter().any(|(address, _)| address.is_ipv6()) {
        Sysctl::default().forward_ipv6(&host.name)?;
        namespaces.netns.visit(|| Sysctl::default().enable_ipv6(&container.name))??;
    }
    let socket = &mut namespaces.container;
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
    namespaces: &mut Namespaces,
    host: &Link,
    container: &Link,
) -> Result<(), CniError> {
    let Namespaces { node, container: inside, .. } = namespaces;
    if !(node.wait_for_carrier(host.ifindex, CARRIER_PATIENCE)?
        && inside.wait_for_carrier(container.ifindex, CARRIER_PATIENCE)?)
    {
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
