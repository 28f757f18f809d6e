//! What a DaemonSet looks like on the nodes of a cluster, and what is wrong there.

use serde_json::Value;

/// A DaemonSet with all nodes of the cluster and its own pods.
pub(crate) struct Sight {
    pub(crate) set: Value,
    pub(crate) nodes: Vec<Value>,
    pub(crate) pods: Vec<Value>,
}

impl Sight {
    /// Nodes that are ready, and nodes that shall be.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let status = &self.set["status"];
        let number = |member: &str| status[member].as_u64().unwrap_or_default();
        let by_hand = self.set["spec"]["updateStrategy"]["type"] == "OnDelete";
        let updated = if by_hand { u64::MAX } else { number("updatedNumberScheduled") };
        (number("numberReady").min(updated), number("desiredNumberScheduled"))
    }

    /// Whether what was applied is ready everywhere.
    pub(crate) fn is_ready(&self) -> bool {
        let (ready, wanted) = self.counts();
        self.is_seen() && ready >= wanted
    }

    /// Whether its controller has seen what was applied.
    fn is_seen(&self) -> bool {
        let number = |it: &Value| it.as_u64().unwrap_or_default();
        let seen = number(&self.set["status"]["observedGeneration"]);
        seen >= number(&self.set["metadata"]["generation"])
    }

    /// A line for each node that is not ready, with what is wrong there.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.is_seen() {
            lines
                .push("no controller makes pods: see that kube-controller-manager runs".to_owned());
        }
        for node in self.nodes.iter().filter(|node| self.selects(node)) {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            let mut pods = self.pods.iter().filter(|pod| node_of(pod) == Some(name)).peekable();
            if pods.peek().is_none() {
                lines.push(format!("node {name}: it has no pod"));
            }
            lines.extend(pods.filter_map(trouble).map(|it| format!("node {name}: {it}")));
        }
        lines
    }

    /// Whether the DaemonSet wants a pod there, as far as labels say.
    fn selects(&self, node: &Value) -> bool {
        let wanted = self.set["spec"]["template"]["spec"]["nodeSelector"].as_object();
        let labels = &node["metadata"]["labels"];
        wanted.into_iter().flatten().all(|(key, value)| labels[key] == *value)
    }
}

/// The node that a pod is on, or is for.
fn node_of(pod: &Value) -> Option<&str> {
    if let Some(name) = pod["spec"]["nodeName"].as_str() {
        return Some(name);
    }
    // A pod that is not scheduled yet is tied to its node.
    let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"];
    terms[0]["matchFields"][0]["values"][0].as_str()
}

/// What is wrong with a pod; `None` if it is ready.
pub fn trouble(pod: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = pod["status"]["conditions"].as_array();
    let condition = |kind: &str| conditions.into_iter().flatten().find(|it| it["type"] == kind);
    if condition("Ready").is_some_and(|it| it["status"] == "True") {
        return None;
    }
    let name = text(&pod["metadata"]["name"]);
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return Some(format!("pod {name} is being removed"));
    }
    if let Some(it) = condition("PodScheduled").filter(|it| it["status"] == "False") {
        return Some(format!("pod {name} waits for its node: {}", words(it)));
    }
    let status = &pod["status"];
    let lists = ["initContainerStatuses", "containerStatuses"];
    let containers = lists.iter().filter_map(|list| status[list].as_array()).flatten();
    let found: Vec<String> = containers.filter_map(container).collect();
    if found.is_empty() {
        let more =
            if status["reason"].is_string() { words(status) } else { text(&status["phase"]) };
        return Some(format!("pod {name} is not ready: {more}"));
    }
    Some(format!("pod {name}: {}", found.join("; ")))
}

