//! Tests: services of a real API server, with packets to their pods and with policies that follow
//! the addresses behind them.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::{
    lab::{self, ApiClient, ApiServer, Netns, Node, ip},
    traffic::{Kind, Plan, Stream},
};

use super::{
    Cluster, PORT, arrives,
    objects::{self, CILIUM_POLICIES, NAMESPACE},
};

/// Addresses outside the cluster.
const OUTSIDE: [&str; 2] = ["192.0.2.201", "192.0.2.202"];
/// Where the service is that they are behind,
const SERVICE: &str = "/api/v1/namespaces/shop/services";
/// the address of one that has pods,
const ADDRESS: &str = "10.96.0.77";
/// and where slices are, in some version.
const DISCOVERY: &str = "/apis/discovery.k8s.io";

/// A host outside the cluster that has these addresses, behind a cable of the node.
fn outside() -> Result<Netns> {
    let outside = Netns::create("outside")?;
    ip("link add cable0 type veth peer eth0 netns outside")?;
    ip("address add 198.51.100.1/24 dev cable0")?;
    ip("link set cable0 up")?;
    ip("-n outside address add 198.51.100.2/24 dev eth0")?;
    ip("-n outside link set eth0 up")?;
    for address in OUTSIDE {
        ip(&format!("-n outside address add {address}/32 dev eth0"))?;
        ip(&format!("route add {address}/32 via 198.51.100.2"))?;
    }
    // What it answers to the first one comes from there, also to the node, as which pods go out.
    ip(&format!("-n outside route replace 198.51.100.0/24 dev eth0 src {}", OUTSIDE[0]))?;
    ip(&format!("-n outside route add default via 198.51.100.1 src {}", OUTSIDE[0]))?;
    Ok(outside)
}

fn endpoints(addresses: &[&str]) -> Value {
    addresses.iter().map(|it| json!({ "addresses": [it] })).collect()
}

/// Makes the service and its slice; where the slice is.
fn serve(client: &ApiClient, address: &str) -> Result<String> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "lan", "namespace": NAMESPACE },
        "spec": { "ports": [{ "port": 80 }] },
    });
    client.create(SERVICE, &service)?;
    let (version, slices) = discovery(client)?;
    let slice = json!({
        "apiVersion": version, "kind": "EndpointSlice",
        "metadata": { "name": "lan-1", "namespace": NAMESPACE,
                      "labels": { "kubernetes.io/service-name": "lan" } },
        "addressType": "IPv4", "endpoints": endpoints(&[address]),
    });
    client.create(&slices, &slice)?;
    Ok(format!("{slices}/lan-1"))
}

/// In which version the server has EndpointSlices, and where.
pub(super) fn discovery(client: &ApiClient) -> Result<(String, String)> {
    let versions = ["v1", "v1beta1"].into_iter();
    let mut served =
        versions.filter(|version| client.get(&format!("{DISCOVERY}/{version}")).is_ok());
    let version = served.next().context("the server has no EndpointSlices")?;
    let slices = format!("{DISCOVERY}/{version}/namespaces/{NAMESPACE}/endpointslices");
    Ok((format!("discovery.k8s.io/{version}"), slices))
}

