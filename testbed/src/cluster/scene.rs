//! A cluster in which Volvox is installed, and what scenarios do in it.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_actors::ports::HEALTH_DEVICE;

use super::Scenario;
use crate::{
    lab::{Kubernetes, Netns, image, ip, wait_for},
    traffic::{Kind, Plan, Stream, request},
};

/// Where what scenarios make is.
const NAMESPACE: &str = "scene";
/// Where busybox serves.
const HTTP: u16 = 80;
/// Where streams go to.
const STREAMS: u16 = 5000;

/// Serves the pod's name by HTTP, and ends when it is told to and all others have heard of it.
const SERVER: &str = r#"
mkdir -p /tmp/www
printf "$NAME\n" >/tmp/www/index.html
trap 'sleep 5; exit 0' TERM
httpd -h /tmp/www -p 80
printf 'serves\n'
while :; do sleep 1000 & wait; done
"#;

/// The cluster.
pub struct Scene {
    /// What it consists of.
    pub cluster: Kubernetes,
}

/// A pod as the API server has it.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its name.
    pub name: String,
    /// The machine that it runs on.
    pub machine: String,
    /// Its address.
    pub address: Ipv4Addr,
}

impl Scene {
    /// Installs Volvox by its command, and waits as it does.
    pub fn install(cluster: Kubernetes) -> Result<Self> {
        Self { cluster }.installed()
    }

    /// A cluster that has no network for pods yet, with the namespace of scenarios.
    pub fn bare(cluster: Kubernetes) -> Result<Self> {
        let scene = Self { cluster };
        scene.make_namespace()?;
        Ok(scene)
    }

    /// Installs Volvox in it.
    pub fn installed(self) -> Result<Self> {
        let Self { cluster } = &self;
        cluster.volvox(&["install", "--wait", "300s"]).with_context(|| cluster.logs())?;
        // Kubelets look every few seconds whether there is a network.
        cluster.kubectl("wait nodes --all --for=condition=Ready --timeout=120s")?;
        Ok(self)
    }

