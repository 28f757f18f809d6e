//! Tests: an ADD that is killed leaves nothing behind. A new pod starts as soon as the agent is
//! ready, can send at once, and meets its policy with its first packet.

use std::{
    fs,
    net::{Ipv4Addr, UdpSocket},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use volvox_system::netlink::Socket;
use volvox_testbed::lab::{self, Inventory, Netns, Node, Pod, Setup, Through, cni};

use super::{PODS, allocations, fleet};

/// A pod that nobody has told of yet.
fn bare_pod(name: &str, number: u32) -> Result<Pod> {
    Ok(Pod {
        namespace: "fleet".into(),
        name: name.into(),
        uid: String::new(),
        container_id: format!("{:064x}", 0xadd_0000 + number),
        netns: Netns::create(name)?,
        addresses: Vec::new(),
        created_in: Duration::ZERO,
    })
}

/// Interfaces of pods on the node.
fn interfaces() -> Result<usize> {
    let names = fs::read_dir("/sys/class/net")?.flatten();
    Ok(names.filter(|name| name.file_name().to_string_lossy().starts_with("lxc")).count())
}

/// An ADD that timed out left its address taken, until none was left.
#[test]
fn c_9854_an_add_that_is_cancelled_anywhere_leaks_nothing() {
    lab::test("cni::c_9854_an_add_that_is_cancelled_anywhere_leaks_nothing", || {
        let mut fleet = fleet()?;
        let (before, links) = (Inventory::read(&fleet.node)?, interfaces()?);
        let leased = allocations(&fleet.node)?;
        // Each of these is where the plugin waits: for the agent and for the kernel.
        for call in ["sendto", "writev", "epoll_wait", "setns"] {
            for when in (1..).step_by(3) {
                let name = format!("{call}-{when}");
                let pod = bare_pod(&name, when)?;
                let lived = cni::add_killed(&fleet.node, &pod, call, when)?;
                // The runtime deletes what it got no answer for, and may do so twice.
                cni::del(&fleet.node, &pod).with_context(|| name.clone())?;
                cni::del(&fleet.node, &pod).with_context(|| name.clone())?;
                fleet.node.wait("an endpoint is left", |node| {
                    Ok(Inventory::read(node)? == before && interfaces()? == links)
                })?;
                // An address that was asked for and never used goes back by itself after a while;
                // no other one is out.
                for (address, owner) in allocations(&fleet.node)? {
                    let asked_for = owner.as_str() == Some(&format!("fleet/{name}"));
                    ensure!(
                        leased.contains_key(&address) || (asked_for && !lived),
                        "{name}: {address} of {owner} is left"
                    );
                }
                release(&fleet.node, &format!("fleet/{name}"))?;
                if lived {
                    break;
                }
                ensure!(when < 60, "{call}: the plugin is never done");
            }
        }
        ensure!(allocations(&fleet.node)? == leased, "the pool is not balanced");
        let pod = Pod::create(&fleet.node, "fleet/late", &[("app", "app-1")], Through::Cni)?;
        pod.delete(&fleet.node)
    });
}

/// What was sent before the kernel had given an interface its queue was lost without a word: a pod's
/// first packet waited a second for the neighbour that was asked for in vain.
#[test]
fn an_added_pod_can_send_at_once() {
    lab::test("cni::an_added_pod_can_send_at_once", || {
        let fleet = fleet()?;
        for number in 0..20 {
            let pod = bare_pod(&format!("prompt-{number}"), number)?;
            cni::add(&fleet.node, &pod)?;
            let [inside, host] = pod.links()?;
            let carries = |ifindex| Ok(Socket::open()?.wait_for_carrier(ifindex, Duration::ZERO)?);
            ensure!(carries(host.ifindex)?, "{}: the host side has no carrier yet", pod.name);
            ensure!(pod.netns.run(|| carries(inside.ifindex))?, "{}: nor inside", pod.name);
            cni::del(&fleet.node, &pod)?;
        }
        Ok(())
    });
}

/// Gives back what a pod that never came to be has, instead of waiting for it to expire.
fn release(node: &Node, owner: &str) -> Result<()> {
    for (address, of) in allocations(node)? {
        if of.as_str() == Some(owner) {
            let answer = node.rest().request("DELETE", &format!("/ipam/{address}"), None)?;
            ensure!(answer.status == 200, "{address}: {answer:?}");
        }
    }
    Ok(())
}

/// The CNI configuration was there before the agent took pods: those of the gap never started.
#[test]
fn c_29405_a_pod_that_comes_the_instant_the_agent_is_ready_starts() {
    lab::test("cni::c_29405_a_pod_that_comes_the_instant_the_agent_is_ready_starts", || {
        let mut fleet = fleet()?;
        let conflist = fleet.node.path("cni/05-volvox.conflist");
        for round in 0..3 {
            fleet.node.kill_agent()?;
            fs::remove_file(&conflist)?;
            let name = format!("fleet/early-{round}");
            fleet.node.exec_agent()?;
            fleet.node.wait("it does not say that it is ready", |_| Ok(conflist.exists()))?;
            let pod = Pod::create(&fleet.node, &name, &[("app", "app-1")], Through::Cni)?;
            fleet.node.wait_for_ready(PODS + 1)?;
            pod.delete(&fleet.node)?;
        }
        Ok(())
    });
}

/// A policy that lets pods of `app: shut` neither in nor out.
fn shut() -> String {
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": { "namespace": "shop", "name": "shut" },
        "spec": {
            "endpointSelector": { "matchLabels": { "app": "shut" } },
            "ingress": [],
            "egress": [],
            "enableDefaultDeny": { "ingress": true, "egress": true },
        },
    })
    .to_string()
}

