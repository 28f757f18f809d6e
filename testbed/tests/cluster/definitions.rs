//! The definitions of Cilium's kinds that come with the agent: a real server takes them, keeps all
//! that agents and operators write, and refuses what is wrong.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_inspect::manifests;
use volvox_packaging::definitions;
use volvox_testbed::lab::{
    self, ApiClient, ApiServer, Etcd,
    objects::{CILIUM_POLICIES, denial},
    wait_for,
};

use crate::Cluster;

const LABEL: &str = "io.cilium.k8s.crd.schema.version";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// One object of each kind, with every field that somebody writes.
const GOOD: &str = include_str!("definitions/good.yaml");
/// Objects with one fault each.
const BAD: &str = include_str!("definitions/bad.yaml");

fn objects(text: &str) -> Result<Vec<Value>> {
    manifests::objects(text).map_err(anyhow::Error::msg)
}

/// Where objects of that one's kind are made, in a version.
fn collection(object: &Value, definitions: &[Value], version: &str) -> Result<String> {
    let kind = &object["kind"];
    let definition = definitions.iter().find(|it| it["spec"]["names"]["kind"] == *kind);
    let spec = &definition.with_context(|| format!("{kind} is not defined"))?["spec"];
    let plural = spec["names"]["plural"].as_str().context("a definition has no plural")?;
    Ok(match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/apis/cilium.io/{version}/namespaces/{namespace}/{plural}"),
        None => format!("/apis/cilium.io/{version}/{plural}"),
    })
}

fn version(object: &Value) -> Result<&str> {
    let version = object["apiVersion"].as_str().context("an object has no version")?;
    version.strip_prefix("cilium.io/").context("it is of another group")
}

/// Has everything defined; waits until the server serves it.
fn define(client: &ApiClient, definitions: &[Value]) -> Result<()> {
    for definition in definitions {
        client.create(DEFINITIONS, definition)?;
    }
    wait_until_established(client, definitions)
}

fn wait_until_established(client: &ApiClient, definitions: &[Value]) -> Result<()> {
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().context("it has no name")?;
        wait_for(&format!("{name} is established"), || {
            let Ok(now) = client.get(&format!("{DEFINITIONS}/{name}")) else { return Ok(false) };
            let conditions = now["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let structural = conditions.iter().all(|it| it["type"] != "NonStructuralSchema");
            ensure!(structural, "{name}: {conditions:?}");
            let established = |it: &Value| it["type"] == "Established" && it["status"] == "True";
            Ok(conditions.iter().any(established))
        })?;
    }
    Ok(())
}

/// Makes one object; what the server keeps of it, in each version that it serves, is all of it.
fn keep(client: &ApiClient, object: &Value, definitions: &[Value]) -> Result<()> {
    let all = collection(object, definitions, version(object)?)?;
    let name = object["metadata"]["name"].as_str().context("an object has no name")?;
    wait_for("the kind is served", || Ok(client.get(&all).is_ok()))?;
    client.create(&all, object)?;
    let one = format!("{all}/{name}");
    let parts = || object.as_object().into_iter().flatten();
    let is_there = |now: &Value| {
        let lost = parts().find(|(key, part)| !is_part(key, part, now));
        lost.map(|(key, part)| format!("{one} lost of {key}: {part}, has {}", now[key]))
    };
    if object.get("status").is_some() && client.get(&one)?.get("status").is_none() {
        client.patch(&format!("{one}/status"), &json!({ "status": object["status"] }))?;
    }
    let definition = definitions.iter().find(|it| it["spec"]["names"]["kind"] == object["kind"]);
    let versions = definition.and_then(|it| it["spec"]["versions"].as_array());
    for served in versions.into_iter().flatten().filter_map(|it| it["name"].as_str()) {
        let now = client.get(&format!("{}/{name}", collection(object, definitions, served)?))?;
        if let Some(lost) = is_there(&now) {
            anyhow::bail!("{served}: {lost}");
        }
    }
    Ok(())
}

/// Whether a part of an object is as it was written; the server adds metadata of its own.
fn is_part(key: &str, part: &Value, now: &Value) -> bool {
    match key {
        "apiVersion" => true,
        "metadata" => part
            .as_object()
            .is_some_and(|all| all.iter().all(|(key, it)| now["metadata"][key] == *it)),
        key => now[key] == *part,
    }
}

