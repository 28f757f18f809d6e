//! The servers that the agents of a history have, and what happens to them and to the way there.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};

use super::cluster::Cluster;
use crate::{
    chaos::{
        faults::{Server, Trouble},
        history::History,
    },
    lab::{ContainerRuntime, Etcd, Node, Passage, Proxy, Speaks},
};

/// Where agents reach an etcd and an API server: proxies.
const ETCD: u16 = 2377;
const API_SERVER: u16 = 6444;

/// Those that the history names.
pub(super) struct Servers {
    etcd: Option<(Etcd, Proxy)>,
    pub(super) cluster: Option<Cluster>,
    containerd: Option<ContainerRuntime>,
}

fn proxy(port: u16, server: SocketAddr, speaks: Speaks) -> Result<Proxy> {
    Proxy::start(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port), server, speaks)
}

impl Servers {
    /// Starts them, and tells a node's agents how they are reached.
    pub(super) fn start(history: &History, node: &mut Node) -> Result<Self> {
        let has = |server| history.servers.contains(&server);
        let mut servers = Self { etcd: None, cluster: None, containerd: None };
        if has(Server::Etcd) {
            let etcd = Etcd::start(&node.path("etcd"))?;
            let proxy = proxy(ETCD, etcd.socket_address(), Speaks::Grpc)?;
            etcd.share_through(node, proxy.address())?;
            servers.etcd = Some((etcd, proxy));
        }
        if has(Server::Api) {
            let mut cluster = Cluster::start(history, node)?;
            let (at, speaks) = (cluster.server.socket_address(), cluster.server.speaks());
            let proxy = proxy(API_SERVER, at, speaks)?;
            let kubeconfig = cluster.server.kubeconfig_through(proxy.address())?;
            node.set_flag("k8s-kubeconfig-path", Some(&kubeconfig.display().to_string()));
            cluster.proxy = Some(proxy);
            servers.cluster = Some(cluster);
        }
        if has(Server::Containerd) {
            let containerd = ContainerRuntime::start(&node.path("containerd"))?;
            let socket = containerd.socket().display().to_string();
            node.set_flag("container-runtime-endpoint", Some(&socket));
            servers.containerd = Some(containerd);
        }
        Ok(servers)
    }

    /// Something happens to one of them.
    pub(super) fn trouble(&mut self, server: Server, trouble: Trouble) -> Result<()> {
        if let Some(passage) = passage(trouble) {
            self.proxy(server)?.set(passage);
            return Ok(());
        }
        match (server, trouble) {
            (_, Trouble::Well) => self.is_well(server),
            (Server::Etcd, trouble) => {
                let (etcd, _) = self.etcd.as_mut().context("no etcd")?;
                match trouble {
                    Trouble::Killed => etcd.kill(),
                    Trouble::Stopped => etcd.stop(),
                    Trouble::LeasesEnd => etcd.expire_leases(),
                    Trouble::Saved => etcd.save(),
                    _ => {
                        if etcd.runs() {
                            etcd.kill()?;
                        }
                        etcd.restore()
                    }
                }
            }
            (Server::Api, trouble) => {
                let server = &mut self.cluster.as_mut().context("no API server")?.server;
                if trouble == Trouble::Killed { server.kill() } else { server.hang() }
            }
            (Server::Containerd, trouble) => {
                let containerd = self.containerd.as_mut().context("no containerd")?;
                if trouble == Trouble::Killed { containerd.kill() } else { containerd.stop() }
            }
        }
    }

    fn proxy(&self, server: Server) -> Result<&Proxy> {
        let proxy = match server {
            Server::Etcd => self.etcd.as_ref().map(|(_, proxy)| proxy),
            Server::Api => self.cluster.as_ref().and_then(|it| it.proxy.as_ref()),
            Server::Containerd => None,
        };
        proxy.with_context(|| format!("there is no proxy in front of {server}"))
    }

    /// It works again, whatever happened to it.
    fn is_well(&mut self, server: Server) -> Result<()> {
        match server {
            Server::Etcd => {
                let Some((etcd, proxy)) = &mut self.etcd else { return Ok(()) };
                proxy.set(Passage::Open);
                if etcd.runs() { etcd.go_on() } else { etcd.start_again() }
            }
            Server::Api => {
                let Some(Cluster { server, proxy, .. }) = &mut self.cluster else { return Ok(()) };
                if let Some(proxy) = proxy {
                    proxy.set(Passage::Open);
                }
                if server.runs() { server.go_on() } else { server.start_again() }
            }
            Server::Containerd => {
                let Some(containerd) = &mut self.containerd else { return Ok(()) };
                if containerd.runs() { containerd.go_on() } else { containerd.start_again() }
            }
        }
    }

    /// All of them work again.
    pub(super) fn are_well(&mut self) -> Result<()> {
        Server::ALL.into_iter().try_for_each(|server| self.is_well(server))
    }
}

/// What becomes of connections, if that is what happens.
fn passage(trouble: Trouble) -> Option<Passage> {
    Some(match trouble {
        Trouble::Slow => Passage::Slow,
        Trouble::CutOff => Passage::CutOff,
        Trouble::HalfOpen => Passage::HalfOpen,
        Trouble::Busy => Passage::Answers(429),
        Trouble::Failing => Passage::Answers(503),
        Trouble::Rubbish => Passage::Rubbish,
        _ => return None,
    })
}
