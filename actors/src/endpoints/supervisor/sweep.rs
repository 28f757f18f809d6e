//! The supervisor's round: what the kernel shows against what was written, and vanished interfaces.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{Endpoints, Schedule, answers::EndpointsAnswer};
use crate::{
    endpoints::{
        endpoint::{EndpointMsg, EndpointState, EndpointView},
        supervisor::KernelLook,
    },
    host::{AskError, Cx, Reply},
    model::{
        EndpointId,
        drift::{DriftByMap, DriftKind},
    },
    mutants::{Mutant, mutated},
    ports::{
        KernelDone, KernelJob, KernelOp, KernelOutcome, KernelSnapshot, OwnedRows, PolicyCheck,
    },
};

const PATIENCE: Duration = Duration::from_secs(30);

/// Rows that no endpoint wrote, and what removes them.
#[derive(Default)]
struct ForeignEndpointRows {
    ops: Vec<KernelOp>,
    found: DriftByMap,
    ids: BTreeSet<EndpointId>,
}

impl ForeignEndpointRows {
    /// All rows of numbers that nobody has. What lets packets through goes first.
    ///
    /// `stands` says under which interface an endpoint's configuration is, if that is sure.
    fn of(
        snapshot: &KernelSnapshot,
        is_taken: impl Fn(EndpointId) -> bool,
        stands: impl Fn(EndpointId) -> Option<u32>,
    ) -> Self {
        let mut all = Self::default();
        let config = snapshot.config.iter().map(|(ifindex, row)| (*ifindex, row.endpoint));
        for (ifindex, endpoint) in config {
            if is_taken(endpoint) && stands(endpoint).is_none_or(|own| own == ifindex) {
                continue;
            }
            let remove = KernelOp::DeleteConfig { ifindex, endpoint };
            all.add("volvox_config", endpoint, format!("interface {ifindex}"), remove);
        }
        let local = snapshot.lxc.iter().filter(|(_, row)| row.endpoint != 0);
        for (&address, row) in local.filter(|(_, row)| !is_taken(EndpointId(row.endpoint))) {
            let remove = KernelOp::DeleteLxc { address, endpoint: row.endpoint };
            all.add("cilium_lxc", EndpointId(row.endpoint), address.to_string(), remove);
        }
        for &endpoint in snapshot.policy_pins.iter().filter(|id| !is_taken(**id)) {
            let pin = format!("cilium_policy_v2_{:05}", endpoint.0);
            all.add("cilium_policy_v2", endpoint, pin, KernelOp::UnpinPolicy { endpoint });
        }
        let records = snapshot.endpoints.keys().chain(&snapshot.torn_rows);
        for &endpoint in records.filter(|id| !is_taken(**id)) {
            let remove = KernelOp::DeleteEndpoint { endpoint };
            all.add("volvox_endpoint", endpoint, format!("endpoint {endpoint}"), remove);
        }
        all
    }

    fn add(&mut self, map: &'static str, id: EndpointId, what: String, remove: KernelOp) {
        self.found.note(map, DriftKind::Foreign, what);
        self.ids.insert(id);
        self.ops.push(remove);
    }
}

/// What the policy maps of endpoints at rest are to hold.
fn checks(views: &[Arc<EndpointView>]) -> Vec<PolicyCheck> {
    let ready = views.iter().filter(|view| view.state == EndpointState::Ready && !view.failing);
    let check = |view: &Arc<EndpointView>| PolicyCheck {
        endpoint: view.id,
        ifindex: view.spec.config_ifindex(),
        rows: Arc::clone(&view.realised.policy),
    };
    ready.map(check).collect()
}

impl Endpoints {
    /// Sets the time of the next look; none if looking is switched off.
    pub(super) fn sweep_later(&self, cx: &mut Cx<'_, Self>) {
        let Schedule { sweep, collect, .. } = self.schedule;
        if let Some(wait) = [sweep, collect].into_iter().filter(|span| !span.is_zero()).min() {
            cx.after(wait, EndpointsAnswer::Sweep);
        }
    }

    pub(super) fn sweep(&mut self, cx: &mut Cx<'_, Self>) {
        self.sweep_later(cx);
        for child in self.family.children.values_mut() {
            child.pay();
        }
        self.make_host(cx);
        self.look(cx);
    }

    /// Asks the kernel what it shows, unless that is under way.
    pub(super) fn look(&mut self, cx: &mut Cx<'_, Self>) {
        if std::mem::replace(&mut self.sweeping, true) {
            return;
        }
        self.looked = cx.now();
        let newest = self.family.revision;
        self.seen = self.family.children.values().map(|child| child.shown(newest)).collect();
        self.taken.clone_from(self.family.numbers.taken());
        let mut ops = vec![KernelOp::Snapshot];
        if !self.schedule.sweep.is_zero() {
            ops.push(KernelOp::ComparePolicies(checks(&self.seen)));
        }
        let reply = cx.expect("kernel", PATIENCE, "a look at the kernel", EndpointsAnswer::Swept);
        self.peers.kernel.submit(KernelJob::new(ops), reply);
    }

