//! Tests that concern more than one file of the module, and what they share.

mod crash;
mod record;
mod scan;

use std::collections::BTreeMap;

use super::{EndpointRecord, OperatorLabels, Options, SecurityLabels};
use crate::{
    model::{EndpointId, IdentityId, Label, Labels, Mac},
    testing::MemoryFs,
};

/// A record with every kind of field in use.
fn sample(id: u16, generation: u32) -> EndpointRecord {
    let labels = Labels::from_iter([
        Label::new("k8s", "app", "gull"),
        Label::new("k8s", "io.kubernetes.pod.namespace", "shore"),
    ]);
    EndpointRecord {
        id: EndpointId(id),
        container_id: "c0ffee".repeat(8),
        ifname: format!("lxc{id:05}"),
        ifindex: u32::from(id) + 100,
        container_ifname: "eth0".to_owned(),
        labels: OperatorLabels { orchestration_identity: labels.clone(), ..Default::default() },
        mac: Mac([2, 0x4a, 0, 0, 0, 7]),
        ipv6: "fd00:10::7".parse().ok(),
        ipv4: "10.7.0.7".parse().ok(),
        ipv4_pool: "default".to_owned(),
        node_mac: Mac([2, 0x4b, 0, 0, 0, 7]),
        security: SecurityLabels { id: IdentityId(40_321), labels },
        options: Options { map: BTreeMap::from([("TraceNotification".to_owned(), 1)]).into() },
        pod_name: "gull-0".to_owned(),
        namespace: "shore".to_owned(),
        pod_uid: "9a2d".to_owned(),
        netns_cookie: u64::MAX,
        generation,
        ..Default::default()
    }
}
