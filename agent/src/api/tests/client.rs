//! The client against an agent of fake actors.

use std::path::Path;

use axum::http::Method;
use clap::Parser;
use serde_json::{Value, json};
use volvox_cli::{Arguments, execute};
use volvox_inspect::http::{Server, Socket, bind};

use super::node_supervisor::Fixture;

/// An agent with one endpoint, on a socket of its own.
struct Agent {
    dir: tempfile::TempDir,
    _server: Server,
}

/// What a command wrote, and its exit code.
#[derive(Debug, PartialEq)]
struct Ran {
    text: String,
    code: u8,
    error: String,
}

impl Agent {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let api = Fixture::new();
        let body = json!({
            "container-id": "ab01", "container-interface-name": "eth0", "interface-name": "lxc1",
            "interface-index": 7, "mac": "02:00:00:00:00:01", "host-mac": "02:00:00:00:00:02",
            "labels": ["k8s:app=web"], "addressing": {"ipv4": "10.1.0.9"},
            "k8s-namespace": "default", "k8s-pod-name": "web",
        });
        assert_eq!(api.call(Method::PUT, "/v1/endpoint/442", body.to_string()).status, 201);
        api.call_with(Method::POST, "/v1/ipam?owner=web", &[("expiration", "true")], "");
        let listener = bind(&dir.path().join("agent.sock")).unwrap();
        let server = Server::start("api", vec![(Socket::Unix(listener), api.router)]).unwrap();
        Self { dir, _server: server }
    }

    fn run(&self, command: &str) -> Ran {
        run(&self.dir.path().join("agent.sock"), command)
    }

    fn text(&self, command: &str) -> String {
        let ran = self.run(command);
        assert_eq!((ran.code, ran.error.as_str()), (0, ""), "{command}");
        ran.text
    }

    fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.text(&format!("-o json {command}"))).unwrap()
    }
}

fn run(socket: &Path, command: &str) -> Ran {
    let fixed = ["volvox", "--socket-path", socket.to_str().unwrap()];
    let arguments = Arguments::try_parse_from(fixed.into_iter().chain(command.split(' '))).unwrap();
    let mut out = Vec::new();
    let result = execute(arguments, &mut out);
    let text = String::from_utf8(out).unwrap();
    match result {
        Ok(()) => Ran { text, code: 0, error: String::new() },
        Err(error) => Ran { text, code: error.code(), error: error.to_string() },
    }
}

#[test]
fn endpoints_are_listed_for_people_and_programs() {
    let agent = Agent::new();
    assert_eq!(
        agent.text("endpoint list"),
        "ID   STATE  POLICY   IDENTITY  IPV4      IPV6  POD\n\
         442  ready  ingress  300       10.1.0.9        default/web\n"
    );
    assert_eq!(agent.json("endpoint list -l k8s:app=web")[0]["id"], 442);
    // A list that nobody is in is an empty one.
    assert_eq!(agent.json("endpoint list -l k8s:app=db"), json!([]));
}

#[test]
fn one_endpoint_is_shown() {
    let agent = Agent::new();
    assert_eq!(
        agent.text("endpoint get pod-name:default/web"),
        "ID:         442\n\
         State:      ready\n\
         Health:     OK\n\
         Pod:        default/web\n\
         Container:  ab01\n\
         Identity:   300\n\
         Labels:     k8s:app=web\n\
         IPv4:       10.1.0.9\n\
         Interface:  lxc1 (7)\n\
         MAC:        02:00:00:00:00:01 (host side 02:00:00:00:00:02)\n\
         Policy:     ingress, revision 3\n\
         Last:       2023-11-14T22:13:20Z built\n"
    );
    assert_eq!(
        agent.text("endpoint log 442"),
        "TIME                  CODE  STATE  MESSAGE\n\
         2023-11-14T22:13:20Z  OK    ready  built\n"
    );
    assert_eq!(
        agent.text("endpoint health 442"),
        "Overall:    OK\nPrograms:   OK\nPolicy:     OK\nConnected:  true\n"
    );
    let why = agent.text("why 442");
    assert_eq!(why.lines().last(), Some("It waits for nobody."));
    assert!(why.contains("Of its policies: web.yaml is refused"), "{why}");
}

