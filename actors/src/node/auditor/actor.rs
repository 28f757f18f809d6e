//! The actor that takes each look: it asks the owners and the kernel, one after the other, compares
//! their answers and counts what does not fit. It repairs nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use super::{AuditView, AuditorMsg, answers::AuditorAnswer};
use crate::{
    endpoints::{
        endpoint::{EndpointState, EndpointView},
        ipam::IpamMsg,
        supervisor::{EndpointsMsg, KernelLook},
    },
    host::{AskError, Behaviour, Cx, Lent, Ref, Survives, Time},
    model::{EndpointId, IdentityId, Labels, PolicyRows, drift::Drift},
    node::invariants::{self, EndpointFacts, Snapshot, Violation},
    policy::identity::IdentityMsg,
    ports::{
        AgentNews, AgentNotices, HookState, Kernel, KernelDone, KernelJob, KernelOp, KernelOutcome,
        KernelSnapshot,
    },
};

/// How long another supervisor or the kernel may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Policy maps that are read at each look, in turn: about a millisecond of the kernel's time.
const POLICIES_A_LOOK: usize = 32;

/// Whom the auditor asks.
#[derive(Clone)]
pub struct AuditorPeers {
    /// Policy maps.
    pub kernel: Rc<dyn Kernel>,
    /// The supervisor of endpoints.
    pub endpoints: Ref<EndpointsMsg>,
    /// Who has the addresses.
    pub ipam: Ref<IpamMsg>,
    /// Who has the identities.
    pub identities: Ref<IdentityMsg>,
    /// Who hears of rows that drifted, if anybody does.
    pub notices: Option<Rc<dyn AgentNotices>>,
}

/// Looks whether all is as it must be.
pub struct Auditor {
    peers: AuditorPeers,
    /// Outlives a crash: what was found is found.
    state: Lent<AuditorState>,
    look: Option<Look>,
}

#[derive(Default)]
struct AuditorState {
    view: Arc<AuditView>,
    /// Whether nothing may be left behind any more.
    restored: bool,
    /// Endpoints whose programs were attached at the last look.
    attached: Vec<EndpointId>,
    /// Up to which endpoint policy maps were read.
    read: EndpointId,
    /// What seemed to be left behind at the last look; something that was just on its way looks
    /// the same.
    suspects: BTreeSet<String>,
}

/// A look under way.
struct Look {
    before: Vec<Arc<EndpointView>>,
    kernel: Arc<KernelSnapshot>,
    leases: Vec<(IpAddr, String)>,
    identities: Vec<(IdentityId, Arc<Labels>)>,
    slots: Vec<u32>,
    policies: BTreeMap<u32, Option<PolicyRows>>,
}

