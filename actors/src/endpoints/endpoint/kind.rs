//! The two kinds of endpoints, and where they differ.
//!
//! | | pod | host |
//! |---|---|---|
//! | interface | its own, with programs at it | none: programs at the node's devices ask for it |
//! | addresses | its own | none: the node's are not its to give |
//! | identity | by its labels | always `reserved:host`, whatever its labels are |
//! | labels that select policies | those that count | all |

use std::{borrow::Cow, collections::BTreeMap};

use super::EndpointSpec;
use crate::{
    model::{Addresses, EndpointKind, Label, Labels},
    ports::{HOST_DEVICE, HOST_IFINDEX, Link},
};

/// The labels that stand behind the number of an endpoint of that kind that has these.
pub(super) fn numbered(kind: EndpointKind, labels: &Labels) -> Cow<'_, Labels> {
    match kind {
        EndpointKind::Pod => Cow::Borrowed(labels),
        EndpointKind::Host => Cow::Owned(Labels::reserved("host")),
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

    /// Whether it is the node itself.
    pub fn is_host(&self) -> bool {
        self.kind == EndpointKind::Host
    }

    /// The key of its configuration row.
    pub fn config_ifindex(&self) -> u32 {
        match self.kind {
            EndpointKind::Pod => self.ifindex,
            EndpointKind::Host => HOST_IFINDEX,
        }
    }

    /// The interface that is its own; 0 is one that is not known.
    pub fn interface_of_its_own(&self) -> Option<u32> {
        match self.kind {
            EndpointKind::Pod => Some(self.ifindex),
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