#[test]
fn an_endpoint_is_changed_and_deleted() {
    let agent = Agent::new();
    let labels = agent.text("endpoint labels 442 --set k8s:team=blue");
    assert_eq!(labels, "KIND      LABEL\nidentity  k8s:app=web\nadded     k8s:team=blue\n");
    let options = agent.text("endpoint config 442 TraceNotification=Enabled");
    assert!(options.contains("TraceNotification          Enabled\n"), "{options}");
    assert_eq!(agent.run("endpoint config 442 TraceNotification").code, 2);
    let built = agent.text("endpoint regenerate 442 --level load");
    let text = "Endpoint 442 is built again; it is ready.\nAll rows were as they are to be.\n";
    assert_eq!(built, text);
    assert_eq!(agent.text("endpoint disconnect 442 --yes"), "Endpoint 442 is deleted.\n");
    let gone = agent.run("endpoint get 442");
    assert_eq!(gone.code, 4);
    assert_eq!(gone.error, "GET /v1/endpoint/442: 404: endpoint not found");
}

#[test]
fn the_agent_is_summed_up() {
    let agent = Agent::new();
    assert_eq!(
        agent.text("status"),
        "Agent:      Ok 0.1.0\n\
         Node:       node-a, and 1 other node known\n\
         Endpoints:  1 (1 ready)\n\
         Restore:    finished: there was nothing to restore\n\
         Policy:     revision 3, 1 document, 0 refused\n\
         Addresses:  IPv4: 1/65534 allocated from 10.1.0.0/16\n\
         Devices:    eth0 (192.0.2.1)\n\
         Programs:   by TCX links\n\
         Services:   2 frontends, 2 backends, 1 quarantined, 1 not written yet; the fullest map has 5 of 1000 rows\n\
         \x20           pruning waits for other clusters\n\
         KubeProxy:  replacement True [eth0 192.0.2.1 (Direct Routing)]\n\
         Waits:      none\n\
         Recorder:   switched off by --flight-recorder=false\n"
    );
    assert_eq!(agent.json("status")["endpoints"], json!({"ready": 1}));
    assert_eq!(agent.text("status --brief"), "Ok\n");
    assert!(agent.text("metrics").contains("cilium_endpoint 1.0\n"));
}

#[test]
fn addresses_identities_and_policies_are_listed() {
    let agent = Agent::new();
    assert_eq!(
        agent.text("ipam list"),
        "ADDRESS   OWNER  POOL     EXPIRES IN\n10.1.0.7  web    default  10 min\n"
    );
    assert_eq!(agent.text("identity list"), "ID   LABELS\n300  k8s:app=web\n");
    assert_eq!(agent.text("identity get 300"), "ID   LABELS\n300  k8s:app=web\n");
    assert_eq!(agent.run("identity get 301").code, 4);
    assert_eq!(
        agent.text("policy status"),
        "FILE      POLICY                           SELECTS  REMARKS\n\
         web.yaml  CiliumNetworkPolicy default/web  1\n"
    );
    assert_eq!(agent.json("policy get")[0]["labels"][0]["value"], "web.yaml");
    assert_eq!(
        agent.text("restore report"),
        "finished: there was nothing to restore\n\nPHASE  TIME\nread   500.0 ms\n"
    );
}

#[test]
fn services_and_backends_are_listed() {
    let agent = Agent::new();
    let web = "9   10.96.0.1:80/TCP    NodePort   default/web     10.96.0.201:8080/TCP\n\
               \x20                                                  10.96.0.202:8080/TCP (terminating)\n";
    assert_eq!(
        agent.text("service list"),
        format!(
            "ID  FRONTEND            TYPE       SERVICE         BACKENDS\n\
             3   10.96.0.2:80/TCP/i  ClusterIP  (nobody's yet)  (not written yet)\n{web}"
        )
    );
    assert_eq!(agent.json("service list")[1]["status"]["realized"]["id"], 9);
    assert_eq!(agent.json("service get 9")["spec"]["flags"]["name"], "web");
    assert!(agent.text("service get 9").contains("default/web  10.96.0.201:8080/TCP\n"));
    assert_eq!(agent.run("service get 4").code, 4);
    let released = agent.text("backend release 10.96.0.201:8080/tcp");
    assert_eq!(released, "ID  BACKEND               STATE\n1   10.96.0.201:8080/TCP  active\n");
    assert_eq!(agent.run("backend quarantine 10.96.0.9:80").code, 4);
    assert_eq!(
        agent.text("backend list"),
        "ID  BACKEND               STATE\n\
         1   10.96.0.201:8080/TCP  active\n\
         2   10.96.0.202:8080/TCP  terminating (left default/db; TCP connections go on)\n"
    );
    assert_eq!(agent.json("backend list")[0]["ip"], "10.96.0.201");
}

#[test]
fn whom_pruning_waits_for_is_named() {
    let agent = Agent::new();
    assert_eq!(
        agent.text("why"),
        "Pruning of services and backends of an earlier life waits for other clusters: nothing of \
         them is removed before.\nNobody waits for anybody.\n"
    );
}
