//! A mesh: another cluster has an etcd of its own, and packets come from there.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, Authority, Etcd, Neighbour, Node, Pod, Setup, Validity, wait_for};

use super::setup::{ADDRESSES, IDENTITIES, start_with};

/// Number of an identity that the other cluster, which has number 2, hands out.
const CLIENT: u64 = 2 << 16 | 300;

/// Web lets in clients of the other cluster.
const POLICY: &str = r#"
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: far, namespace: shop}
spec:
  endpointSelector: {matchLabels: {app: web}}
  ingress:
  - fromEndpoints: [{matchLabels: {tier: front, io.cilium.k8s.policy.cluster: far}}]
"#;

/// A node whose cluster is meshed with `far`, to which the machine beside it belongs.
struct Region {
    node: Node,
    web: Pod,
    /// Of the node's own cluster: it runs as long as this is here.
    _near: Etcd,
    far: Etcd,
    neighbour: Neighbour,
}

impl Region {
    fn start() -> Result<Self> {
        let near = Etcd::start(&lab::path("etcd"))?;
        let authority = Authority::create(&lab::path("certificates"))?;
        for name in ["etcd", "lab", "node"] {
            authority.sign(name, Validity::Today)?;
        }
        let far = Etcd::start_beside(&lab::path("far"), Some(&authority))?;
        let neighbour = Neighbour::connect()?;
        fs::create_dir(lab::path("mesh"))?;
        let mesh = lab::path("mesh").display().to_string();
        let flags = [("cluster-name", "near"), ("cluster-id", "1"), ("clustermesh-config", &mesh)];
        let setup = Setup::new().flags(&flags).manifest("far.yaml", POLICY);
        let (node, web) = start_with(&near, setup)?;
        far.put("cilium/cluster-config/far", r#"{"id":2,"capabilities":{}}"#)?;
        let labels = "k8s:io.cilium.k8s.policy.cluster=far;k8s:io.kubernetes.pod.namespace=shop;\
                      k8s:tier=front;";
        far.put(&format!("{IDENTITIES}{CLIENT}"), labels)?;
        let region = Self { node, web, _near: near, far, neighbour };
        region.name_neighbour()?;
        region.configure()?;
        Ok(region)
    }

    /// The other cluster says that its client is there.
    fn name_neighbour(&self) -> Result<()> {
        let ip = Neighbour::ADDRESS;
        let value = json!({ "IP": ip, "Mask": null, "HostIP": "198.51.100.7", "ID": CLIENT });
        self.far.put(&format!("{ADDRESSES}{ip}"), &value.to_string())
    }

    /// The other cluster is configured as an operator does it: with certificates beside.
    fn configure(&self) -> Result<()> {
        let node = &self.node;
        let file = |name: &str| node.path("certificates").join(name).display().to_string();
        let text = format!(
            "endpoints: [\"{}\"]\ntrusted-ca-file: {}\ncert-file: {}\nkey-file: {}\n",
            self.far.address(),
            file("ca.pem"),
            file("node.pem"),
            file("node.key"),
        );
        let draft = node.path("draft-far");
        fs::write(&draft, text)?;
        Ok(fs::rename(draft, node.path("mesh").join("far"))?)
    }

    fn wait_until_it_reaches(&mut self, expected: bool) -> Result<()> {
        let prefix = format!("{}/32", Neighbour::ADDRESS);
        self.node.wait_until_mapped(&prefix, expected.then_some(CLIENT))?;
        wait_for(&format!("reaching web is {expected}"), || {
            Ok(self.neighbour.reaches(&self.web)? == expected)
        })
    }

    /// Waits until the agent says this of the other cluster.
    fn wait_for_status(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
        self.node.wait(&format!("the other cluster is not {what}"), |node| {
            let health: Value = node.rest().get("/healthz")?;
            Ok(is_so(&health["cluster-mesh"]["clusters"][0]))
        })?;
        Ok(())
    }
}

#[test]
fn a_torn_configuration_is_named_and_costs_nobody_else_anything() {
    lab::test("mesh::a_torn_configuration_is_named_and_costs_nobody_else_anything", || {
        let mut region = Region::start()?;
        region.wait_until_it_reaches(true)?;
        let mesh = region.node.path("mesh");
        fs::write(mesh.join("torn"), "endpoints: [")?;
        // It has the name of no cluster.
        fs::write(mesh.join("Not_one"), "endpoints: []")?;
        region.node.wait("the torn one is not named", |node| {
            let health: Value = node.rest().get("/healthz")?;
            let clusters = health["cluster-mesh"]["clusters"].as_array();
            let clusters = clusters.with_context(|| format!("no mesh: {health}"))?;
            let named = |name: &str| clusters.iter().find(|it| it["name"] == name);
            let (Some(far), Some(torn)) = (named("far"), named("torn")) else { return Ok(false) };
            let status = torn["status"].as_str().unwrap_or_default();
            Ok(clusters.len() == 2
                && far["ready"] == true
                && torn["ready"] == false
                && status.contains("mesh/torn"))
        })?;
        ensure!(region.neighbour.reaches(&region.web)?, "the other cluster is forgotten");
        fs::remove_file(mesh.join("torn"))?;
        region.node.wait("it is still named", |node| {
            let health: Value = node.rest().get("/healthz")?;
            Ok(health["cluster-mesh"]["clusters"].as_array().is_some_and(|all| all.len() == 1))
        })?;
        region.wait_until_it_reaches(true)
    });
}

#[test]
fn clients_of_another_cluster_are_let_in_for_as_long_as_it_says_so() {
    lab::test("mesh::clients_of_another_cluster_are_let_in_for_as_long_as_it_says_so", || {
        let mut region = Region::start()?;
        region.wait_until_it_reaches(true)?;
        region.wait_for_status("ready", |far| far["ready"] == true && far["num-endpoints"] == 1)?;
        let text = region.node.volvox("status")?;
        ensure!(text.contains("far (number 2): Ok; 0 nodes, 1 identities, 1 addresses"), "{text}");

        // A life without that cluster waits for nobody, and nobody is forgotten.
        region.node.kill_agent()?;
        region.far.kill()?;
        ensure!(region.neighbour.reaches(&region.web)?, "a dead agent drops packets");
        region.node.start_agent()?;
        region.node.wait_for_ready(1)?;
        region.node.wait_until_restored()?;
        region.wait_for_status("away", |far| {
            far["connected"] == false
                && far["status"].as_str().is_some_and(|it| it.starts_with("it is unreachable: "))
        })?;
        let why = region.node.volvox("why -o wide")?;
        ensure!(why.contains("clustermesh far config"), "{why}");
        region.wait_until_it_reaches(true)?;

        // It comes back, and the client is still there; then it is not; then it is again.
        region.far.start_again()?;
        region.wait_for_status("ready again", |far| far["ready"] == true)?;
        region.wait_until_it_reaches(true)?;
        region.far.delete(&format!("{ADDRESSES}{}", Neighbour::ADDRESS))?;
        region.wait_until_it_reaches(false)?;
        region.name_neighbour()?;
        region.wait_until_it_reaches(true)?;

        // And it is not configured any more.
        fs::remove_file(region.node.path("mesh").join("far"))?;
        region.wait_until_it_reaches(false)?;
        region.configure()?;
        region.wait_until_it_reaches(true)
    });
}
