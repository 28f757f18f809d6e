//! The place of the health endpoint: a network namespace that a file holds, and a veth pair into it.
//!
//! The file is a mount of the namespace, as container runtimes make them. So the namespace, the interface and its
//! addresses are there while no agent runs, and the kernel answers ICMP at them. In a container the mount ends with
//! the container, unless it was made outside it: then it is there before the agent, empty, and is used.

use std::{
    fs::{self, File},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::fd::{AsFd, AsRawFd},
    path::{Path, PathBuf},
};

use ipnet::IpNet;
use rustix::{
    io::Errno,
    mount::{UnmountFlags, mount_bind, unmount},
};
use volvox_actors::{
    model::{Addresses, Families, Mac},
    ports::{DesiredHealthPlace, HEALTH_DEVICE, HealthPlace, Link},
};
use volvox_system::{
    netlink::{NetlinkError, Socket, Veth},
    netns::{Netns, NetnsError, own_cookie},
    sysctl::{Sysctl, SysctlError},
};

use crate::health_ports::listen_on;

/// Its name in the run directory.
const FILE: &str = "health-endpoint.netns";
/// The interface inside, by Cilium's name, and the one on the node as older versions of Cilium called it.
const INSIDE: &str = "cilium";
const FORMER_DEVICE: &str = "cilium_health";

/// Where a health endpoint is, or is to be.
#[derive(Clone, Debug)]
pub struct Place {
    file: PathBuf,
    procfs: PathBuf,
}

