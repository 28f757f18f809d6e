//! What is asked wrongly gets a clear answer, and nothing is lost by it.

mod lb_maps;

use std::{
    io::{Read, Write},
    net::Ipv4Addr,
    os::unix::net::UnixStream,
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, Node, Pod, Setup};

fn node() -> Result<(Node, Pod)> {
    let setup = Setup::new().ipv4_only().pod("default/web", &[("app", "web")]);
    let (node, [pod]) = setup.start()?;
    Ok((node, pod))
}

/// A policy for all pods of the namespace.
fn policy(name: &str, rule: &str) -> String {
    format!(
        "apiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\n\
         metadata: {{name: {name}, namespace: default}}\n\
         spec: {{endpointSelector: {{}}, ingress: [{rule}]}}\n"
    )
}

/// What must be the same afterwards.
fn possessions(node: &Node) -> Result<(Vec<Value>, Value)> {
    let mut endpoints = node.endpoints()?;
    for endpoint in &mut endpoints {
        endpoint["status"]["log"].take();
    }
    Ok((endpoints, node.rest().get("/volvox/ipam")?))
}

#[test]
fn wrong_requests_are_refused_and_change_nothing() {
    lab::test("wrong_requests_are_refused_and_change_nothing", || {
        let (node, pod) = node()?;
        let before = possessions(&node)?;
        let taken = pod.address(false)?.to_string();
        let endpoint = |more: Value| {
            let mut body = json!({
                "container-id": "ff01", "container-interface-name": "eth0",
                "interface-name": "lxcnone", "interface-index": 4000,
                "addressing": {"ipv4": "10.11.77.7"}, "sync-build-endpoint": true,
            });
            if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
                body.extend(more);
            }
            Some(body)
        };
        for (method, path, body, status, says) in [
            ("PUT", "/endpoint/0", Some(json!("rubbish")), 400, "expected struct"),
            ("PUT", "/endpoint/0", endpoint(json!({"id": "one"})), 400, "id: "),
            ("PUT", "/endpoint/0", endpoint(json!({"mac": "nope"})), 400, "mac: "),
            ("PUT", "/endpoint/1", endpoint(json!({})), 400, "in use"),
            ("PUT", "/endpoint/0", endpoint(json!({"addressing": {"ipv4": taken}})), 400, "in use"),
            ("PUT", "/endpoint/0", endpoint(json!({"addressing": {}})), 400, "needs an address"),
            (
                "PUT",
                "/endpoint/0",
                endpoint(json!({"labels": ["x".repeat(1 << 19)]})),
                400,
                "label",
            ),
            ("PUT", "/endpoint/99999", endpoint(json!({})), 400, "too large: 99999"),
            ("GET", "/endpoint/4000", None, 404, "not found"),
            ("GET", "/endpoint/nope:1", None, 400, "unknown endpoint prefix"),
            ("PATCH", "/endpoint/1/config", Some(json!({"options": {"X": "1"}})), 400, "unknown"),
            ("PATCH", "/endpoint/1/labels", Some(json!({"user": [7]})), 400, "user[0]"),
            ("DELETE", "/endpoint/4000", None, 404, "not found"),
            ("DELETE", "/endpoint", Some(json!({"container-id": "beef"})), 404, "not found"),
            ("POST", "/ipam/10.12.0.1", None, 400, "not in the pool"),
            ("POST", &format!("/ipam/{taken}"), None, 409, "already in use"),
            ("POST", "/ipam?family=ipx", None, 400, "neither ipv4 nor ipv6"),
            ("POST", "/ipam?family=ipv6", None, 501, "not enabled"),
            ("DELETE", "/ipam/10.11.99.99", None, 404, "not allocated"),
            ("DELETE", &format!("/ipam/{taken}"), None, 500, "endpoint"),
            ("GET", "/identity/70000", None, 404, "70000"),
            ("GET", "/nonsense", None, 404, "was not found"),
            ("GET", "/ipam", None, 405, "[POST] are"),
        ] {
            let answer = node.rest().request(method, path, body.as_ref())?;
            let text = String::from_utf8_lossy(&answer.body);
            ensure!(answer.status == status, "{method} {path}: {} {text}", answer.status);
            ensure!(text.contains(says), "{method} {path}: {text:?} does not say {says:?}");
        }
        ensure!(possessions(&node)? == before, "something changed: {:?}", possessions(&node)?);
        Ok(())
    });
}