/// What is wrong with a container; `None` if nothing is, or it only waits for others.
fn container(status: &Value) -> Option<String> {
    let name = status["name"].as_str().unwrap_or_default();
    let (state, last) = (&status["state"], &status["lastState"]["terminated"]);
    let ended = |it: &Value| format!("ended with exit code {} ({})", it["exitCode"], words(it));
    let before =
        if last.is_object() { format!(", before it {}", ended(last)) } else { String::new() };
    let waiting = &state["waiting"];
    if waiting.is_object() {
        let only_waits = waiting["reason"] == "PodInitializing" && last.is_null();
        return (!only_waits)
            .then(|| format!("container {name} waits: {}{before}", words(waiting)));
    }
    let terminated = &state["terminated"];
    if terminated.is_object() {
        return (terminated["exitCode"] != 0)
            .then(|| format!("container {name} {}", ended(terminated)));
    }
    (status["ready"] == false).then(|| format!("container {name} runs and is not ready{before}"))
}

/// A reason and its message.
fn words(it: &Value) -> String {
    let text = |member: &str| it[member].as_str().unwrap_or_default().to_owned();
    match (text("reason"), text("message")) {
        (reason, message) if message.is_empty() => reason,
        (reason, message) => format!("{reason}: {}", message.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sight(pods: Value) -> Sight {
        let node = |name: &str, os: &str| json!({ "metadata": { "name": name, "labels": { "kubernetes.io/os": os } } });
        Sight {
            set: json!({
                "metadata": { "generation": 2 },
                "spec": { "template": { "spec": { "nodeSelector": { "kubernetes.io/os": "linux" } } } },
                "status": { "observedGeneration": 2, "desiredNumberScheduled": 2, "numberReady": 2,
                            "updatedNumberScheduled": 1 },
            }),
            nodes: vec![node("a", "linux"), node("b", "linux"), node("w", "windows")],
            pods: pods.as_array().cloned().unwrap(),
        }
    }

    #[test]
    fn a_set_is_ready_when_its_new_pods_are() {
        let mut sight = sight(json!([]));
        assert_eq!((sight.counts(), sight.is_ready()), ((1, 2), false));
        sight.set["status"]["updatedNumberScheduled"] = 2.into();
        assert!(sight.is_ready());
        sight.set["metadata"]["generation"] = 3.into();
        assert!(!sight.is_ready());
    }

    #[test]
    fn each_node_has_its_reason() {
        let pods = json!([
            {
                "metadata": { "name": "volvox-1" }, "spec": { "nodeName": "a" },
                "status": {
                    "phase": "Pending",
                    "initContainerStatuses": [{
                        "name": "mount-bpf",
                        "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } },
                    }],
                    "containerStatuses": [{
                        "name": "agent", "state": { "waiting": { "reason": "PodInitializing" } },
                    }],
                },
            },
        ]);
        let expected = [
            "node a: pod volvox-1: container mount-bpf waits: ImagePullBackOff: no such image",
            "node b: it has no pod",
        ];
        assert_eq!(sight(pods).troubles(), expected);
    }

    #[test]
    fn pods_that_wait_crash_or_are_not_ready_say_so() {
        let tied = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "values": ["a"] }] }],
        } } });
        let pods = json!([
            {
                "metadata": { "name": "one" }, "spec": { "affinity": tied },
                "status": { "phase": "Pending", "conditions": [{
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": "Insufficient memory",
                }] },
            },
            {
                "metadata": { "name": "two" }, "spec": { "nodeName": "b" },
                "status": { "containerStatuses": [{
                    "name": "agent", "ready": false,
                    "state": { "waiting": { "reason": "CrashLoopBackOff" } },
                    "lastState": { "terminated": { "exitCode": 2, "reason": "Error" } },
                }] },
            },
        ]);
        let expected = [
            "node a: pod one waits for its node: Unschedulable: Insufficient memory",
            "node b: pod two: container agent waits: CrashLoopBackOff, before it ended with exit code 2 \
             (Error)",
        ];
        assert_eq!(sight(pods).troubles(), expected);
        let running = json!([
            {
                "metadata": { "name": "one" }, "spec": { "nodeName": "a" },
                "status": { "containerStatuses": [{
                    "name": "agent", "ready": false, "state": { "running": {} },
                }] },
            },
            {
                "metadata": { "name": "two" }, "spec": { "nodeName": "b" },
                "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
            },
        ]);
        let expected = ["node a: pod one: container agent runs and is not ready"];
        assert_eq!(sight(running).troubles(), expected);
    }
}