impl Auditor {
    /// Makes each life of the auditor.
    pub fn factory(peers: impl Fn() -> AuditorPeers + 'static) -> impl FnMut() -> Self + 'static {
        let state = Survives::default();
        move || Self { peers: peers(), state: state.lend(), look: None }
    }

    fn begin(
        &mut self,
        cx: &mut Cx<'_, Self>,
        before: Vec<Arc<EndpointView>>,
        kernel: Arc<KernelSnapshot>,
    ) {
        // One that takes longer than the time between two is waited for.
        if self.look.is_some() {
            return;
        }
        self.look = Some(Look {
            before,
            kernel,
            leases: Vec::new(),
            identities: Vec::new(),
            slots: Vec::new(),
            policies: BTreeMap::new(),
        });
        let ipam = self.peers.ipam.clone();
        cx.ask(&ipam, PATIENCE, "addresses to compare", IpamMsg::Dump, AuditorAnswer::Leased);
    }

    /// Takes in an answer; without one, nothing can be said this time.
    fn take<T>(&mut self, answer: Result<T, AskError>, into: impl FnOnce(&mut Look, T)) -> bool {
        match (answer, &mut self.look) {
            (Ok(answer), Some(look)) => {
                into(look, answer);
                true
            }
            (answer, _) => {
                if let Err(error) = answer {
                    tracing::debug!(%error, "a look at the node was not finished");
                }
                self.look = None;
                false
            }
        }
    }

    fn ask_identities(&self, cx: &mut Cx<'_, Self>) {
        let identities = self.peers.identities.clone();
        let why = "identities to compare";
        cx.ask(&identities, PATIENCE, why, IdentityMsg::List, AuditorAnswer::Identified);
    }

    /// Reads the policy maps whose turn it is.
    fn read_policies(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(look) = &mut self.look else { return };
        let state = &mut *self.state;
        let ready =
            look.before.iter().filter(|view| view.state == EndpointState::Ready && !view.failing);
        let (ahead, behind): (Vec<_>, Vec<_>) = ready.partition(|view| view.id > state.read);
        for view in ahead.into_iter().chain(behind).take(POLICIES_A_LOOK) {
            state.read = view.id;
            let row = look.kernel.config.get(&view.spec.config_ifindex());
            look.slots.extend(row.filter(|row| row.endpoint == view.id).map(|row| row.policy_slot));
        }
        let ops = look.slots.iter().map(|&slot| KernelOp::ReadPolicy { slot }).collect();
        let why = format!("policies of {} endpoints to compare", look.slots.len());
        let reply = cx.expect("kernel", PATIENCE, why, AuditorAnswer::Read);
        self.peers.kernel.submit(KernelJob::new(ops), reply);
    }

    fn ask_endpoints(&self, cx: &mut Cx<'_, Self>) {
        let endpoints = self.peers.endpoints.clone();
        let list = |reply| EndpointsMsg::List { labels: Labels::default(), reply };
        cx.ask(&endpoints, PATIENCE, "endpoints to compare", list, AuditorAnswer::Listed);
    }

    fn compare(&mut self, cx: &Cx<'_, Self>, after: &[Arc<EndpointView>]) {
        let Some(look) = self.look.take() else { return };
        let began = cx.now();
        let state = &mut *self.state;
        let attached = attached(&look.kernel);
        let snapshot = look.snapshot(after, std::mem::replace(&mut state.attached, attached));
        let mut violations = invariants::check(invariants::ALWAYS, &snapshot);
        if state.restored {
            let left = invariants::check(invariants::AT_REST, &snapshot);
            let seen = left.iter().flat_map(|violation| violation.found.iter().cloned()).collect();
            let suspects = std::mem::replace(&mut state.suspects, seen);
            violations.extend(left.into_iter().filter_map(|mut violation| {
                violation.found.retain(|what| suspects.contains(what));
                (!violation.found.is_empty()).then_some(violation)
            }));
        }
        state.note(violations, cx.now().since(began));
    }
}

impl AuditorState {
    /// Counts rows that somebody else changed, and says it.
    fn drifted(&mut self, found: &[Drift], now: Time, wall: u64) {
        let all = &mut Arc::make_mut(&mut self.view).drift;
        for drift in found {
            let text = drift.to_string();
            tracing::warn!(
                map = drift.map,
                "somebody else changed rows, they are put right: {text}"
            );
            let counted = all.entry(drift.map.to_owned()).or_default();
            counted.missing += drift.missing;
            counted.changed += drift.changed;
            counted.foreign += drift.foreign;
            (counted.last, counted.last_wall, counted.text) = (now, wall, text);
        }
    }

