//! How `volvox endpoint` shows endpoints to people: tables and lists of members.

use std::collections::BTreeSet;

use volvox_rest::models::{
    AddressPair, ConfigurationAnswer, Endpoint, EndpointStatus, LabelsAnswer, Networking,
    StatusChange,
};

use super::{
    error::ClientError,
    output::{Listed, Output, namespace_of},
};

/// Label of the node itself.
const HOST: &str = "reserved:host";

impl Listed for Endpoint {
    const HEADINGS: &'static [&'static str] =
        &["ID", "STATE", "POLICY", "IDENTITY", "IPV4", "IPV6", "POD"];
    const WIDE: &'static [&'static str] =
        &["REVISION", "HEALTH", "INTERFACE", "CONTAINER", "LABELS"];

    fn cells(&self) -> Vec<String> {
        let status = &self.status;
        let addresses = addresses(self);
        let container: String = status.external_identifiers.container_id.chars().take(12).collect();
        vec![
            self.id.to_string(),
            status.state.clone(),
            status.policy.realized.policy_enabled.clone(),
            status.identity.id.to_string(),
            addresses.ipv4.map(|ip| ip.to_string()).unwrap_or_default(),
            addresses.ipv6.map(|ip| ip.to_string()).unwrap_or_default(),
            pod(self),
            status.policy.realized.policy_revision.to_string(),
            status.health.overall_health.clone(),
            status.networking.interface_name.clone(),
            container,
            status.labels.security_relevant.join("\n"),
        ]
    }

    fn namespaces(&self) -> BTreeSet<String> {
        namespace_of(&pod(self))
    }
}

pub(super) fn endpoint(out: &mut Output<'_>, endpoint: &Endpoint) -> Result<(), ClientError> {
    let status = &endpoint.status;
    let (names, network) = (&status.external_identifiers, &status.networking);
    let policy = &status.policy.realized;
    let addresses = addresses(endpoint);
    let log = status.log.first();
    out.members(&[
        ("ID", endpoint.id.to_string()),
        ("State", status.state.clone()),
        ("Health", status.health.overall_health.clone()),
        ("Pod", pod(endpoint)),
        ("Container", names.container_id.clone()),
        ("Identity", status.identity.id.to_string()),
        ("Labels", status.labels.security_relevant.join("\n")),
        ("IPv4", addresses.ipv4.map(|ip| ip.to_string()).unwrap_or_default()),
        ("IPv6", addresses.ipv6.map(|ip| ip.to_string()).unwrap_or_default()),
        ("Interface", interface(network)),
        ("MAC", macs(network)),
        ("Policy", format!("{}, revision {}", policy.policy_enabled, policy.policy_revision)),
        ("Last", log.map(|log| format!("{} {}", log.timestamp.0, log.message)).unwrap_or_default()),
    ])
}

pub(super) fn log(out: &mut Output<'_>, entries: &[StatusChange]) -> Result<(), ClientError> {
    let rows = entries.iter().map(|entry| {
        let StatusChange { timestamp, code, state, message } = entry;
        [timestamp.0.clone(), code.clone(), state.clone(), message.clone()]
    });
    out.table(["TIME", "CODE", "STATE", "MESSAGE"], rows)
}

pub(super) fn labels(out: &mut Output<'_>, answer: &LabelsAnswer) -> Result<(), ClientError> {
    let status = &answer.status;
    let kinds = [
        ("identity", &status.security_relevant),
        ("information", &status.derived),
        ("added", &status.realized.user),
        ("disabled", &status.disabled),
    ];
    let rows = kinds
        .into_iter()
        .flat_map(|(kind, labels)| labels.iter().map(move |label| [kind.into(), label.clone()]));
    out.table(["KIND", "LABEL"], rows)
}

pub(super) fn configuration(
    out: &mut Output<'_>,
    answer: &ConfigurationAnswer,
) -> Result<(), ClientError> {
    let options = answer.realized.options.iter();
    out.table(["OPTION", "VALUE"], options.map(|(name, value)| [name.clone(), value.clone()]))
}

fn addresses(endpoint: &Endpoint) -> AddressPair {
    endpoint.status.networking.addressing.first().cloned().unwrap_or_default()
}

/// The interface; the node itself has none of its own.
fn interface(network: &Networking) -> String {
    match network.interface_index {
        0 => "none of its own".to_owned(),
        number => format!("{} ({number})", network.interface_name),
    }
}

fn macs(network: &Networking) -> String {
    match network.mac.is_zero() && network.host_mac.is_zero() {
        true => String::new(),
        false => format!("{} (host side {})", network.mac, network.host_mac),
    }
}

/// The pod's name, or that it is the node itself; nothing outside Kubernetes, where Cilium writes
/// `/`.
fn pod(endpoint: &Endpoint) -> String {
    let EndpointStatus { external_identifiers, labels, .. } = &endpoint.status;
    let is_host = labels.security_relevant.iter().any(|label| label == HOST);
    match external_identifiers.pod_name.as_str() {
        "/" if is_host => HOST.to_owned(),
        "/" => String::new(),
        name => name.to_owned(),
    }
}