#[test]
fn a_huge_body_costs_no_memory_and_no_time_of_others() {
    lab::test("a_huge_body_costs_no_memory_and_no_time_of_others", || {
        let (mut node, _pod) = node()?;
        let before = node.agent()?.usage()?.memory_peak;
        let mut stream = UnixStream::connect(node.path("cilium.sock"))?;
        stream.set_read_timeout(Some(lab::PATIENCE))?;
        stream.write_all(
            b"PUT /v1/endpoint/0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
              Content-Length: 100000000\r\n\r\n",
        )?;
        let chunk = vec![b'['; 1_000_000];
        for sent in 0..100 {
            stream.write_all(&chunk)?;
            if sent == 50 {
                ensure!(node.endpoints()?.len() == 1, "others are answered meanwhile");
            }
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 413"), "{answer}");
        ensure!(answer.contains("larger than the 1048576 bytes"), "{answer}");
        let grown = node.agent()?.usage()?.memory_peak.saturating_sub(before);
        ensure!(grown < 10_000_000, "{grown} bytes more");
        Ok(())
    });
}

#[test]
fn a_wrong_policy_is_reported_and_harms_no_other() {
    lab::test("a_wrong_policy_is_reported_and_harms_no_other", || {
        let (mut node, _pod) = node()?;
        // Of almost five million bytes, each prefix for itself.
        let each = (0..280_000).map(|n| format!("{}/32", Ipv4Addr::from(0xb000_0000 + 2 * n)));
        let giant = format!("{{fromCIDR: [{}]}}", each.collect::<Vec<_>>().join(", "));
        node.write_manifest("giant.yaml", &policy("giant", &giant))?;
        node.write_manifest("good.yaml", &policy("good", "{fromEntities: [host]}"))?;
        node.write_manifest(
            "port.yaml",
            &policy("port", "{toPorts: [{ports: [{port: \"70000\"}]}]}"),
        )?;
        let except = "{fromCIDRSet: [{cidr: 10.0.0.0/8, except: [192.168.0.0/16]}]}";
        node.write_manifest("except.yaml", &policy("except", except))?;
        node.write_manifest("rubbish.yaml", "{]")?;
        node.write_manifest(
            "nobody.yaml",
            &policy("nobody", "{}").replace("{}, i", "{matchLabels: {app: none}}, i"),
        )?;
        let stands = |node: &Node| -> Result<Vec<(String, bool, u64)>> {
            let view: Value = node.rest().get("/volvox/policy")?;
            let all = view["policies"].as_array().cloned().unwrap_or_default();
            let mut all: Vec<_> = all
                .iter()
                .map(|it| {
                    let source = it["source"].as_str().unwrap_or_default().to_owned();
                    (source, it["error"].is_null(), it["selects"].as_u64().unwrap_or_default())
                })
                .collect();
            all.sort();
            Ok(all)
        };
        let expected = [
            ("except.yaml", false, 0),
            ("giant.yaml", false, 0),
            ("good.yaml", true, 1),
            ("nobody.yaml", true, 0),
            ("port.yaml", false, 0),
            ("rubbish.yaml", false, 0),
        ]
        .map(|(file, fine, selects)| (file.to_owned(), fine, selects));
        node.wait("policies are not judged", |node| Ok(stands(node)? == expected))?;
        let view: Value = node.rest().get("/volvox/policy")?;
        let text = view.to_string();
        for words in [
            "70000",
            "more than 16384 prefixes",
            "192.168.0.0/16",
            "spec.ingress[0].toPorts[0].ports[0].port",
        ] {
            ensure!(text.contains(words), "{words} is not named: {view:#}");
        }
        Ok(())
    });
}
