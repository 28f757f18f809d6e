//! `volvox install`, `upgrade` and `uninstall` against a real API server. It has no nodes, so nobody
//! waits for them.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use volvox_packaging::{HASH, Values, objects};
use volvox_testbed::lab::{self, ApiClient, ApiServer, Binaries, Etcd, wait_for};

const CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/volvox-config";
const SET: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/volvox";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Where objects of an installation are, besides the definitions.
const PLACES: [&str; 6] = [
    "/api/v1/namespaces/kube-system/serviceaccounts/volvox",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/volvox",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/volvox",
    CONFIG,
    "/api/v1/namespaces/kube-system/configmaps/volvox-values",
    SET,
];

/// Runs the client; what it wrote, and whether it succeeded.
fn volvox(kubeconfig: &Path, arguments: &[&str]) -> Result<(String, bool)> {
    let client = Binaries::find()?.client;
    let ran = Command::new(client)
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_remove("KUBECONFIG")
        .output()?;
    let text = [ran.stdout, ran.stderr].concat();
    Ok((String::from_utf8_lossy(&text).into_owned(), ran.status.success()))
}

fn succeeds(kubeconfig: &Path, arguments: &[&str]) -> Result<String> {
    let (said, done) = volvox(kubeconfig, arguments)?;
    ensure!(done, "{arguments:?}: {said}");
    Ok(said)
}

fn refused(kubeconfig: &Path, arguments: &[&str], words: &str) -> Result<()> {
    let (said, done) = volvox(kubeconfig, arguments)?;
    ensure!(!done && said.contains(words), "{arguments:?} should say {words}: {said}");
    Ok(())
}

/// The versions of all objects.
fn versions(client: &ApiClient) -> Result<BTreeMap<String, Value>> {
    let names = objects(&Values::default());
    let names = names.iter().filter(|it| it["kind"] == "CustomResourceDefinition");
    let definitions = names.filter_map(|it| it["metadata"]["name"].as_str());
    let definitions = definitions.map(|name| format!("{DEFINITIONS}/{name}"));
    let all = definitions.chain(PLACES.map(str::to_owned));
    all.map(|path| {
        let version = client.get(&path)?["metadata"]["resourceVersion"].take();
        Ok((path, version))
    })
    .collect()
}

fn hash(client: &ApiClient) -> Result<Value> {
    Ok(client.get(SET)?["spec"]["template"]["metadata"]["annotations"][HASH].take())
}

#[test]
fn one_command_installs_another_upgrades_and_a_third_removes() {
    lab::test("installed::one_command_installs_another_upgrades_and_a_third_removes", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let etcd = Etcd::start(&lab::path("etcd"))?;
        let server = ApiServer::start(program, &lab::path("api"), &etcd)?;
        let (client, kubeconfig) = (server.client(), server.kubeconfig());
        wait_for("the server has its namespaces", || {
            Ok(client.get("/api/v1/namespaces/kube-system").is_ok())
        })?;
        refused(&kubeconfig, &["upgrade", "--wait", "0"], "volvox install installs it")?;
        let wrong = ["install", "--wait", "0", "--set", "ipam.mod=kubernetes"];
        refused(&kubeconfig, &wrong, "did you mean ipam.mode?")?;
        ensure!(client.get(CONFIG).is_err(), "something was made with a wrong value");

        let install = ["install", "--wait", "0", "--set", "ipv6.enabled=true"];
        let said = succeeds(&kubeconfig, &install)?;
        ensure!(said.contains("definitions: 11 created"), "{said}");
        let before = versions(client).context("not all objects are there")?;
        ensure!(client.get(CONFIG)?["data"]["enable-ipv6"] == "true");
        let said = succeeds(&kubeconfig, &install)?;
        ensure!(said.contains("definitions: 0 created, 0 changed, 11 unchanged"), "{said}");
        let after = versions(client)?;
        ensure!(after == before, "a second installation changed {after:?}, before {before:?}");

        let first = hash(client)?;
        succeeds(&kubeconfig, &["upgrade", "--wait", "0", "--set", "debug.enabled=true"])?;
        let data = client.get(CONFIG)?["data"].take();
        ensure!(data["debug"] == "true" && data["enable-ipv6"] == "true", "{data}");
        ensure!(hash(client)? != first, "the pods are not replaced");
        let wrong = ["upgrade", "--wait", "0", "--set", "ipv6.enabled=perhaps"];
        refused(&kubeconfig, &wrong, "write true or false")?;
        refused(&kubeconfig, &install, "installed with other values (debug.enabled)")?;

        succeeds(&kubeconfig, &["uninstall", "--definitions", "--wait", "10s"])?;
        for place in PLACES {
            ensure!(client.get(place).is_err(), "{place} is still there");
        }
        wait_for("no definition is there", || {
            let all = client.get(DEFINITIONS)?["items"].as_array().map(Vec::len);
            Ok(all == Some(0))
        })
    });
}