/// Has somebody send to every address that a pod may get, until told to stop.
fn spray(from: &Netns, stop: &AtomicBool) -> Result<()> {
    let socket = from.run(|| Ok(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?))?;
    while !stop.load(Ordering::Relaxed) {
        for last in 2..40 {
            // Most of them lead nowhere.
            let _ = socket.send_to(b"in", (Ipv4Addr::new(10, 11, 0, last), 7000));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Has a pod send out from the moment that it can, until told to stop; counts what it could send.
fn shout(from: &Netns, to: Ipv4Addr, stop: &AtomicBool, sent: &AtomicU64) -> Result<()> {
    let socket = from.run(|| Ok(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?))?;
    while !stop.load(Ordering::Relaxed) {
        let went = socket.send_to(b"out", (to, 7000)).is_ok();
        sent.fetch_add(went.into(), Ordering::Relaxed);
        thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// New pods were open until the next synchronisation: the first packets got through.
#[test]
fn kube_router_873_the_first_packet_of_a_new_pod_meets_its_policy() {
    lab::test("cni::kube_router_873_the_first_packet_of_a_new_pod_meets_its_policy", || {
        let shut = shut();
        let setup = Setup::new()
            .with_plugin()
            .manifest("shut.yaml", &shut)
            .pod("shop/open", &[("app", "open")])
            .pod("shop/other", &[("app", "open")]);
        let (mut node, [open, other]) = setup.start()?;
        let hears = |pod: &Netns| pod.run(|| Ok(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 7000))?));
        let std::net::IpAddr::V4(target) = open.address(false)? else {
            unreachable!("asked for IPv4")
        };
        let outside = hears(&open.netns)?;
        outside.set_nonblocking(true)?;
        for number in 0..8 {
            let name = format!("new-{number}");
            let mut pod = bare_pod(&name, number)?;
            pod.namespace = "shop".into();
            node.write_manifest(
                &format!("{name}.yaml"),
                &json!({
                    "kind": "Pod",
                    "metadata": { "namespace": "shop", "name": name, "labels": { "app": "shut" } },
                })
                .to_string(),
            )?;
            let inside = hears(&pod.netns)?;
            inside.set_nonblocking(true)?;
            let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
            thread::scope(|scope| -> Result<()> {
                let shouting = scope.spawn(|| shout(&pod.netns, target, &stop, &sent));
                let spraying = scope.spawn(|| spray(&other.netns, &stop));
                let added = cni::add(&node, &pod);
                let heard = node.wait("the new pod sends nothing", |_| {
                    Ok(added.is_err() || sent.load(Ordering::Relaxed) > 20)
                });
                stop.store(true, Ordering::Relaxed);
                spraying.join().expect("it returns")?;
                shouting.join().expect("it returns")?;
                added.and(heard).map(drop)
            })?;
            let mut buffer = [0; 8];
            ensure!(inside.recv(&mut buffer).is_err(), "{name}: a packet got in");
            while let Ok((length, from)) = outside.recv_from(&mut buffer) {
                // What the other one sends everywhere comes here too.
                ensure!(&buffer[..length] == b"in", "{name}: a packet got out, from {from}");
            }
            cni::del(&node, &pod)?;
        }
        node.wait_for_ready(2).map(drop)
    });
}
