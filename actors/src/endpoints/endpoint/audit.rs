//! How an endpoint compares what the kernel shows with what it knows.

use std::sync::Arc;

use super::{Endpoint, EndpointState, Lost, realised::RealisedEndpoint, trigger::Trigger};
use crate::{
    endpoints::endpoint::Level,
    host::{Cx, Time},
    model::{
        PolicyKey, PolicyRows,
        drift::{DriftByMap, DriftKind},
    },
    mutants::{Mutant, mutated},
    ports::{ConfigRow, EndpointRow, KernelSnapshot, OwnedRows, Probe},
};

/// A text of a record is cut where its field ends; none is shorter than this.
const FIELD_BYTES_MIN: usize = 15;

impl Endpoint {
    /// Puts a difference right, and what could not be finished.
    pub(super) fn audit(
        &mut self,
        cx: &mut Cx<'_, Self>,
        snapshot: &KernelSnapshot,
        rows: &OwnedRows,
        asked: Time,
        policy_differs: bool,
    ) {
        let at_rest = !self.datapath.busy && !self.datapath.settling && self.phase.is_idle();
        // What was done after the question may not show in the answer.
        if !at_rest || self.state != EndpointState::Ready || self.datapath.worked_at >= asked {
            return;
        }
        let Some(known) = &self.datapath.known else { return };
        let mut seen = RealisedEndpoint::seen(snapshot, rows, self.id, &self.record.spec);
        seen.record.is_right &= !known.record.is_right || self.is_recorded(snapshot);
        let link = snapshot.links.get(&self.record.spec.ifindex).cloned();
        let (attachment, routes) = (seen.attachment, seen.routes.clone());
        let lost = Lost::seen(&self.record.spec, &Probe { link, attachment, routes });
        let lost = lost.filter(|_| !mutated(Mutant::LostUnnoticed));
        if lost.as_ref().is_some_and(|lost| lost.gone) {
            // There is nothing to build at.
            return self.lose(cx, lost);
        }
        // It was held against what it showed; who keeps an earlier run's may know of more rows.
        let is_shown = known.policy.as_ref() == Some(&self.realised.policy);
        let policy_differs = policy_differs && is_shown && !mutated(Mutant::PoliciesNotSwept);
        if seen == known.shown() && self.interface.lost == lost && !policy_differs {
            return self.settle(cx);
        }
        self.lose(cx, lost);
        tracing::warn!(endpoint = %self.id, "the kernel's rows differ from what was written");
        // Its pin may show another map; one that shows the right one stays.
        seen.pinned &= !policy_differs;
        self.datapath.believed = self.datapath.known.take();
        self.compare_rows(&seen, snapshot);
        // The policy map is read again as well: whoever changed the rows may have changed it.
        self.datapath.known = Some(seen);
        let reason = Arc::from("datapath differs from what was written");
        self.trigger(cx, Trigger::new(Level::Rewrite, reason, Vec::new()));
    }

    /// The kernel is read anew before the next build, to see what drifted.
    pub(super) fn doubt(&mut self) {
        if let Some(known) = self.datapath.known.take() {
            self.datapath.believed = Some(known);
            self.mapped = None;
        }
    }

    /// Whether its record says who it is.
    fn is_recorded(&self, snapshot: &KernelSnapshot) -> bool {
        let desired = self.kernel_record();
        snapshot.endpoints.get(&self.id).is_some_and(|row| says_the_same(row, &desired))
    }

    /// Notes which of its rows are not as it knew them.
    pub(super) fn compare_rows(&mut self, seen: &RealisedEndpoint, snapshot: &KernelSnapshot) {
        let Some(believed) = &self.datapath.believed else { return };
        let mut found = DriftByMap::default();
        let place = |_: &ConfigRow| format!("endpoint {}", self.id);
        let config = believed.config.as_ref().or(seen.config.as_ref()).map(place);
        found.compare(
            "volvox_config",
            believed.config.as_ref(),
            seen.config.as_ref(),
            config.unwrap_or_default(),
        );
        found.compare_all("cilium_lxc", &believed.lxc, &seen.lxc, ToString::to_string);
        if believed.record.is_right && !self.is_recorded(snapshot) {
            let kind = match snapshot.endpoints.contains_key(&self.id) {
                true => DriftKind::Changed,
                false if snapshot.torn_rows.contains(&self.id) => DriftKind::Changed,
                false => DriftKind::Missing,
            };
            found.note("volvox_endpoint", kind, format_args!("endpoint {}", self.id));
        }
        if believed.pinned && !snapshot.policy_pins.contains(&self.id) {
            let pin = format!("cilium_policy_v2_{:05}", self.id.0);
            found.note("cilium_policy_v2", DriftKind::Missing, pin);
        }
        self.take_in(found);
    }

    /// Notes which rows of its policy are not as it knew them; without any the slot is empty.
    pub(super) fn compare_policy(&mut self, seen: Option<&PolicyRows>) {
        let Some(believed) = self.datapath.believed.take().and_then(|believed| believed.policy)
        else {
            return;
        };
        self.datapath.retained = Some(Arc::clone(&believed));
        let mut found = DriftByMap::default();
        let id = self.id;
        match seen {
            Some(seen) if *seen == *believed => {}
            Some(seen) => {
                let what = |key: &PolicyKey| format!("endpoint {id}, identity {}", key.identity);
                found.compare_all("cilium_policy_v2", &believed, seen, what);
            }
            None => found.note("volvox_policy", DriftKind::Missing, format_args!("endpoint {id}")),
        }
        self.take_in(found);
    }

    fn take_in(&mut self, found: DriftByMap) {
        let found = found.into_all();
        self.peers.watch.tell(found.clone());
        self.datapath.drifted.extend(found);
    }
}

/// Whether two records are of one endpoint as it is. What else is in them is written with a change.
fn says_the_same(found: &EndpointRow, desired: &EndpointRow) -> bool {
    let texts = [
        (&found.container_id, &desired.container_id),
        (&found.container_ifname, &desired.container_ifname),
        (&found.ifname, &desired.ifname),
        (&found.namespace, &desired.namespace),
        (&found.pod_name, &desired.pod_name),
        (&found.pod_uid, &desired.pod_uid),
    ];
    let is_text = |(found, desired): (&String, &String)| {
        found == desired || (found.len() >= FIELD_BYTES_MIN && desired.starts_with(found.as_str()))
    };
    texts.into_iter().all(is_text)
        && (found.ifindex, found.addresses) == (desired.ifindex, desired.addresses)
        && (found.mac, found.node_mac) == (desired.mac, desired.node_mac)
        && found.chained == desired.chained
}
