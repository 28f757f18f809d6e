//! The kinds of endpoints, and where they differ.
//!
//! | | pod | host | health |
//! |---|---|---|---|
//! | interface | its own, with programs at it | none: programs at the node's devices ask for it | as a pod |
//! | addresses | its own | none: the node's are not its to give | as a pod |
//! | identity | by its labels | always `reserved:host`, whatever its labels are | always `reserved:health` |
//! | labels that select policies | those that count | all | `reserved:health` |
//! | made by | whom CNI asks for it | the supervisor of endpoints | the owner of the health endpoint |

use std::{borrow::Cow, collections::BTreeMap};

use super::EndpointSpec;
use crate::{
    model::{Addresses, EndpointId, EndpointKind, Label, Labels},
    ports::{HEALTH_DEVICE, HOST_DEVICE, HOST_IFINDEX, HealthPlace, Link},
};

/// The health endpoint's container and the interface in it, as Cilium calls them.
const HEALTH_NAME: &str = "cilium-health";
const HEALTH_IFNAME: &str = "cilium";
/// Who has its addresses, by Cilium's name.
pub const HEALTH_OWNER: &str = "health";

/// The labels that stand behind the number of an endpoint of that kind that has these.
pub(super) fn numbered(kind: EndpointKind, labels: &Labels) -> Cow<'_, Labels> {
    match kind {
        EndpointKind::Pod => Cow::Borrowed(labels),
        EndpointKind::Host => Cow::Owned(Labels::reserved("host")),
        EndpointKind::Health => Cow::Owned(Labels::reserved("health")),
    }
}

impl EndpointSpec {
    /// The node itself, before anything is known of how it is labelled. Other agents look for it
    /// by the device's name.
    pub fn host() -> Self {
        Self {
            kind: EndpointKind::Host,
            ifname: HOST_DEVICE.to_owned(),
            labels: Labels::reserved("host"),
            ..Self::default()
        }
    }

    /// The health endpoint of that place, by the names that Cilium gives it.
    pub fn health(place: &HealthPlace) -> Self {
        Self {
            kind: EndpointKind::Health,
            container_name: HEALTH_NAME.to_owned(),
            container_netns_path: place.netns_path.clone(),
            container_ifname: HEALTH_IFNAME.to_owned(),
            ifname: HEALTH_DEVICE.to_owned(),
            ifindex: place.ifindex,
            mac: place.mac,
            node_mac: place.node_mac,
            addresses: place.addresses,
            labels: Labels::reserved("health"),
            netns_cookie: place.netns_cookie,
            ..Self::default()
        }
    }

    /// Whether it is the health endpoint.
    pub fn is_health(&self) -> bool {
        self.kind == EndpointKind::Health
    }

    /// Whether it is at that place.
    pub fn is_at_place(&self, place: &HealthPlace) -> bool {
        let own = (self.ifindex, self.node_mac, self.mac, self.addresses);
        let is_namespace = [0, place.netns_cookie].contains(&self.netns_cookie);
        is_namespace && own == (place.ifindex, place.node_mac, place.mac, place.addresses)
    }

    /// Who has its addresses, where it has that number.
    pub fn owner(&self, id: EndpointId) -> String {
        match self.kind {
            EndpointKind::Health => HEALTH_OWNER.to_owned(),
            _ => self.pod().unwrap_or_else(|| format!("endpoint {id}")),
        }
    }

    /// Whether it is the node itself.
    pub fn is_host(&self) -> bool {
        self.kind == EndpointKind::Host
    }

    /// The key of its configuration row.
    pub fn config_ifindex(&self) -> u32 {
        match self.kind {
            EndpointKind::Pod | EndpointKind::Health => self.ifindex,
            EndpointKind::Host => HOST_IFINDEX,
        }
    }

    /// The interface that is its own; 0 is one that is not known.
    pub fn interface_of_its_own(&self) -> Option<u32> {
        match self.kind {
            EndpointKind::Pod | EndpointKind::Health => Some(self.ifindex),
            EndpointKind::Host => None,
        }
    }

    /// Whether its interface still is, by number and, where it is known, by name. One that has none
    /// loses none.
    pub fn is_among(&self, links: &BTreeMap<u32, Link>) -> bool {
        self.interface_of_its_own().is_none_or(|ifindex| self.is_at(links.get(&ifindex)))
    }

    /// Whether what has the number of its interface is that interface.
    pub fn is_at(&self, link: Option<&Link>) -> bool {
        link.is_some_and(|link| self.ifname.is_empty() || link.name == self.ifname)
    }

    /// Without what another agent may have written of the node itself and this one does not.
    pub(super) fn of_its_kind(self) -> Self {
        match self.kind {
            EndpointKind::Pod => self,
            EndpointKind::Health => Self { labels: Labels::reserved("health"), ..self },
            EndpointKind::Host => {
                let mut labels = self.labels;
                labels.insert(Label::new("reserved", "host", ""));
                Self {
                    id: self.id,
                    labels,
                    addresses: Addresses::default(),
                    datapath_configuration: self.datapath_configuration,
                    properties: self.properties,
                    ..Self::host()
                }
            }
        }
    }
}
