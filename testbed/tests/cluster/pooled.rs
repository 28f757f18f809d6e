//! Addresses of several pools: a real API server, an operator and an agent, a pod of an annotated pool,
//! restarts, and prefixes that go back, also where the agent is killed in the middle.

use std::{net::IpAddr, path::PathBuf};

use anyhow::{Context, Result, ensure};
use ipnet::IpNet;
use serde_json::{Value, json};
use volvox_testbed::lab::{
    self, ApiServer, Binaries, Etcd, NODE_NAME, Neighbour, Node, Operator, Pod, wait_for,
};

use crate::{objects, published::cilium_node};

const POOLS: &str = "/apis/cilium.io/v2alpha1/ciliumpodippools";
const PODS: &str = "/api/v1/namespaces/shop/pods";
/// Which addresses the pools have.
const DEFAULT: [&str; 2] = ["10.62.0.0/24", "fd00:62::/112"];
const BLUE: [&str; 2] = ["10.63.0.0/24", "fd00:63::/112"];

/// Flags of operators.
const FLAGS: [&str; 3] = [
    "--ipam=multi-pool",
    "--enable-ipv6=true",
    "--auto-create-cilium-pod-ip-pools=default=ipv4-cidrs:10.62.0.0/24;ipv4-mask-size:28;\
     ipv6-cidrs:fd00:62::/112;ipv6-mask-size:124",
];

struct Pooled {
    agent: Node,
    server: ApiServer,
    operator: Operator,
    _etcd: Etcd,
}

/// A cluster with two pools, and an agent that takes addresses of them.
fn start(program: PathBuf) -> Result<Pooled> {
    let mut agent = Node::new(Binaries::find()?)?;
    agent.set_flag("ipv4-range", Some("auto"));
    agent.set_flag("ipv6-range", Some("auto"));
    agent.set_flag("ipam", Some("multi-pool"));
    let etcd = Etcd::start(&agent.path("etcd"))?;
    let server = ApiServer::start(program, &agent.path("api"), &etcd)?;
    let kubeconfig = server.kubeconfig().display().to_string();
    agent.set_flag("k8s-kubeconfig-path", Some(&kubeconfig));
    objects::namespace(server.client())?;
    let operator = Operator::start(0, &server.kubeconfig(), &agent.path("."), &FLAGS)?;
    wait_for("pools are served", || Ok(server.client().get(POOLS).is_ok()))?;
    let blue = json!({
        "apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool",
        "metadata": {
            "name": "blue", "annotations": { "ipam.cilium.io/skip-masquerade": "true" },
        },
        "spec": {
            "ipv4": { "cidrs": [BLUE[0]], "maskSize": 29 },
            "ipv6": { "cidrs": [BLUE[1]], "maskSize": 125 },
        },
    });
    server.client().create(POOLS, &blue)?;
    objects::node(server.client(), NODE_NAME)?;
    agent.exec_agent()?;
    agent.wait_for_api()?;
    Ok(Pooled { agent, server, operator, _etcd: etcd })
}

impl Pooled {
    /// A pod, of that pool if one is named.
    fn pod(&self, name: &str, pool: Option<&str>) -> Result<Pod> {
        let client = self.server.client();
        let annotations = pool.map(|pool| json!({ "ipam.cilium.io/ip-pool": pool }));
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "shop", "annotations": annotations },
            "spec": { "nodeName": NODE_NAME, "containers": [{ "name": "main", "image": "lab" }] },
        });
        client.create(PODS, &pod)?;
        let made = client.get(&format!("{PODS}/{name}"))?;
        let uid = made["metadata"]["uid"].as_str().context("no UID")?.to_owned();
        Pod::of_cluster(&self.agent, &format!("shop/{name}"), &uid)
    }

    /// The node's prefixes of a pool, as its CiliumNode says.
    fn has(&self, pool: &str) -> Result<Vec<IpNet>> {
        let node = self.server.client().get(&cilium_node())?;
        let all = node["spec"]["ipam"]["pools"]["allocated"].as_array().cloned();
        let own = all.unwrap_or_default().into_iter().find(|it| it["pool"] == pool);
        let cidrs = own.and_then(|it| it["cidrs"].as_array().cloned()).unwrap_or_default();
        cidrs.iter().map(|it| Ok(it.as_str().context("no text")?.parse()?)).collect()
    }

    /// What the agent says of its prefixes of a pool, of each family.
    fn states(&self, pool: &str) -> Result<Vec<String>> {
        let shown: Value = self.agent.rest().get("/volvox/pools")?;
        let all = shown["prefixes"].as_array().cloned().unwrap_or_default();
        let own = all.iter().filter(|it| it["pool"] == pool);
        Ok(own.filter_map(|it| Some(it["state"].as_str()?.to_owned())).collect())
    }

    /// A server that starts is left alone for a while; new pods wait for what it says of pools.
    fn wait_until_followed(&self) -> Result<()> {
        wait_for("all is followed", || {
            let status = self.agent.rest().get::<Value>("/healthz")?.to_string();
            Ok(!status.contains("are not followed since") && !status.contains("are being listed"))
        })
    }

    fn addresses(&self) -> Result<Vec<String>> {
        let of = |view: &Value| {
            view["status"]["networking"]["addressing"][0]["ipv4"].as_str().map(str::to_owned)
        };
        Ok(self.agent.endpoints()?.iter().filter_map(of).collect())
    }
}

