//! The messages of containerd's API that are needed (`containerd.services.*.v1`), and of them the fields that
//! are used. Numbers are the API's; unknown fields are skipped.

use std::collections::BTreeMap;

use prost::Message;
use volvox_actors::ports::RuntimePod;

/// Says what kind of container the Kubernetes part of containerd made.
const KIND: &str = "io.cri-containerd.kind";
/// A pod's own container, which has its network namespace.
const SANDBOX: &str = "sandbox";
/// Of which pod it is.
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_UID: &str = "io.kubernetes.pod.uid";
/// Longest name that Kubernetes gives, bytes.
pub(crate) const NAME_BYTES_MAX: usize = 253;

/// Selects sandboxes in a list of containers.
pub(crate) const SANDBOXES: &str = "labels.\"io.cri-containerd.kind\"==\"sandbox\"";
/// What became of a container, as far as that matters for its network. All say first whose it is.
const TOPICS: [&str; 5] = [
    "/tasks/start",
    "/tasks/exit",
    "/containers/create",
    "/containers/update",
    "/containers/delete",
];
const TASK_EXIT: &str = "/tasks/exit";

/// A task that ran, and does so no more.
const STOPPED: i32 = 3;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VersionResponse {
    #[prost(string, tag = "1")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Filters {
    #[prost(string, repeated, tag = "1")]
    pub filters: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Envelope {
    #[prost(string, tag = "2")]
    pub namespace: String,
    #[prost(string, tag = "3")]
    pub topic: String,
    #[prost(message, optional, tag = "4")]
    pub event: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Any {
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// What all events begin with that are listened to. The end of a process also says which one.
#[derive(Clone, PartialEq, Message)]
struct EventSubject {
    #[prost(string, tag = "1")]
    container: String,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessEnd {
    #[prost(string, tag = "1")]
    container: String,
    #[prost(string, tag = "2")]
    process: String,
}

/// A request that only names a container.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ById {
    #[prost(string, tag = "1")]
    pub id: String,
}

/// An answer, or a part of one, that is a container.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OneContainer {
    #[prost(message, optional, tag = "1")]
    pub container: Option<Container>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OneTask {
    #[prost(message, optional, tag = "1")]
    pub task: Option<Task>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tasks {
    #[prost(message, repeated, tag = "1")]
    pub tasks: Vec<Task>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Task {
    #[prost(string, tag = "2")]
    pub id: String,
    #[prost(int32, tag = "4")]
    pub status: i32,
}

/// Selects what is listened to, in that namespace.
pub(crate) fn topics(namespace: &str) -> Vec<String> {
    TOPICS.iter().map(|topic| format!("namespace==\"{namespace}\",topic==\"{topic}\"")).collect()
}

impl Envelope {
    /// Which container it is about; `None` if it says nothing of one's beginning or end.
    pub(crate) fn subject(self, namespace: &str) -> Option<String> {
        if self.namespace != namespace || !TOPICS.contains(&self.topic.as_str()) {
            return None;
        }
        let value = self.event?.value;
        let container = if self.topic == TASK_EXIT {
            let ProcessEnd { container, process } = ProcessEnd::decode(&*value).ok()?;
            // Others in it, such as probes, come and go.
            (process == container).then_some(container)?
        } else {
            EventSubject::decode(&*value).ok()?.container
        };
        (!container.is_empty() && container.len() <= NAME_BYTES_MAX).then_some(container)
    }
}

impl Container {
    /// The pod that it is the sandbox of.
    pub(crate) fn pod(&self) -> Option<RuntimePod> {
        let label = |key: &str| self.labels.get(key).cloned().unwrap_or_default();
        let pod = RuntimePod {
            namespace: label(POD_NAMESPACE),
            name: label(POD_NAME),
            uid: label(POD_UID),
        };
        let is_name = |text: &str| !text.is_empty() && text.len() <= NAME_BYTES_MAX;
        let is_whole = is_name(&pod.namespace) && is_name(&pod.name);
        let is_short = pod.uid.len() <= NAME_BYTES_MAX;
        (label(KIND) == SANDBOX && is_whole && is_short).then_some(pod)
    }
}

impl Task {
    /// Whether it runs, or is about to, or nobody can say.
    pub(crate) fn runs(&self) -> bool {
        self.status != STOPPED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(namespace: &str, topic: &str, event: &impl Message) -> Envelope {
        let (namespace, topic) = (namespace.to_owned(), topic.to_owned());
        Envelope { namespace, topic, event: Some(Any { value: event.encode_to_vec() }) }
    }

    #[test]
    fn events_of_a_container_name_it_and_others_say_nothing() {
        let created = EventSubject { container: "abc".to_owned() };
        for topic in TOPICS.iter().filter(|it| **it != TASK_EXIT) {
            assert_eq!(envelope("k8s.io", topic, &created).subject("k8s.io").unwrap(), "abc");
        }
        let ended = |process: &str| ProcessEnd { container: "abc".into(), process: process.into() };
        let exit = |process| envelope("k8s.io", TASK_EXIT, &ended(process)).subject("k8s.io");
        assert_eq!((exit("abc"), exit("a-probe")), (Some("abc".to_owned()), None));
        assert_eq!(envelope("moby", "/tasks/start", &created).subject("k8s.io"), None);
        assert_eq!(envelope("k8s.io", "/images/create", &created).subject("k8s.io"), None);
        let nobody = EventSubject { container: String::new() };
        assert_eq!(envelope("k8s.io", "/tasks/start", &nobody).subject("k8s.io"), None);
        let rubbish = Some(Any { value: vec![0xff; 9] });
        let envelope = Envelope { event: rubbish, ..envelope("k8s.io", TASK_EXIT, &created) };
        assert_eq!(envelope.subject("k8s.io"), None);
    }

    #[test]
    fn a_sandbox_names_its_pod_and_another_container_none() {
        let labels = |kind: &str, name: &str| {
            let all = [(KIND, kind), (POD_NAMESPACE, "ns"), (POD_NAME, name), (POD_UID, "u1")];
            all.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
        };
        let pod = |kind, name| Container { id: "abc".into(), labels: labels(kind, name) }.pod();
        let found = pod(SANDBOX, "web").unwrap();
        assert_eq!((&*found.namespace, &*found.name, &*found.uid), ("ns", "web", "u1"));
        assert_eq!((pod("container", "web"), pod(SANDBOX, "")), (None, None));
        assert_eq!(pod(SANDBOX, &"x".repeat(254)), None);
    }

    #[test]
    fn fields_that_are_not_used_are_skipped() {
        #[derive(Clone, PartialEq, Message)]
        struct Whole {
            #[prost(string, tag = "1")]
            container: String,
            #[prost(string, tag = "2")]
            id: String,
            #[prost(uint32, tag = "3")]
            pid: u32,
            #[prost(int32, tag = "4")]
            status: i32,
            #[prost(uint32, tag = "9")]
            exit: u32,
        }
        let of = |status| {
            let whole =
                Whole { container: String::new(), id: "abc".into(), pid: 7, status, exit: 9 };
            Task::decode(&*whole.encode_to_vec()).unwrap()
        };
        assert_eq!((of(2).id.as_str(), of(2).runs()), ("abc", true));
        let runs: Vec<_> = (0..6).map(|status| of(status).runs()).collect();
        assert_eq!(runs, [true, true, true, false, true, true]);
    }
}
