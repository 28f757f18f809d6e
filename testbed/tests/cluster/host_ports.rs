//! Ports of the node that pods of a real API server want for themselves.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Result, ensure};
use serde_json::json;
use volvox_testbed::lab::{self, ApiServer, NODE_NAME, objects::NAMESPACE};

use super::{
    Cluster,
    ingresses::{ADDRESS, INNER, is_answered, wait_for_frontends, with_address},
};

/// The port of the node.
const OUTER: u16 = 8088;

/// The node's port leads to the pod that wants it, for pods and for the node itself, which also
/// reaches it by its loopback; over deaths of the agent, until the pod is gone.
#[test]
fn a_pod_is_reached_at_its_port_of_the_node() {
    lab::test("host_ports::a_pod_is_reached_at_its_port_of_the_node", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let (cluster, cgroup) = with_address(program)?;
        let Cluster { mut node, server, friend, web, .. } = cluster;
        let client = server.client();
        web.netns.answer(INNER)?;
        let at: SocketAddr = (ADDRESS.parse::<IpAddr>()?, OUTER).into();
        let loopback: SocketAddr = (Ipv4Addr::LOCALHOST, OUTER).into();
        let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let till = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "till", "namespace": NAMESPACE },
            "spec": {
                "nodeName": NODE_NAME,
                "containers": [{
                    "name": "main", "image": "lab",
                    "ports": [{ "containerPort": INNER, "hostPort": OUTER }],
                }],
            },
        });
        client.create(&pods, &till)?;
        ensure!(!cgroup.is_answered(at)?, "it has no address yet");
        let address = web.address(false)?;
        let status = json!({ "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }] });
        client.patch(&format!("{pods}/till/status"), &json!({ "status": status }))?;
        let before = wait_for_frontends(&mut node, &[OUTER.into()])?;
        let is_reached = || -> Result<[bool; 3]> {
            let pod = is_answered(&friend.netns, at)?;
            Ok([pod, cgroup.is_answered(at)?, cgroup.is_answered(loopback)?])
        };
        ensure!(is_reached()? == [true; 3], "{:?}", is_reached()?);
        ensure!(!is_answered(&friend.netns, loopback)?, "a pod's loopback is its own");
        for _ in 0..3 {
            node.kill_agent()?;
            ensure!(is_reached()? == [true; 3], "without an agent: {:?}", is_reached()?);
            node.start_agent()?;
        }
        ensure!(wait_for_frontends(&mut node, &[OUTER.into()])? == before, "the number moved");

        node.kill_agent()?;
        client.delete(&format!("{pods}/till"))?;
        node.start_agent()?;
        wait_for_frontends(&mut node, &[])?;
        ensure!(is_reached()? == [false; 3], "it is gone: {:?}", is_reached()?);
        Ok(())
    });
}