fn is_in(pod: &Pod, ranges: [&str; 2]) -> Result<bool> {
    for (range, ipv6) in ranges.into_iter().zip([false, true]) {
        if !range.parse::<IpNet>()?.contains(&pod.address(ipv6)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Fails unless who is outside of the cluster sees the pod's own addresses, or those of its node.
fn is_seen(neighbour: &Neighbour, pod: &Pod, as_itself: bool) -> Result<()> {
    for ipv6 in [false, true] {
        let [_, node] = Neighbour::addresses(ipv6);
        let expected = if as_itself { pod.address(ipv6)? } else { node };
        wait_for(&format!("{pod:?} is seen as {expected}"), || {
            Ok(neighbour.sees(pod, ipv6)? == Some(expected))
        })?;
    }
    Ok(())
}

#[test]
fn pods_have_addresses_of_their_pools_and_prefixes_go_back() {
    lab::test("pooled::pods_have_addresses_of_their_pools_and_prefixes_go_back", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let neighbour = Neighbour::connect()?;
        let mut cluster = start(program)?;
        let plain = cluster.pod("plain", None)?;
        ensure!(is_in(&plain, DEFAULT)?, "{plain:?}");
        // Its pool has no address for this node before it is asked for.
        ensure!(cluster.has("blue")?.is_empty(), "{:?}", cluster.has("blue"));
        let web = cluster.pod("web", Some("blue"))?;
        ensure!(is_in(&web, BLUE)?, "{web:?}");
        let address: IpAddr = web.address(false)?;
        ensure!(cluster.has("blue")?.iter().any(|it| it.contains(&address)), "{web:?}");

        // The pool says that its pods are not masqueraded.
        is_seen(&neighbour, &plain, false)?;
        is_seen(&neighbour, &web, true)?;

        // A restart asks nobody, and nothing moves.
        let before = cluster.addresses()?;
        cluster.agent.kill_agent()?;
        cluster.server.kill()?;
        cluster.agent.start_agent()?;
        cluster.agent.wait_for_ready(2)?;
        ensure!(cluster.addresses()? == before, "{before:?} moved: {:?}", cluster.addresses());
        ensure!(cluster.states("blue")? == ["open"; 2], "{:?}", cluster.states("blue"));
        is_seen(&neighbour, &web, true)?;
        // So does one that lost all that it knew of prefixes.
        cluster.agent.kill_agent()?;
        for slot in 0..2 {
            let _ = std::fs::remove_file(cluster.agent.path(&format!("lib/pools.{slot}.json")));
        }
        cluster.agent.start_agent()?;
        cluster.agent.wait_for_ready(2)?;
        ensure!(cluster.addresses()? == before, "{before:?} moved: {:?}", cluster.addresses());
        cluster.server.start_again()?;
        cluster.wait_until_followed()?;
        wait_for("the prefix is known again", || Ok(cluster.states("blue")? == ["open"; 2]))?;
        let db = cluster.pod("db", Some("blue"))?;
        ensure!(is_in(&db, BLUE)? && db.address(false)? != address, "{db:?}");

        // What nobody uses goes back.
        db.delete(&cluster.agent)?;
        web.delete(&cluster.agent)?;
        wait_for("the prefix goes back", || Ok(cluster.has("blue")?.is_empty()))?;

        // Killed in the middle, the next life goes on with that.
        let late = cluster.pod("late", Some("blue"))?;
        let prefix = cluster.has("blue")?;
        late.delete(&cluster.agent)?;
        wait_for("nothing more is asked for", || {
            let node = cluster.server.client().get(&cilium_node())?;
            Ok(!node["spec"]["ipam"]["pools"]["requested"].to_string().contains("blue"))
        })?;
        cluster.server.hang()?;
        wait_for("the prefix is closed", || Ok(cluster.states("blue")? == ["leaving"; 2]))?;
        cluster.agent.kill_agent()?;
        cluster.agent.start_agent()?;
        ensure!(
            !cluster.states("blue")?.contains(&"open".to_owned()),
            "{:?}",
            cluster.states("blue")
        );
        cluster.server.kill()?;
        cluster.server.start_again()?;
        cluster.wait_until_followed()?;
        wait_for("the next life gives it back", || Ok(cluster.has("blue")?.is_empty()))?;
        // The operator's Lease ran out while the server was silent; another one takes over.
        let (kubeconfig, place) = (cluster.server.kubeconfig(), cluster.agent.path("."));
        cluster.operator = Operator::start(1, &kubeconfig, &place, &FLAGS)?;
        wait_for("an operator leads", || Ok(cluster.operator.leads()))?;
        let last = cluster.pod("last", Some("blue"))?;
        let address = last.address(false)?;
        ensure!(cluster.has("blue")?.iter().any(|it| it.contains(&address)), "{last:?} {prefix:?}");
        ensure!(is_in(&plain, DEFAULT)?);
        Ok(())
    });
}