    fn make_namespace(&self) -> Result<()> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
        });
        self.cluster.apply(&[namespace])?;
        wait_for("the namespace has its account", || {
            Ok(self.kubectl(&["get", "serviceaccount", "default"]).is_ok())
        })
    }

    /// Lets something happen in a namespace of its own, which is gone afterwards.
    pub fn try_out(&mut self, scenario: &Scenario) -> Result<()> {
        self.make_namespace()?;
        let happened = (scenario.run)(self);
        if happened.is_err() {
            volvox_system::complain!("{}", self.sight());
        }
        happened.context(scenario.name)?;
        self.cluster.kubectl(&format!("delete namespace {NAMESPACE} --timeout=240s"))?;
        self.is_clean()
    }

    /// kubectl in the namespace of scenarios.
    pub fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.cluster.kubectl_words(&[&["-n", NAMESPACE], words].concat(), None)
    }

    /// Makes a Deployment that serves HTTP on that many pods, and waits for them.
    pub fn serve(&self, name: &str, replicas: usize) -> Result<Vec<Placed>> {
        self.cluster.apply(&[deployment(name, replicas)])?;
        self.rolled(name)?;
        self.pods(name)
    }

    /// Makes a Deployment of one pod for each machine, and waits for nothing. A pod waits for a machine
    /// that has none of them: the others may be long in coming.
    pub fn wish_on_each(&self, name: &str) -> Result<()> {
        let mut object = deployment(name, self.cluster.machines.len());
        object["spec"]["template"]["spec"]["affinity"] = json!({ "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": { "matchLabels": { "app": name } },
            }],
        }});
        self.cluster.apply(&[object])
    }

    /// Whether there are pods of that app on two machines, and one of them answers the other.
    pub fn answers_across(&mut self, app: &str) -> Result<bool> {
        // Who has no address yet does not answer.
        let Ok(pods) = self.pods(app) else { return Ok(false) };
        let [one, other] = &pods[..] else { return Ok(false) };
        Ok(one.machine != other.machine && self.reaches(one, other).is_ok())
    }

    /// The cluster's address of a Service.
    pub fn frontend(&self, name: &str) -> Result<Ipv4Addr> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/services/{name}");
        let service = self.cluster.server.client().get(&path)?;
        Ok(service["spec"]["clusterIP"].as_str().context("no address")?.parse()?)
    }

    /// Waits until a Deployment is as it shall be.
    pub fn rolled(&self, name: &str) -> Result<()> {
        self.kubectl(&["rollout", "status", "deployment", name, "--timeout=240s"]).map(drop)
    }

    /// The pods with that app that run and are not going.
    pub fn pods(&self, app: &str) -> Result<Vec<Placed>> {
        let list = self.kubectl(&["get", "pods", "-l", &format!("app={app}"), "-o", "json"])?;
        let list: Value = serde_json::from_str(&list)?;
        let all = list["items"].as_array().context("no list")?;
        let there = all.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let pod = |it: &Value| -> Result<Placed> {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            Ok(Placed {
                name: text(&it["metadata"]["name"]),
                machine: text(&it["spec"]["nodeName"]),
                address: text(&it["status"]["podIP"]).parse().context("a pod without address")?,
            })
        };
        there.map(pod).collect()
    }

    /// The network namespace of a pod.
    pub fn netns(&mut self, pod: &Placed) -> Result<Netns> {
        self.cluster.machine(&pod.machine)?.pod(pod.address)
    }

    /// Streams of every kind from each of the pods to the next.
    pub fn streams(&mut self, pods: &[Placed]) -> Result<Vec<Stream>> {
        let mut streams = Vec::new();
        for (index, from) in pods.iter().enumerate() {
            let to = &pods[(index + 1) % pods.len()];
            for (port, kind) in (STREAMS..).zip(Kind::ALL) {
                streams.push(Stream::start(Plan {
                    kind,
                    from: self.netns(from)?,
                    to: self.netns(to)?,
                    target: SocketAddr::new(to.address.into(), port),
                    rate: 100,
                })?);
            }
        }
        for stream in &streams {
            stream.wait_for_answers(20)?;
        }
        Ok(streams)
    }

    /// What a pod gets from there by HTTP.
    pub fn fetch(&mut self, from: &Placed, at: Ipv4Addr) -> Result<String> {
        self.netns(from)?.run(|| request(SocketAddr::new(at.into(), HTTP)))
    }

    /// Fails unless a pod answers another.
    pub fn reaches(&mut self, from: &Placed, to: &Placed) -> Result<()> {
        let said = self.fetch(from, to.address)?;
        ensure!(said == to.name, "{} answers {said}", to.name);
        Ok(())
    }

    /// Waits until all agents are ready.
    pub fn agents_are_ready(&self) -> Result<()> {
        let words = "-n kube-system rollout status daemonset volvox --timeout=240s";
        self.cluster.kubectl(words).map(drop)
    }

    /// Replaces all agents at once, and waits until the others are ready.
    pub fn roll_agents(&self) -> Result<()> {
        let at_once = json!({
            "spec": { "updateStrategy": { "rollingUpdate": { "maxUnavailable": "100%" } } },
        });
        self.cluster.kubectl(&format!("-n kube-system patch daemonset volvox -p {at_once}"))?;
        self.cluster.kubectl("-n kube-system rollout restart daemonset volvox")?;
        self.agents_are_ready()
    }

    /// Fails if anything on a machine is left of pods that are gone.
    fn is_clean(&mut self) -> Result<()> {
        let machines: Vec<_> = self.cluster.machines.iter().map(|it| it.name.clone()).collect();
        for name in machines {
            wait_for("no endpoint is left", || {
                let all = self.cluster.volvox_on(&name, "-o json endpoint list");
                let all = all.ok().and_then(|all| serde_json::from_str::<Vec<Value>>(&all).ok());
                // The health endpoint is the node's own.
                let is_health = |endpoint: &Value| endpoint["status"]["identity"]["id"] == 4;
                Ok(all.is_some_and(|all| all.iter().all(is_health)))
            })?;
            let links = self.cluster.machine(&name)?.netns()?.run(|| ip("-o link"))?;
            let of_pod = |link: &str| link.contains(": lxc") && !link.contains(HEALTH_DEVICE);
            ensure!(
                !links.lines().any(of_pod),
                "{name} has interfaces of pods that are gone: {links}"
            );
            let said = self.cluster.volvox_on(&name, "status")?;
            ensure!(said.starts_with("Agent:      Ok"), "{name}: {said}");
        }
        Ok(())
    }

    /// What there is, when something went wrong.
    fn sight(&self) -> String {
        let asked = ["get pods -A -o wide", "get nodes", "get events -A --sort-by=.lastTimestamp"];
        let mut said = asked.map(|words| {
            let said = self.cluster.kubectl(words).unwrap_or_else(|error| error.to_string());
            let lines: Vec<_> = said.lines().collect();
            lines[lines.len().saturating_sub(20)..].join("\n")
        });
        said[2] += &self.cluster.logs();
        said.join("\n\n")
    }
}

/// A Deployment of pods that serve their name by HTTP.
pub(super) fn deployment(name: &str, replicas: usize) -> Value {
    // Sixty pods that are asked each second keep a machine busy with nothing else; and one with much to do is no
    // reason to replace a pod that serves.
    let probe = |period: u8, patience: u8| {
        let asked = json!({ "path": "/", "port": HTTP });
        json!({ "httpGet": asked, "periodSeconds": period, "timeoutSeconds": patience })
    };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    // Longer than it serves when it is told to end.
                    "terminationGracePeriodSeconds": 15,
                    // A node that is gone is given up soon.
                    "tolerations": (["not-ready", "unreachable"]).map(|of| json!({
                        "key": format!("node.kubernetes.io/{of}"), "operator": "Exists",
                        "effect": "NoExecute", "tolerationSeconds": 5,
                    })),
                    // As many on each machine as on the others.
                    "topologySpreadConstraints": [{
                        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": { "matchLabels": { "app": name } },
                    }],
                    "containers": [{
                        "name": "web",
                        "image": image::NAME,
                        "command": ["sh", "-c", SERVER],
                        "env": [{
                            "name": "NAME",
                            "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } },
                        }],
                        "readinessProbe": probe(2, 5), "livenessProbe": probe(10, 30),
                    }],
                },
            },
        },
    })
}

/// A Service of those pods: a cluster address, and a port of each node.
pub(super) fn service(name: &str, node_port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "type": "NodePort", "selector": { "app": name },
            "ports": [{ "port": HTTP, "nodePort": node_port }],
        },
    })
}
