//! For the fuzzer: what containerd says.

use prost::Message;

use super::{
    client::NAMESPACE,
    messages::{Envelope, NAME_BYTES_MAX, OneContainer, Tasks},
};

/// Events, containers and tasks.
pub fn runtime(data: &[u8]) {
    let is_name = |text: &str| !text.is_empty() && text.len() <= NAME_BYTES_MAX;
    if let Ok(envelope) = Envelope::decode(data) {
        assert!(envelope.subject(NAMESPACE).is_none_or(|container| is_name(&container)));
    }
    if let Ok(OneContainer { container: Some(container) }) = OneContainer::decode(data)
        && let Some(pod) = container.pod()
    {
        assert!(is_name(&pod.namespace) && is_name(&pod.name), "{pod:?}");
        assert!(pod.uid.len() <= NAME_BYTES_MAX, "{pod:?}");
    }
    if let Ok(Tasks { tasks }) = Tasks::decode(data) {
        assert!(tasks.iter().filter(|task| task.runs()).count() <= tasks.len());
    }
}