    pub(super) fn swept(&mut self, cx: &mut Cx<'_, Self>, answer: Result<KernelDone, AskError>) {
        self.sweeping = false;
        let before = std::mem::take(&mut self.seen);
        let taken = std::mem::take(&mut self.taken);
        let outcomes = match answer {
            Ok(KernelDone { outcomes, failed }) => {
                if let Some((_, error)) = failed {
                    tracing::warn!(%error, "the kernel could not be compared");
                }
                outcomes
            }
            Err(error) => {
                tracing::warn!(%error, "the kernel could not be compared");
                Vec::new()
            }
        };
        let mut outcomes = outcomes.into_iter();
        let Some(KernelOutcome::Snapshot(snapshot)) = outcomes.next() else { return };
        let differing = match outcomes.next() {
            Some(KernelOutcome::DifferingPolicies(differing)) => differing,
            _ => BTreeSet::new(),
        };
        let snapshot: Arc<KernelSnapshot> = Arc::from(snapshot);
        if !self.schedule.sweep.is_zero() {
            let rows = Arc::new(OwnedRows::of(&snapshot));
            for (id, child) in &self.family.children {
                let (snapshot, rows) = (Arc::clone(&snapshot), Arc::clone(&rows));
                let (asked, policy_differs) = (self.looked, differing.contains(id));
                // One that is busy is compared the next time.
                let _ = child.address.tell(EndpointMsg::Audit {
                    snapshot,
                    rows,
                    asked,
                    policy_differs,
                });
            }
            self.remove_strangers(cx, &snapshot, &taken, &before);
        }
        let looked = KernelLook { before, kernel: Arc::clone(&snapshot) };
        if let Err(refused) = self.auditor.say(looked) {
            tracing::warn!(%refused, "what the kernel shows is not audited");
        }
        let Schedule { collect, .. } = self.schedule;
        if !collect.is_zero() && cx.now().since(self.collected) >= collect {
            self.collected = cx.now();
            self.collect(&snapshot);
        }
    }

    /// Removes rows of numbers that nobody has, now or when the kernel was asked. Before all that
    /// earlier runs left is judged, they may be somebody's.
    fn remove_strangers(
        &mut self,
        cx: &mut Cx<'_, Self>,
        snapshot: &KernelSnapshot,
        taken: &BTreeSet<EndpointId>,
        before: &[Arc<EndpointView>],
    ) {
        if !self.family.cleaned || mutated(Mutant::StrangersNotSwept) {
            return;
        }
        let now = self.family.numbers.taken();
        let is_taken = |id| taken.contains(&id) || now.contains(&id);
        // One that changed meanwhile may have moved.
        let stands = |id| {
            let child = self.family.children.get(&id)?;
            // They are in the order of their numbers.
            let at = before.binary_search_by_key(&id, |view| view.id).ok()?;
            let spec = &child.view.spec;
            Arc::ptr_eq(&before[at].spec, spec).then(|| spec.config_ifindex())
        };
        let strangers = ForeignEndpointRows::of(snapshot, is_taken, stands);
        if strangers.ops.is_empty() {
            return;
        }
        let found = strangers.found.into_all();
        tracing::warn!(rows = strangers.ops.len(), "rows of nobody's endpoints are removed");
        self.peers.watch.tell(found);
        // Nobody is to have such a number before its rows are gone.
        let ids = strangers.ids.into_iter().filter(|id| !is_taken(*id));
        let ids: Vec<_> = ids.collect();
        for id in &ids {
            self.family.numbers.take(*id);
        }
        let home = cx.home().clone();
        let reply = Reply::to(move |_| {
            let _ = home.tell(EndpointsAnswer::StrangersGone(ids));
        });
        self.peers.kernel.submit(KernelJob::new(strangers.ops), reply);
    }

    /// Removes endpoints whose interface is gone for the second time.
    fn collect(&mut self, snapshot: &KernelSnapshot) {
        let gone: BTreeSet<EndpointId> = self
            .family
            .children
            .iter()
            .filter(|(_, child)| {
                child.view.state.may_become(EndpointState::Disconnecting)
                    && !child.view.spec.is_among(&snapshot.links)
            })
            .map(|(&id, _)| id)
            .collect();
        for id in gone.intersection(&self.vanished) {
            if let Some(child) = self.family.children.get(id) {
                tracing::warn!(endpoint = %id, "interface is gone; endpoint is removed");
                let _ = child.address.tell(EndpointMsg::Delete { reply: Reply::to(|_| {}) });
            }
        }
        self.vanished = gone;
    }
}
