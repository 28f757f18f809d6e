//! Endpoints with a namespace and sockets of their own, the programs attached to their interfaces.

use super::node::{Endpoint, Node, enter_namespace, own_files, run_ip, share_files};
use aya::maps::HashMap;
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::{FROM_CONTAINER, TO_CONTAINER};

/// The node's own addresses, the gateway of every pod.
pub const GATEWAY: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(10, 1, 0, 254), Ipv6Addr::new(0xf00d, 0, 0, 0, 0, 0, 0, 0xffff));

type Job = Box<dyn FnOnce() + Send>;

/// A thread that lives in a network namespace; both end with the value.
pub struct Namespace {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Path by which others name the namespace.
    pub path: String,
}

impl Namespace {
    pub fn new() -> Self {
        Self::of(enter_namespace)
    }

    /// The namespace of the thread that asks.
    pub fn here() -> Self {
        Self::of(|| ())
    }

    fn of(enter: fn()) -> Self {
        let (jobs, work) = channel::<Job>();
        let (tell, path) = channel();
        own_files();
        let thread = std::thread::spawn(move || {
            share_files();
            enter();
            // SAFETY: takes nothing and cannot fail.
            let thread = unsafe { libc::gettid() };
            tell.send(format!("/proc/{}/task/{thread}/ns/net", std::process::id())).unwrap();
            work.into_iter().for_each(|job| job());
        });
        let path = path.recv().expect("the thread enters a namespace");
        Self { jobs: Some(jobs), thread: Some(thread), path }
    }

    /// Runs something inside: a socket made there stays there, wherever it is used.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, result) = channel();
        let job: Job = Box::new(move || drop(tell.send(job())));
        self.jobs.as_ref().unwrap().send(job).unwrap();
        result.recv().expect("what runs in the namespace does not panic")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the namespace's thread panicked");
        }
    }
}

impl Node {
    /// Gives the node its addresses and lets it forward. Before any pod.
    pub fn become_gateway(&mut self) {
        let (v4, v6) = GATEWAY;
        run_ip(&["link", "set", "lo", "up"]);
        run_ip(&["address", "add", &format!("{v4}/32"), "dev", "lo"]);
        run_ip(&["address", "add", &format!("{v6}/128"), "dev", "lo"]);
        for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{path}"), "1").unwrap();
        }
        self.node(NodeRow {
            router_ipv4: v4.octets(),
            router_ipv6: v6.octets(),
            ..NodeRow::default()
        });
        for (address, bits) in [(IpAddr::from(v4), 32), (v6.into(), 128)] {
            self.ipcache(address, bits, 1);
            self.map::<HashMap<_, LxcKey, LxcRow>>("cilium_lxc", |mut map| {
                map.insert(
                    LxcKey::new(address),
                    LxcRow { flags: LxcFlags::HOST, ..LxcRow::default() },
                    0,
                )
                .unwrap();
            });
        }
    }

    /// An endpoint that is a namespace with addresses and routes, its programs attached.
    pub fn pod(&mut self, id: u16) -> (Endpoint, Namespace) {
        let endpoint = self.endpoint(id);
        let namespace = Namespace::new();
        let (host, peer) = (format!("lxc{id}"), format!("eth{id}"));
        run_ip(&["link", "set", &host, "address", &text(endpoint.node_mac), "up"]);
        run_ip(&["link", "set", &peer, "address", &text(endpoint.mac), "netns", &namespace.path]);
        namespace.run(move || inside(&peer, &endpoint));
        run_ip(&["route", "add", &format!("{}/32", endpoint.ipv4), "dev", &host]);
        run_ip(&["route", "add", &format!("{}/128", endpoint.ipv6), "dev", &host]);
        for (name, hook) in
            [(FROM_CONTAINER, TcAttachType::Ingress), (TO_CONTAINER, TcAttachType::Egress)]
        {
            let options = TcAttachOptions::TcxOrder(LinkOrder::default());
            self.program(name).attach_with_options(&host, hook, options).unwrap();
        }
        (endpoint, namespace)
    }
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Addresses, and routes through the gateway, of a pod's interface.
fn inside(interface: &str, endpoint: &Endpoint) {
    let (v4, v6) = GATEWAY;
    std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/accept_dad"), "0").unwrap();
    run_ip(&["link", "set", "lo", "up"]);
    run_ip(&["link", "set", interface, "up"]);
    run_ip(&["address", "add", &format!("{}/32", endpoint.ipv4), "dev", interface]);
    run_ip(&["address", "add", &format!("{}/128", endpoint.ipv6), "dev", interface, "nodad"]);
    run_ip(&["route", "add", &format!("{v4}/32"), "dev", interface]);
    run_ip(&["route", "add", "default", "via", &v4.to_string(), "dev", interface]);
    run_ip(&["route", "add", &format!("{v6}/128"), "dev", interface]);
    run_ip(&["route", "add", "default", "via", &v6.to_string(), "dev", interface]);
}
