//! What people ask besides: whether packets pass and why not, lists as kubectl shows them, and one archive of
//! all that is known.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use volvox_testbed::lab::{self, Node, Pod, wait_for};

use super::{monitor::Monitor, setup::start};

/// Stands where secrets stand.
const SECRET: &str = "S3CRET";

#[test]
fn what_people_ask_is_answered_as_the_datapath_does() {
    lab::test("asks::what_people_ask_is_answered_as_the_datapath_does", || {
        let (mut node, pods) = start()?;
        node.wait_for_ready(2)?;
        a_drop_says_what_to_ask(&node, &pods)?;
        both_ends_are_judged(&node, &pods)?;
        a_service_is_followed_to_its_backends(&mut node, &pods)?;
        lists_are_as_kubectl_shows_them(&node)?;
        flows_are_forgotten_once_somebody_says_so(&node)?;
        no_secret_is_in_a_sysdump(&node)?;
        a_recording_speaks_of_pods(&mut node)
    });
}

/// The command that is printed with a drop names the rule that dropped it.
fn a_drop_says_what_to_ask(node: &Node, pods: &[Pod; 2]) -> Result<()> {
    let monitor = Monitor::start(node)?;
    let drop = monitor.wait_for_drop(pods)?;
    let command = drop["why"].as_str().with_context(|| format!("no command: {drop}"))?;
    let words = command.strip_prefix("volvox ").context("a command of the client")?;
    let traffic = node.json(words)?;
    ensure!(traffic["verdict"] == "denied", "{traffic}");
    let ingress = &traffic["paths"][0]["ingress"]["judged"];
    ensure!(ingress["fate"] == "denied", "{traffic}");
    ensure!(ingress["rules"][0]["path"] == "spec.ingressDeny[0]", "{traffic}");
    ensure!(traffic["from"]["name"] == "shop/bad", "{traffic}");
    Ok(())
}

fn both_ends_are_judged(node: &Node, pods: &[Pod; 2]) -> Result<()> {
    let text = node.volvox("why bad --to shop/web:80")?;
    for words in [
        "shop/bad to shop/web:80: denied.",
        "egress of shop/bad: allowed: no policy is enforced",
        "ingress of shop/web: denied",
        "selected by: CiliumNetworkPolicy shop/web (enforces)",
        "spec.ingressDeny[0]",
    ] {
        ensure!(text.contains(words), "{words}: {text}");
    }
    // Nobody allows it, and nobody denies it: what is nearest is told. The packet is dropped, too.
    let web = pods[0].address(false)?;
    let text = node.volvox(&format!("why 10.99.0.1 --to {web}:81"))?;
    for words in [
        "outside of the cluster",
        "no rule allows it",
        "nearest: web.yaml: CiliumNetworkPolicy shop/web: spec.ingress[0]",
        "fails at the peer: app=client is wanted, and it has no app",
        "fails at the port: TCP 80 is meant, and not TCP 81",
    ] {
        ensure!(text.contains(words), "{words}: {text}");
    }
    let out = node.json("why shop/web --to 192.0.2.77:443")?;
    ensure!(out["verdict"] == "allowed" && out["paths"][0]["to"]["kind"] == "outside", "{out}");
    // Both rulings are those of the rows in the kernel.
    let bad = pods[1].address(false)?;
    let rows = node.json(&format!("why web --dropped --from {bad} --port 80"))?;
    ensure!(rows[0]["verdict"] == "denied", "{rows}");
    for (words, code) in [
        ("why shop/web --to nobody:80", 4),
        ("why shop/web --to shop/bad", 2),
        ("why shop/web --to shop/bad:http", 2),
        ("why 10.99.0.1 --to 10.99.0.2:80", 4),
    ] {
        let output = node.client(words).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(code), "volvox {words}: {complaint}");
    }
    Ok(())
}

fn a_service_is_followed_to_its_backends(node: &mut Node, pods: &[Pod; 2]) -> Result<()> {
    let service = super::SERVICE.replace("10.11.0.9", &pods[0].address(false)?.to_string());
    node.write_manifest("service.yaml", &service)?;
    node.wait("the service is not served", |node| Ok(!node.served()?.is_empty()))?;
    for to in ["svc/shop/web:80", "web.shop.svc:80", "10.96.0.7:80", "svc/web"] {
        let traffic = node.json(&format!("why bad --to {to}"))?;
        ensure!(traffic["service"]["name"] == "shop/web", "{to}: {traffic}");
        let path = &traffic["paths"][0];
        ensure!(path["to"]["name"] == "shop/web" && path["port"] == 8080, "{to}: {traffic}");
        ensure!(traffic["verdict"] == "denied", "{to}: {traffic}");
    }
    Ok(())
}