    /// Takes in what was found; what is new is logged.
    fn note(&mut self, mut violations: Vec<Violation>, took: Duration) {
        let broken: BTreeMap<String, Vec<String>> = violations
            .iter()
            .map(|violation| (violation.invariant.to_owned(), violation.found.clone()))
            .collect();
        for violation in &mut violations {
            let known = self.view.broken.get(violation.invariant);
            violation.found.retain(|what| known.is_none_or(|known| !known.contains(what)));
        }
        violations.retain(|violation| !violation.found.is_empty());
        invariants::report(&violations);
        let view = Arc::make_mut(&mut self.view);
        for violation in violations {
            let found = view.found.entry(violation.invariant.to_owned()).or_default();
            *found += violation.found.len() as u64;
        }
        view.looks += 1;
        (view.took, view.broken) = (took, broken);
    }
}

impl Look {
    /// What can be compared: whatever did not change while one looked.
    fn snapshot(self, after: &[Arc<EndpointView>], attached_before: Vec<EndpointId>) -> Snapshot {
        let now: BTreeMap<EndpointId, &Arc<EndpointView>> =
            after.iter().map(|view| (view.id, view)).collect();
        // One whose interface is gone is about to go itself, with its container.
        let stayed = |view: &&Arc<EndpointView>| {
            now.get(&view.id).is_some_and(|now| now.is_as(view))
                && view
                    .spec
                    .interface_of_its_own()
                    .is_none_or(|it| self.kernel.links.contains_key(&it))
        };
        let (stayed, changed): (Vec<_>, Vec<_>) = self.before.iter().partition(stayed);
        let known: BTreeSet<EndpointId> = stayed.iter().map(|view| view.id).collect();
        let changed = changed.iter().map(|view| view.id);
        let changed = changed.chain(now.keys().copied().filter(|id| !known.contains(id))).collect();
        let facts =
            |view: &&Arc<EndpointView>| EndpointFacts::new(view, Arc::clone(&view.realised.policy));
        Snapshot {
            endpoints: stayed.iter().map(facts).collect(),
            changed,
            leases: self.leases,
            identities: self.identities,
            kernel: self.kernel,
            policies: self.policies,
            attached_before,
        }
    }
}

/// Endpoints with programs at both hooks.
fn attached(kernel: &KernelSnapshot) -> Vec<EndpointId> {
    let all = kernel.attachments.iter();
    let attached = all.filter(|(_, at)| {
        at.from_container != HookState::Empty && at.to_container != HookState::Empty
    });
    attached.map(|(&id, _)| id).collect()
}

/// The rows in each of the slots that were read.
fn policies(slots: &[u32], done: KernelDone) -> BTreeMap<u32, Option<PolicyRows>> {
    let read = slots.iter().zip(done.outcomes).filter_map(|(&slot, outcome)| match outcome {
        KernelOutcome::Policy(rows) => Some((slot, rows)),
        _ => None,
    });
    read.collect()
}

impl Behaviour for Auditor {
    type Msg = AuditorMsg;
    type Answer = AuditorAnswer;
    type Observed = AuditView;

    fn handle(&mut self, msg: AuditorMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            AuditorMsg::Look(KernelLook { before, kernel }) => self.begin(cx, before, kernel),
            AuditorMsg::Restored => self.state.restored = true,
            AuditorMsg::Drifted(found) => {
                self.state.drifted(&found, cx.now(), cx.wall());
                if let Some(notices) = &self.peers.notices {
                    found
                        .iter()
                        .for_each(|drift| notices.happened(AgentNews::Drifted(drift.clone())));
                }
            }
            AuditorMsg::Show(reply) => reply.send(Arc::clone(&self.state.view)),
        }
    }

    fn answered(&mut self, answer: AuditorAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            AuditorAnswer::Leased(answer) => {
                let taken = self.take(answer, |look, leases| {
                    let leases = leases.into_iter();
                    look.leases = leases.map(|(address, lease)| (address, lease.owner)).collect();
                });
                if taken {
                    self.ask_identities(cx);
                }
            }
            AuditorAnswer::Identified(answer) => {
                let taken = self.take(answer, |look, identities| {
                    let used = identities.into_iter().filter(|identity| identity.references > 0);
                    look.identities = used.map(|identity| (identity.id, identity.labels)).collect();
                });
                if taken {
                    self.read_policies(cx);
                }
            }
            AuditorAnswer::Read(answer) => {
                if self.take(answer, |look, done| look.policies = policies(&look.slots, done)) {
                    self.ask_endpoints(cx);
                }
            }
            AuditorAnswer::Listed(answer) => {
                let mut after = Vec::new();
                if self.take(answer, |_, views| after = views) {
                    self.compare(cx, &after);
                }
            }
        }
    }

    fn observe(&self) -> AuditView {
        AuditView::clone(&self.state.view)
    }
}
