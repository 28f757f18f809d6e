//! How an endpoint is changed.

use std::sync::Arc;

use super::{Endpoint, EndpointSpec, messages::BuiltReply, trigger::Trigger};
use crate::{
    endpoints::{
        endpoint::{Level, Patch, PatchError},
        workloads::PodFacts,
    },
    host::Cx,
};

/// Source of an orchestrator's labels.
const ORCHESTRATOR: &str = "k8s";

impl Endpoint {
    /// Its orchestrator says this of its pod now; labels of other sources stay.
    pub(super) fn describe(&mut self, cx: &mut Cx<'_, Self>, facts: PodFacts) {
        let PodFacts { mut labels, named_ports } = facts;
        for label in self.record.spec.labels.iter().filter(|label| label.source != ORCHESTRATOR) {
            labels.insert(label.clone());
        }
        let was_unlabelled = std::mem::take(&mut self.record.unlabelled);
        if self.record.spec.labels != labels || self.record.spec.named_ports != named_ports {
            let (labels, named_ports) = (Some(labels), Some(named_ports));
            let patch = Patch { labels, named_ports, ..Patch::default() };
            self.patch(cx, patch, None);
        } else if was_unlabelled {
            self.remember();
            let reason = Arc::from("its labels are known");
            self.trigger(cx, Trigger::new(Level::Rewrite, reason, Vec::new()));
        }
    }

    pub(super) fn patch(&mut self, cx: &mut Cx<'_, Self>, patch: Patch, reply: Option<BuiltReply>) {
        if self.phase.is_going() {
            if let Some(reply) = reply {
                reply.send(Err(PatchError::NotFound));
            }
            return;
        }
        let mut spec = EndpointSpec::clone(&self.record.spec);
        if let Some(labels) = patch.labels {
            spec.labels = labels;
        }
        if let Some(named_ports) = patch.named_ports {
            spec.named_ports = named_ports;
        }
        if let Some(interface) = patch.interface {
            spec.merge(interface);
        }
        let custom = patch.custom.map_or_else(|| Arc::clone(&self.record.user_labels.0), Arc::new);
        let disabled =
            patch.disabled.map_or_else(|| Arc::clone(&self.record.user_labels.1), Arc::new);
        self.record.user_labels = (custom, disabled);
        let (own, shared) = (patch.options, patch.shared_options);
        if own.is_some() || shared.is_some() {
            let (mut all, mut mine) =
                ((*self.record.options).clone(), (*self.record.own_options).clone());
            // The later word counts, whoever it is for.
            for (name, value) in shared.into_iter().flatten() {
                mine.remove(&name);
                all.insert(name, value);
            }
            for (name, value) in own.into_iter().flatten() {
                mine.insert(name.clone(), value);
                all.insert(name, value);
            }
            (self.record.options, self.record.own_options) = (Arc::new(all), Arc::new(mine));
        }
        self.record.spec = Arc::new(spec);
        self.edition += 1;
        self.outdate();
        self.naming.stale = true;
        if let Some(known) = &mut self.datapath.known {
            known.record.is_right = false;
        }
        self.remember();
        let waiting = reply.into_iter().collect();
        let trigger = Trigger::new(Level::Rewrite, Arc::from("updated endpoint"), waiting);
        if self.is_begun() { self.identify(cx, trigger) } else { self.store(trigger) }
    }
}
