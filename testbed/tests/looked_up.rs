//! Nothing is believed that can be looked up: what somebody takes away under a living agent is known,
//! said, and back, by what the kernel says itself.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, Binaries, Neighbour, Node, Pod, Setup, ip};

/// Sooner than anybody looks by himself, and late enough for a busy machine.
const SOON: Duration = Duration::from_secs(10);
const LABELS: [(&str, &str); 1] = [("app", "a")];

/// Looks until it is so; fails after so long.
fn within(longest: Duration, what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !is_so()? {
        ensure!(began.elapsed() < longest, "after {longest:?} it is not so: {what}");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
fn an_interface_that_vanishes_is_not_called_ready() {
    lab::test("an_interface_that_vanishes_is_not_called_ready", || {
        let setup =
            Setup::new().pod("shop/a", &LABELS).pod("shop/b", &LABELS).pod("shop/c", &LABELS);
        let (node, [gone, away, stays]) = setup.start()?;
        let number = |pod: &Pod| -> Result<(u64, String)> {
            let [_, host] = pod.links()?;
            let all = node.endpoints()?;
            let own =
                |it: &&Value| it["status"]["networking"]["interface-index"] == json!(host.ifindex);
            let found = all.iter().find(own).and_then(|it| it["id"].as_u64());
            Ok((found.unwrap_or_default(), host.name))
        };
        let ((gone, link), (away, other), (stays, _)) =
            (number(&gone)?, number(&away)?, number(&stays)?);
        ip(&format!("link del {link}"))?;
        ip(&format!("link set {other} down"))?;
        ip(&format!("link set {other} name tap0"))?;
        thread::sleep(Duration::from_secs(1));
        for (id, ready) in [(gone, false), (away, false), (stays, true)] {
            let health: Value = node.rest().get(&format!("/endpoint/{id}/healthz"))?;
            ensure!(health["connected"] == json!(ready), "{id}: {health}");
            let why = node.volvox(&format!("why {id}"))?;
            ensure!(why.contains("is ready") == ready, "{why}");
        }
        let status = node.volvox("status")?;
        ensure!(status.contains("1 ready") && status.contains("2 not-ready"), "{status}");
        // It was only another name.
        ip(&format!("link set tap0 name {other}"))?;
        within(2 * SOON, "ready again", || {
            let endpoint: Value = node.rest().get(&format!("/endpoint/{away}"))?;
            Ok(endpoint["status"]["state"] == json!("ready"))
        })
    });
}

#[test]
fn a_state_directory_of_another_node_is_put_aside_and_named() {
    lab::test("a_state_directory_of_another_node_is_put_aside_and_named", || {
        let (mut one, [pod]) = Setup::new().pod("shop/a", &LABELS).start()?;
        one.stop_agent()?;
        let [_, host] = pod.links()?;
        ip(&format!("link del {}", host.name))?;
        let mut other = Node::beside(Binaries::find()?, "other")?;
        let copied = Command::new("cp")
            .arg("-a")
            .args([one.path("cilium/state"), other.path("cilium")])
            .status()?;
        ensure!(copied.success(), "cp: {copied}");
        // It is another one's at the first start, and its own from then on.
        for is_another in [true, false] {
            other.start_agent()?;
            other.wait_until_restored()?;
            ensure!(other.endpoints()?.is_empty(), "{:?}", other.endpoints()?);
            let status = other.volvox("status")?;
            let is_named = status.contains("the state directory that was found is of node");
            ensure!(is_named == is_another, "{status}");
            other.stop_agent()?;
        }
        let aside = other.path("cilium/state/quarantine");
        ensure!(aside.read_dir()?.count() == 1, "{} has no record", aside.display());
        Ok(())
    });
}

#[test]
fn routes_and_rules_that_somebody_removes_are_back() {
    lab::test("routes_and_rules_that_somebody_removes_are_back", || {
        let (_node, [pod]) = Setup::new().pod("shop/a", &LABELS).start()?;
        ip("link set lo up")?;
        for ipv6 in [false, true] {
            let (family, address) = (if ipv6 { "-6" } else { "-4" }, pod.address(ipv6)?);
            let shown = || ip(&format!("{family} route show {address}"));
            ensure!(!shown()?.is_empty(), "no route to {address}");
            ip(&format!("{family} route del {address}"))?;
            within(SOON, "the route", || Ok(!shown()?.is_empty()))?;
            // Replaced by one that leads elsewhere.
            ip(&format!("{family} route replace {address} dev lo"))?;
            within(SOON, "the route", || Ok(shown()?.contains("lxc")))?;
            // Rules are moved a minute after the start, or when nodes are named.
            let rules = || ip(&format!("{family} rule show"));
            if rules()?.contains("100:") {
                ip(&format!("{family} rule del pref 100"))?;
                within(SOON, "the rule", || Ok(rules()?.contains("100:")))?;
            }
        }
        Ok(())
    });
}

#[test]
fn a_node_that_moves_goes_out_by_its_new_address() {
    lab::test("a_node_that_moves_goes_out_by_its_new_address", || {
        let _neighbour = Neighbour::connect()?;
        let mut node = Node::new(Binaries::find()?)?;
        node.start_agent()?;
        node.wait_for_device()?;
        let shown = |node: &Node| node.rest().get::<Value>("/volvox/devices");
        let device = shown(&node)?["devices"][0].clone();
        let name = device["name"].as_str().unwrap_or_default().to_owned();
        let routes = ip(&format!("-4 route show default dev {name}"))?;
        ip(&format!("-4 addr flush dev {name}"))?;
        ip(&format!("addr add 192.0.2.77/24 dev {name}"))?;
        if let Some(default) = routes.lines().next() {
            let _ = ip(&format!("-4 route replace {} dev {name}", default.trim()));
        }
        within(2 * SOON, "the device stands for others by its new address", || {
            Ok(shown(&node)?["devices"][0]["addresses"].to_string().contains("192.0.2.77"))
        })?;
        ip(&format!("link set {name} mtu 1400"))?;
        within(2 * SOON, "the new size", || {
            let config: Value = node.rest().get("/config")?;
            Ok(config["status"]["deviceMTU"] == json!(1400))
        })
    });
}