#[test]
fn a_server_keeps_what_is_good_and_refuses_what_is_bad() {
    lab::test("definitions::a_server_keeps_what_is_good_and_refuses_what_is_bad", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let etcd = Etcd::start(&lab::path("etcd"))?;
        let server = ApiServer::start(program, &lab::path("api"), &etcd)?;
        let (client, definitions) = (server.client(), definitions());
        define(client, &definitions)?;
        let good = objects(GOOD)?;
        ensure!(good.len() == definitions.len(), "one object of each kind");
        good.iter().try_for_each(|object| keep(client, object, &definitions))?;
        let bad = objects(BAD)?;
        ensure!(bad.len() >= 40, "only {} bad objects", bad.len());
        for object in bad {
            let all = collection(&object, &definitions, version(&object)?)?;
            let name = &object["metadata"]["name"];
            let Err(refusal) = client.create(&all, &object) else {
                anyhow::bail!("{} {name} was taken", object["kind"]);
            };
            let refusal = format!("{refusal:#}");
            ensure!(refusal.contains("422 Unprocessable"), "{name}: {refusal}");
        }
        Ok(())
    });
}

/// What is missing or older is brought by the agent, which then follows it without a restart.
#[test]
fn an_agent_registers_what_it_is_told_to() {
    lab::test("definitions::an_agent_registers_what_it_is_told_to", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let (older, newer) = ("ciliumnodes.cilium.io", "ciliumcidrgroups.cilium.io");
        let mut cluster = Cluster::start_with(program, |server, node| {
            node.set_flag("register-crds", Some("true"));
            lab::objects::define(server.client(), "ciliumnodes", "CiliumNode", "Cluster")?;
            let mut group = definitions().into_iter().find(|it| it["metadata"]["name"] == newer);
            let group = group.as_mut().context("no definition of groups")?;
            group["metadata"]["labels"][LABEL] = json!("99.0.0");
            server.client().create(DEFINITIONS, group)
        })?;
        wait_until_established(cluster.server.client(), &definitions())?;
        for definition in definitions() {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let own = &definition["metadata"]["labels"][LABEL];
            let expected = if name == newer { json!("99.0.0") } else { own.clone() };
            wait_for(&format!("{name} has version {expected}"), || {
                let now = cluster.server.client().get(&format!("{DEFINITIONS}/{name}"))?;
                Ok(now["metadata"]["labels"][LABEL] == expected)
            })?;
        }
        let replaced = cluster.server.client().get(&format!("{DEFINITIONS}/{older}"))?;
        let columns = &replaced["spec"]["versions"][0]["additionalPrinterColumns"];
        ensure!(columns.is_array(), "{older} is not replaced: {replaced}");

        cluster.friend_and_stranger_reach([true, false])?;
        wait_for("policies are served", || {
            Ok(cluster.server.client().get(CILIUM_POLICIES).is_ok())
        })?;
        cluster.server.client().create(CILIUM_POLICIES, &denial("friend"))?;
        cluster.friend_and_stranger_reach([false, false])?;
        cluster.server.client().delete(&format!("{CILIUM_POLICIES}/denied"))?;
        cluster.friend_and_stranger_reach([true, false])?;
        let status = cluster.node.rest().get::<Value>("/healthz")?.to_string();
        ensure!(!status.contains("CustomResourceDefinition"), "{status}");
        Ok(())
    });
}

/// What one rule may say is the same in both kinds of policies.
#[test]
fn both_kinds_of_policies_have_one_schema() -> Result<()> {
    let all = definitions();
    let schema = |kind: &str| {
        let definition = all.iter().find(|it| it["spec"]["names"]["kind"] == kind);
        definition.map(|it| &it["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"])
    };
    let namespaced = schema("CiliumNetworkPolicy").context("there is no definition")?;
    let clusterwide = schema("CiliumClusterwideNetworkPolicy").context("there is no definition")?;
    assert_eq!(namespaced["spec"], clusterwide["spec"]);
    assert_eq!(namespaced["specs"], clusterwide["specs"]);
    assert!(namespaced["spec"]["properties"]["ingress"].is_object());
    Ok(())
}