fn lists_are_as_kubectl_shows_them(node: &Node) -> Result<()> {
    let ids = node.volvox("get ep -n shop -o jsonpath={.items[*].id}")?;
    ensure!(ids.split_whitespace().count() == 2, "{ids}");
    ensure!(node.volvox("ep list -n none -o json")?.trim() == "[]");
    ensure!(node.volvox("ep list -A -o yaml")?.starts_with("- id: "));
    ensure!(node.volvox("ep list -o wide")?.contains("CONTAINER"));
    ensure!(node.volvox("get svc -n shop")?.contains("shop/web"));
    let selectors = node.json("policy selectors")?;
    let all = selectors.as_array().context("a list")?;
    let selects = |it: &Value| it["identities"].as_array().is_some_and(|ids| !ids.is_empty());
    ensure!(all.iter().any(selects), "{selectors}");
    let metrics = node.json("bpf metrics list")?;
    let dropped = |it: &Value| it["reason-text"] == "Policy denied by denylist";
    ensure!(metrics.as_array().is_some_and(|all| all.iter().any(dropped)), "{metrics}");
    let events = node.json("map events policy")?;
    ensure!(events.as_array().is_some_and(|all| !all.is_empty()), "{events}");
    ensure!(node.volvox("status --verbose")?.contains("ALLOCATED ADDRESS"));
    node.volvox("status --wait --wait-duration 2m")?;
    let version = node.json("version")?;
    ensure!(version["client"].is_string() && version["agent"].is_string(), "{version}");
    let changed = node.volvox("config TraceNotification=Disabled")?;
    ensure!(changed.contains("TraceNotification          Disabled"), "{changed}");
    node.volvox("config TraceNotification=Enabled")?;
    Ok(())
}

fn flows_are_forgotten_once_somebody_says_so(node: &Node) -> Result<()> {
    for map in ["ct", "nat"] {
        let output = node.client(&format!("bpf {map} flush")).output()?;
        ensure!(output.status.code() == Some(2), "nobody said yes");
        node.volvox(&format!("bpf {map} flush --yes"))?;
    }
    Ok(())
}

/// Neither the environment nor a log puts a secret into the archive.
fn no_secret_is_in_a_sysdump(node: &Node) -> Result<()> {
    let (archive, log) = (lab::path("dump.tar.gz"), lab::path("agent.log"));
    fs::write(
        &log,
        format!("etcd at http://root:{SECRET}@10.0.0.1\npassword={SECRET}\nthe end\n"),
    )?;
    let words = format!("-o json sysdump --file {} --log {}", archive.display(), log.display());
    let output = node.client(&words).env("ETCD_PASSWORD", SECRET).env("TOKEN", SECRET).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout)?;
    let missing = told["missing"].to_string();
    ensure!(!missing.contains("api/") && !missing.contains("maps/"), "{missing}");
    let unpacked = Command::new("tar").arg("xzOf").arg(&archive).output()?;
    ensure!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
    let all = String::from_utf8_lossy(&unpacked.stdout);
    ensure!(!all.contains(SECRET), "a secret is in the archive");
    for words in ["the end", "shop/web", "\"PutIpcache\"", "cilium_endpoint"] {
        ensure!(all.contains(words), "{words} is not in the archive");
    }
    Ok(())
}

/// Also where nobody can be asked any more, and on another machine.
fn a_recording_speaks_of_pods(node: &mut Node) -> Result<()> {
    node.kill_agent()?;
    let ring = node.path("cilium/flight.ring");
    let copy = lab::path("flight-of-a-dead-node.ring");
    fs::copy(&ring, &copy)?;
    let output = Command::new(&node.binaries().client)
        .args(["--bpf-root", "/nowhere", "trace", "--endpoint", "shop/web", "--life"])
        .arg(&copy)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ensure!(said.contains("(shop/web)") && !said.contains("(shop/bad)  begins"), "{said}");
    wait_for("why of the dead", || Ok(node.volvox("why shop/web")?.contains("Endpoint ")))
}