/// What the cluster says of a service, whole: friend's packets to its address reach web, also while
/// server and agent are killed.
#[test]
fn packets_to_a_service_of_the_cluster_reach_its_pods() {
    lab::test("services::packets_to_a_service_of_the_cluster_reach_its_pods", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let cluster = Cluster::start(program)?;
        let Cluster { mut node, server, friend, web, .. } = cluster;
        let client = server.client();
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "web", "namespace": NAMESPACE },
            "spec": { "clusterIP": ADDRESS, "ports": [
                { "name": "main", "port": PORT, "protocol": "UDP" },
            ] },
        });
        client.create(SERVICE, &service)?;
        let (version, slices) = discovery(client)?;
        let slice = json!({
            "apiVersion": version, "kind": "EndpointSlice",
            "metadata": { "name": "web-1", "namespace": NAMESPACE,
                          "labels": { "kubernetes.io/service-name": "web" } },
            "addressType": "IPv4",
            "ports": [{ "name": "main", "port": PORT, "protocol": "UDP" }],
            "endpoints": endpoints(&[&web.address(false)?.to_string()]),
        });
        client.create(&slices, &slice)?;
        // Beside that of the API server itself, which has no slice here.
        let is_served = |node: &mut Node| {
            Ok(node.served()?.iter().any(|it| {
                it["frontend-address"]["ip"] == ADDRESS
                    && it["backend-addresses"].as_array().is_some_and(|all| all.len() == 1)
            }))
        };
        node.wait("the service is not served", is_served)?;
        let numbers = |node: &Node| -> Result<Vec<Value>> {
            let of = |it: &Value| json!([it["id"], it["frontend-address"]]);
            Ok(node.served()?.iter().map(of).collect())
        };
        let before = numbers(&node)?;
        let from = friend.netns.clone();
        let stream = Stream::start(Plan {
            kind: Kind::Udp,
            from,
            to: web.netns.clone(),
            target: (ADDRESS.parse::<IpAddr>()?, PORT).into(),
            rate: 200,
        })?;
        stream.wait_for_answers(20)?;
        for _ in 0..3 {
            node.kill_agent()?;
            node.start_agent()?;
            node.wait("the service is not served again", is_served)?;
        }
        ensure!(numbers(&node)? == before, "numbers moved");
        let report = stream.stop()?;
        ensure!(report.is_clean(), "{report:?}");
        Ok(())
    });
}

/// `friend` reaches nothing but the service.
fn policy() -> Value {
    let services = json!([{ "k8sService": { "serviceName": "lan", "namespace": NAMESPACE } }]);
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "lan", "namespace": NAMESPACE },
        "spec": {
            "endpointSelector": { "matchLabels": { "app": "friend" } },
            "egress": [{ "toServices": services }],
        },
    })
}

#[test]
fn a_policy_follows_the_addresses_behind_a_service() {
    lab::test("services::a_policy_follows_the_addresses_behind_a_service", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let outside = outside()?;
        let cluster = Cluster::start_with(program, |server, _| {
            let client = server.client();
            objects::define(client, "ciliumnetworkpolicies", "CiliumNetworkPolicy", "Namespaced")
        })?;
        let Cluster { mut node, server, friend, web, .. } = cluster;
        let client = server.client();
        let targets: Vec<IpAddr> = OUTSIDE.iter().map(|it| it.parse()).collect::<Result<_, _>>()?;
        let mut reach = |expected: [bool; 3]| {
            node.wait(&format!("reaching outside and web is not {expected:?}"), |_| {
                let one = arrives(&friend.netns, &outside, targets[0])?;
                let two = arrives(&friend.netns, &outside, targets[1])?;
                Ok([one, two, arrives(&friend.netns, &web.netns, web.address(false)?)?] == expected)
            })
        };
        reach([true, true, true])?;
        let slice = serve(client, OUTSIDE[0])?;
        let is_served = || Ok(client.get(CILIUM_POLICIES).is_ok());
        lab::wait_for("the definition to be served", is_served)?;
        client.create(CILIUM_POLICIES, &policy())?;
        reach([true, false, false])?;
        let stream = Stream::start(Plan {
            kind: Kind::Udp,
            from: friend.netns.clone(),
            to: outside.clone(),
            target: (targets[0], PORT + 1).into(),
            rate: 200,
        })?;
        for _ in 0..3 {
            client.patch(&slice, &json!({ "endpoints": endpoints(&OUTSIDE) }))?;
            reach([true, true, false])?;
            client.patch(&slice, &json!({ "endpoints": endpoints(&OUTSIDE[..1]) }))?;
            reach([true, false, false])?;
        }
        let report = stream.stop()?;
        ensure!(report.is_clean(), "{report:?}");
        // It selects pods from now on.
        let selector = json!({ "spec": { "selector": { "app": "web" } } });
        client.patch(&format!("{SERVICE}/lan"), &selector)?;
        reach([false, false, true])?;
        client.delete(&format!("{SERVICE}/lan"))?;
        reach([false, false, false]).map(drop)
    });
}
