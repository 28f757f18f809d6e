//! What the agent says of itself, by the numbers and members of Hubble's API.

use volvox_actors::{
    model::Labels,
    ports::{AddressNews, AgentNews},
};
use volvox_hubble::{
    json::parse_moment,
    messages::{
        AgentEvent, AgentNotification, EndpointRegenNotification, EndpointUpdateNotification,
        IpcacheNotification, PolicyUpdateNotification, TimeNotification, UnknownNotification,
    },
};

/// Numbers of `AgentEventType`.
const UNKNOWN: i32 = 0;
const STARTED: i32 = 2;
const POLICY_UPDATED: i32 = 3;
const POLICY_DELETED: i32 = 4;
const REGENERATED: i32 = 5;
const NOT_REGENERATED: i32 = 6;
const ENDPOINT_CREATED: i32 = 7;
const ENDPOINT_DELETED: i32 = 8;
const IPCACHE_UPSERTED: i32 = 9;
const IPCACHE_DELETED: i32 = 10;

/// An event of the API.
pub(super) fn agent_event(news: &AgentNews) -> AgentEvent {
    use AgentNotification as Of;
    let either = |is_second: bool, first, second| if is_second { second } else { first };
    let texts = |labels: &Labels| labels.to_texts();
    let (kind, notification) = match news {
        AgentNews::Drifted(drift) => {
            let notification = format!("rows that somebody else changed are put right: {drift}");
            let kind = "drift".to_owned();
            (UNKNOWN, Of::Unknown(UnknownNotification { kind, notification }))
        }
        AgentNews::Started { time } => {
            (STARTED, Of::AgentStart(TimeNotification { time: parse_moment(time) }))
        }
        AgentNews::Regenerated { id, labels, error } => {
            let regenerated = EndpointRegenNotification {
                id: id.0.into(),
                labels: texts(labels),
                error: error.as_deref().unwrap_or_default().to_owned(),
            };
            let kind = either(error.is_some(), REGENERATED, NOT_REGENERATED);
            (kind, Of::EndpointRegenerate(regenerated))
        }
        AgentNews::Policies { labels, revision, count, deleted } => {
            let rule_count = i64::try_from(*count).unwrap_or(i64::MAX);
            let (labels, revision) = (labels.clone(), *revision);
            let kind = either(*deleted, POLICY_UPDATED, POLICY_DELETED);
            (kind, Of::PolicyUpdate(PolicyUpdateNotification { labels, revision, rule_count }))
        }
        AgentNews::Endpoint { id, labels, namespace, pod, deleted } => {
            let update = EndpointUpdateNotification {
                id: id.0.into(),
                labels: texts(labels),
                error: String::new(),
                pod_name: pod.clone(),
                namespace: namespace.clone(),
            };
            let kind = either(*deleted, ENDPOINT_CREATED, ENDPOINT_DELETED);
            (kind, Of::EndpointUpdate(update))
        }
        AgentNews::Address { prefix, now, before, deleted } => {
            let node = |it: &AddressNews| it.node.map(|it| it.to_string()).unwrap_or_default();
            let update = IpcacheNotification {
                cidr: prefix.to_string(),
                identity: now.identity.0,
                old_identity: before.map(|it| it.identity.0),
                host_ip: node(now),
                old_host_ip: before.as_ref().map(node).unwrap_or_default(),
                encrypt_key: now.key.into(),
                ..IpcacheNotification::default()
            };
            (either(*deleted, IPCACHE_UPSERTED, IPCACHE_DELETED), Of::IpcacheUpdate(update))
        }
    };
    AgentEvent { kind, notification: Some(notification) }
}
