//! What an endpoint lacks in the kernel, by what is seen at its interface.

use std::sync::Arc;

use super::EndpointSpec;
use crate::{model::repairs::Repairs, ports::Probe};

/// What was seen that keeps an endpoint from being served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// What it is.
    pub why: Arc<str>,
    /// Its interface is gone, or another one now, or another plugin's and down: nothing can be
    /// repaired before it is back.
    pub gone: bool,
}

/// What is seen at its interface, and what is done about that.
#[derive(Default)]
pub(super) struct InterfaceWatch {
    /// What keeps it from being served, by what was seen last.
    pub(super) lost: Option<Lost>,
    /// Something was seen that could not be taken in.
    pub(super) missed: bool,
    pub(super) repairs: Repairs,
}

impl Lost {
    /// What keeps the endpoint from being served, if anything of what is seen does.
    pub(crate) fn seen(spec: &EndpointSpec, probe: &Probe) -> Option<Self> {
        spec.interface_of_its_own()?;
        let interface = spec.interface();
        let gone = |why: String| Some(Self { why: Arc::from(why), gone: true });
        let lost = |why: String| Some(Self { why: Arc::from(why), gone: false });
        let Some(link) = &probe.link else { return gone(format!("{interface} is gone")) };
        if let Some(difference) = link.differs(&spec.ifname, spec.node_mac) {
            return gone(format!("{interface} is another one now: {difference}"));
        }
        if let Some(trouble) = probe.attachment.trouble() {
            return lost(format!("at {interface} {trouble}"));
        }
        if spec.is_chained() {
            let down =
                format!("{interface} of another plugin is down: see why that plugin took it");
            return if link.up { None } else { gone(down) };
        }
        if !link.up {
            return lost(format!("{interface} is down"));
        }
        let missing = spec.addresses.iter().find(|address| !probe.routes.contains(address));
        missing.and_then(|address| lost(format!("the route to {address} by {interface} is gone")))
    }
}