/// What went wrong there, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum PlaceTrouble {
    /// An interface, an address or a route.
    #[error("health endpoint: {0}")]
    Netlink(#[from] NetlinkError),
    /// The namespace.
    #[error("health endpoint: {0}")]
    Netns(#[from] NetnsError),
    /// A parameter of the kernel.
    #[error("health endpoint: {0}")]
    Sysctl(#[from] SysctlError),
    /// The file that holds the namespace.
    #[error("health endpoint: {step} {path}: {cause}; see that the agent may mount there")]
    File {
        /// What was tried.
        step: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
    /// The port inside.
    #[error("health endpoint: cannot listen at port {port}: {cause}")]
    Listen {
        /// The port.
        port: u16,
        /// The system's words.
        cause: io::Error,
    },
    /// Something else of the node removes what is made.
    #[error("health endpoint: {0} vanished while it was set up: see what else removes interfaces")]
    Vanished(&'static str),
}

impl Place {
    /// The place of an agent with these directories.
    pub fn of(run_dir: &Path, procfs: &Path) -> Self {
        Self { file: run_dir.join(FILE), procfs: procfs.to_owned() }
    }

    /// The namespace that the file holds, if it holds one that is not the node's own, and its cookie.
    fn namespace(&self) -> Option<(Netns, u64)> {
        let netns = Netns::open(&self.file).ok()?;
        let cookie = netns.cookie().ok()?;
        (Some(cookie) != own_cookie().ok()).then_some((netns, cookie))
    }

    /// What is there, if it is whole.
    pub(super) fn look(&self) -> Result<Option<HealthPlace>, PlaceTrouble> {
        let Some((netns, netns_cookie)) = self.namespace() else { return Ok(None) };
        let outside = Socket::open()?.link_by_name(HEALTH_DEVICE)?;
        let inside = netns.run(|| {
            let mut socket = Socket::open()?;
            let link = socket.link_by_name(INSIDE)?;
            Ok::<_, NetlinkError>((link, socket.addresses()?, socket.default_routes()?.len()))
        })??;
        let (Some(outside), (Some(inside), addresses, routes)) = (outside, inside) else {
            return Ok(None);
        };
        let own = addresses.iter().filter(|(ifindex, _)| *ifindex == inside.ifindex);
        let own: Addresses = own.map(|(_, it)| it.addr()).filter(is_global).collect();
        let is_pair =
            (outside.peer_ifindex, inside.peer_ifindex) == (inside.ifindex, outside.ifindex);
        let is_whole = is_pair && inside.up && routes == own.iter().count();
        Ok(is_whole.then(|| self.describe(&outside, inside.mac, own, netns_cookie)))
    }

    fn describe(
        &self,
        outside: &Link,
        mac: Mac,
        addresses: Addresses,
        netns_cookie: u64,
    ) -> HealthPlace {
        HealthPlace {
            ifindex: outside.ifindex,
            node_mac: outside.mac,
            mac,
            addresses,
            netns_cookie,
            netns_path: self.file.display().to_string(),
        }
    }

    /// Makes all of it anew, in the namespace that is there or in a new one. Routes are made last: without them it
    /// is not whole.
    pub(super) fn make(&self, desired: &DesiredHealthPlace) -> Result<HealthPlace, PlaceTrouble> {
        self.clear()?;
        let (netns, cookie) = match self.namespace() {
            Some(there) => there,
            None => {
                self.hold()?;
                self.namespace().ok_or(PlaceTrouble::Vanished(FILE))?
            }
        };
        let node_mac = mac(cookie, 0);
        let veth = Veth {
            name: HEALTH_DEVICE,
            peer: INSIDE,
            peer_netns: Some(netns.as_fd()),
            mtu: desired.mtu,
            mac: node_mac,
            peer_mac: mac(cookie, 1),
        };
        let mut node = Socket::open()?;
        let outside = node.create_veth(&veth)?.ok_or(PlaceTrouble::Vanished(HEALTH_DEVICE))?;
        let has_ipv6 = desired.addresses.ipv6.is_some();
        let sysctl = Sysctl::at(self.procfs.join("sys/net"));
        sysctl.prepare_host_side(HEALTH_DEVICE)?;
        if has_ipv6 {
            sysctl.forward_ipv6(HEALTH_DEVICE)?;
            // Of the namespace itself: the node's parameters may be mounted elsewhere, and are another's.
            netns.visit(|| sysctl.enable_ipv6(INSIDE))??;
        }
        netns.run(|| configure(desired))??;
        Ok(self.describe(&outside, veth.peer_mac, desired.addresses, cookie))
    }

    /// Listens inside.
    pub(super) fn listen(
        &self,
        families: Families,
        port: u16,
    ) -> Result<TcpListener, PlaceTrouble> {
        let (netns, _) = self.namespace().ok_or(PlaceTrouble::Vanished(FILE))?;
        let any: IpAddr = match families.ipv6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let opened = netns.run(|| listen_on(SocketAddr::new(any, port), families.ipv4))?;
        opened.map_err(|errno| PlaceTrouble::Listen { port, cause: errno.into() })
    }

    /// Removes the interfaces; a namespace stays, and is empty.
    pub(super) fn clear(&self) -> Result<(), PlaceTrouble> {
        let mut socket = Socket::open()?;
        for name in [HEALTH_DEVICE, FORMER_DEVICE] {
            if let Some(link) = socket.link_by_name(name)? {
                socket.delete_link(link.ifindex)?;
            }
        }
        // What somebody else put in there under that name would be in the way.
        let Some((netns, _)) = self.namespace() else { return Ok(()) };
        let inside = || {
            let mut socket = Socket::open()?;
            match socket.link_by_name(INSIDE)? {
                Some(link) => socket.delete_link(link.ifindex),
                None => Ok(false),
            }
        };
        netns.run(inside)??;
        Ok(())
    }

    /// Removes all of it, the namespace too. Says what there was.
    pub fn remove(&self) -> Result<Vec<String>, PlaceTrouble> {
        let had_link = Socket::open()?.link_by_name(HEALTH_DEVICE)?.is_some();
        self.clear()?;
        let mut removed = Vec::new();
        if had_link {
            removed.push(format!("removed interface {HEALTH_DEVICE}"));
        }
        // A file system that cannot be written says so also where there is nothing to remove.
        if !self.file.exists() {
            return Ok(removed);
        }
        // As often as it is mounted there.
        loop {
            match unmount(&self.file, UnmountFlags::DETACH) {
                Ok(()) => {}
                Err(Errno::INVAL | Errno::NOENT) => break,
                Err(errno) => return Err(self.trouble("unmount", errno.into())),
            }
        }
        match fs::remove_file(&self.file) {
            Ok(()) => removed.push(format!("removed {}", self.file.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(self.trouble("remove", cause)),
        }
        Ok(removed)
    }

    /// Makes a namespace that the file holds.
    fn hold(&self) -> Result<(), PlaceTrouble> {
        let opened = File::options().create(true).append(true).open(&self.file);
        opened.map_err(|cause| self.trouble("make", cause))?;
        let netns = Netns::create()?;
        let source = format!("/proc/self/fd/{}", netns.as_fd().as_raw_fd());
        let mounted = mount_bind(source, &self.file);
        mounted.map_err(|errno| self.trouble("mount a namespace at", errno.into()))
    }

    fn trouble(&self, step: &'static str, cause: io::Error) -> PlaceTrouble {
        PlaceTrouble::File { step, path: self.file.clone(), cause }
    }
}

/// Addresses, then routes, of the interface inside; in its namespace.
fn configure(desired: &DesiredHealthPlace) -> Result<(), PlaceTrouble> {
    let mut socket = Socket::open()?;
    let mut up = |name| -> Result<Link, PlaceTrouble> {
        let link = socket.link_by_name(name)?.ok_or(PlaceTrouble::Vanished(INSIDE))?;
        socket.set_link_up(link.ifindex)?;
        Ok(link)
    };
    up("lo")?;
    let inside = up(INSIDE)?;
    for address in desired.addresses.iter() {
        socket.add_address(inside.ifindex, IpNet::from(address))?;
    }
    let routers = desired.router.iter();
    let is_of =
        |router: &IpAddr| desired.addresses.iter().any(|it| it.is_ipv4() == router.is_ipv4());
    for router in routers.filter(is_of) {
        socket.put_route(router, inside.ifindex)?;
        socket.add_default_via(router, inside.ifindex)?;
    }
    Ok(())
}

fn is_global(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

/// A locally administered address for one side of the pair: cookies of namespaces are given once in a boot.
fn mac(cookie: u64, side: u8) -> Mac {
    let bytes = cookie.to_be_bytes();
    Mac([0x02 | side << 2, 0xc1, bytes[4], bytes[5], bytes[6], bytes[7]])
}
