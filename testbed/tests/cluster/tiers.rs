//! ClusterNetworkPolicy of a real API server, with packets: tiers, priorities that change, what is passed
//! on, and a definition that comes and goes.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::{
    lab::{
        self, ApiClient, ApiServer,
        objects::{RANKED_POLICIES, define_ranked, ranked_policy},
    },
    traffic::{Kind, Plan, Stream},
};

use crate::{Cluster, PORT, objects};

fn app(name: &str) -> Value {
    json!({ "pods": {
        "namespaceSelector": {}, "podSelector": { "matchLabels": { "app": name } },
    } })
}

/// A rule for datagrams of that pod to the port that is tried.
fn about(action: &str, from: &str, name: &str) -> Value {
    json!({
        "name": name, "action": action, "from": [app(from)],
        "protocols": [{ "udp": { "destinationPort": { "range": { "start": PORT, "end": PORT + 5 } } } }],
    })
}

fn create(
    client: &ApiClient,
    name: &str,
    tier: &str,
    priority: u16,
    rules: &[Value],
) -> Result<()> {
    let policy = ranked_policy(name, tier, priority, json!({ "ingress": rules }));
    client.create(RANKED_POLICIES, &policy)
}

fn change(client: &ApiClient, name: &str, spec: &Value) -> Result<()> {
    client.patch(&format!("{RANKED_POLICIES}/{name}"), &json!({ "spec": spec }))
}

/// Whether what people ask says that.
fn said(cluster: &mut Cluster, words: &str, expected: &[&str]) -> Result<()> {
    let text = cluster.node.volvox(words)?;
    ensure!(expected.iter().all(|part| text.contains(part)), "volvox {words}: {text}");
    Ok(())
}

/// What `volvox why` says of datagrams from a pod to web.
fn why(cluster: &mut Cluster, from: &str, expected: &str) -> Result<()> {
    let pod = if from == "friend" { &cluster.friend } else { &cluster.stranger };
    let words = format!(
        "why pod-name:shop/web --dropped --from {} --port {PORT} --protocol udp",
        pod.address(false)?
    );
    said(cluster, &words, &[expected])
}

#[test]
fn tiers_priorities_and_passes_decide_as_they_change() {
    lab::test("tiers::tiers_priorities_and_passes_decide_as_they_change", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        // Nobody defined the kind: nobody waits for it.
        let mut cluster = Cluster::start(program)?;
        cluster.friend_and_stranger_reach([true, false])?;
        let client = cluster.server.client();
        define_ranked(client)?;
        cluster.node.wait("the definition is not served", |_| {
            Ok(cluster.server.client().get(RANKED_POLICIES).is_ok())
        })?;

        // What Admin accepts, no NetworkPolicy denies; and what it denies, none allows.
        let client = cluster.server.client();
        create(client, "open", "Admin", 10, &[about("Accept", "stranger", "let-in")])?;
        cluster.friend_and_stranger_reach([true, true])?;
        create(
            cluster.server.client(),
            "shut",
            "Admin",
            5,
            &[about("Deny", "friend", "keep-out")],
        )?;
        cluster.friend_and_stranger_reach([false, true])?;
        why(
            &mut cluster,
            "friend",
            "denied by clusternetworkpolicies/shut: ClusterNetworkPolicy shut: spec.ingress[0] \
             (\"keep-out\", Deny, tier Admin, priority 5)",
        )?;
        why(&mut cluster, "stranger", "\"let-in\", Accept, tier Admin, priority 10")?;
        said(
            &mut cluster,
            "policy status",
            &["ClusterNetworkPolicy shut", "ClusterNetworkPolicy open"],
        )?;

        // Priorities change: the other is asked first, and names the first of equals.
        let both = [about("Accept", "stranger", "let-in"), about("Accept", "friend", "let-in-too")];
        change(cluster.server.client(), "open", &json!({ "ingress": both }))?;
        change(cluster.server.client(), "shut", &json!({ "priority": 11 }))?;
        cluster.friend_and_stranger_reach([true, true])?;
        change(cluster.server.client(), "shut", &json!({ "priority": 10 }))?;
        cluster.node.wait("nobody names the equals", |node| {
            let status = node.json("policy status")?;
            let all = status["policies"].as_array().cloned().unwrap_or_default();
            Ok(all.iter().any(|it| it["same_priority"][0]["name"] == "open"))
        })?;
        cluster.friend_and_stranger_reach([true, true])?;
        change(cluster.server.client(), "shut", &json!({ "priority": 1 }))?;
        cluster.friend_and_stranger_reach([false, true])?;

        // What is passed on, NetworkPolicy decides, whatever else the tier says.
        let pass = [about("Pass", "friend", "yours"), about("Pass", "stranger", "yours")];
        change(cluster.server.client(), "shut", &json!({ "ingress": pass }))?;
        cluster.friend_and_stranger_reach([true, false])?;

        // Where nobody decides, Baseline does; where a NetworkPolicy does, Baseline has no say.
        let base = [about("Deny", "friend", "by-default")];
        create(cluster.server.client(), "base", "Baseline", 0, &base)?;
        cluster.server.client().delete(&format!("{}/web", objects::POLICIES))?;
        cluster.friend_and_stranger_reach([false, true])?;
        why(&mut cluster, "friend", "\"by-default\", Deny, tier Baseline, priority 0")?;
        objects::policy(cluster.server.client(), &["friend"])?;
        cluster.friend_and_stranger_reach([true, false])
    });
}

#[test]
fn a_restart_keeps_what_tiers_decided_and_loses_nothing() {
    lab::test("tiers::a_restart_keeps_what_tiers_decided_and_loses_nothing", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let mut cluster = Cluster::start_with(program, |server, _| {
            define_ranked(server.client())?;
            lab::wait_for("the kind is served", || {
                Ok(server.client().get(RANKED_POLICIES).is_ok())
            })?;
            let rules =
                [about("Accept", "stranger", "let-in"), about("Deny", "friend", "keep-out")];
            create(server.client(), "guard", "Admin", 5, &rules)
        })?;
        cluster.friend_and_stranger_reach([false, true])?;
        let stream = Stream::start(Plan {
            kind: Kind::Udp,
            from: cluster.stranger.netns.clone(),
            to: cluster.web.netns.clone(),
            target: SocketAddr::new(cluster.web.address(false)?, PORT + 1),
            rate: 200,
        })?;
        cluster.restart()?;
        cluster.friend_and_stranger_reach([false, true])?;
        // Without a server what was decided stays, also what a NetworkPolicy says otherwise.
        cluster.server.hang()?;
        cluster.restart()?;
        cluster.friend_and_stranger_reach([false, true])?;
        cluster.server.kill()?;
        cluster.restart()?;
        cluster.friend_and_stranger_reach([false, true])?;
        cluster.server.start_again()?;
        // The kind goes with its definition, and the policies with it.
        let report = stream.stop()?;
        ensure!(report.is_clean(), "{report:?}");
        let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/\
                          clusternetworkpolicies.policy.networking.k8s.io";
        cluster.server.client().delete(definition)?;
        cluster.friend_and_stranger_reach([true, false])
    });
}
