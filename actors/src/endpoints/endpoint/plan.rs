//! Compares desired with realised state and orders the kernel steps so that no packet meets a third
//! verdict. It also plans a teardown. It runs no step.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use super::{EndpointSpec, realised::RealisedEndpoint};
use crate::{
    endpoints::endpoint::Level,
    model::{EndpointId, IdentityId, PolicyRows},
    mutants::{Mutant, mutated},
    policy::rules::{Changed, Difference},
    ports::{ConfigRow, EndpointRow, KernelOp, LxcRow},
};

/// What the kernel is to hold for one endpoint.
#[derive(Clone, Debug)]
pub(super) struct Desired {
    pub(super) id: EndpointId,
    /// The interface that is its own, if one is: where its programs run.
    pub(super) interface: Option<u32>,
    /// Whether that is another plugin's, which brings it up and has the routes.
    pub(super) chained: bool,
    /// Its configuration row; slot and generation are the plan's to choose.
    pub(super) config: ConfigRow,
    pub(super) lxc: BTreeMap<IpAddr, LxcRow>,
    /// Its own record, if the kernel's is not as it should be.
    pub(super) record: Option<EndpointRow>,
    pub(super) policy: Arc<PolicyRows>,
    /// How many rows its policy map has room for.
    pub(super) rows_max: usize,
}

/// The steps from what is known to what is desired. None, if they are the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EndpointPlan {
    /// Built aside: nothing that a packet can see changes. A build permit is held for it.
    pub(super) aside: Vec<KernelOp>,
    /// The flip and what follows it.
    pub(super) flip: Vec<KernelOp>,
    /// The rows of the policy map to which it leads.
    pub(super) policy: Arc<PolicyRows>,
}

impl EndpointPlan {
    pub(super) fn is_empty(&self) -> bool {
        self.aside.is_empty() && self.flip.is_empty()
    }
}

/// Plans a build. The order is what keeps every packet at the old verdict or the new one:
///
/// 1. the endpoint's own record, so that a crash from here on leaves evidence;
/// 2. programs at the hooks: without a configuration row they drop everything;
/// 3. the policy aside, into the slot that is not in use;
/// 4. one write of the configuration row, which flips policy and configuration together;
/// 5. only then the rows that lead others to it: local addresses, routes, the interface up.
pub(super) fn plan(
    desired: &Desired,
    known: &RealisedEndpoint,
    changed: Option<&Changed>,
    level: Level,
) -> EndpointPlan {
    let endpoint = desired.id;
    let mut plan = EndpointPlan { policy: Arc::clone(&desired.policy), ..EndpointPlan::default() };
    if level == Level::Rebuild {
        plan.aside.push(KernelOp::LoadPrograms);
    }
    if let Some(row) = desired.record.clone() {
        plan.aside.push(KernelOp::PutEndpoint { endpoint, row });
    }
    if let Some(ifindex) = desired.interface {
        if mutated(Mutant::UpBeforeAttached) && !known.up {
            plan.aside.push(KernelOp::LinkUp { ifindex });
        }
        if !known.attached() || level == Level::Rebuild {
            plan.aside.push(KernelOp::Attach { endpoint, ifindex });
        }
    }

    let slot = plan_policy(desired, known, changed, &mut plan);
    let moves = known.config.is_none_or(|config| config.policy_slot != slot);
    // Between the flip and the new pin there is none, rather than one of the policy before: that
    // one would be taken for right after a crash.
    if moves && known.pinned {
        plan.flip.insert(0, KernelOp::UnpinPolicy { endpoint });
    }
    let row = ConfigRow { policy_slot: slot, ..desired.config };
    if known.config.is_none_or(|config| ConfigRow { generation: 0, ..config } != row) {
        let generation = known.config.map_or(1, |config| config.generation.wrapping_add(1));
        plan.flip.push(KernelOp::PutConfig(ConfigRow { generation, ..row }));
    }
    if moves || !known.pinned {
        plan.flip.push(KernelOp::PinPolicy { endpoint, slot });
    }
    if let Some(ifindex) = desired.interface {
        plan_reachability(desired, ifindex, known, &mut plan);
    }
    if mutated(Mutant::ConfigBeforePolicy)
        && let Some(at) = plan.flip.iter().position(|op| matches!(op, KernelOp::PutConfig(_)))
        && at > 0
    {
        plan.flip.swap(at - 1, at);
    }
    plan
}

/// Plans the policy map's change; the slot that will hold it.
fn plan_policy(
    desired: &Desired,
    known: &RealisedEndpoint,
    changed: Option<&Changed>,
    plan: &mut EndpointPlan,
) -> u32 {
    let current = known.config.map(|config| config.policy_slot);
    // Another identity and the policy that goes with it flip together.
    let same = known.config.is_some_and(|config| config.identity == desired.config.identity);
    let rows = &desired.policy;
    match (current, &known.policy) {
        (Some(slot), Some(had)) if had == rows => slot,
        (Some(slot), Some(had)) => {
            let difference = same.then(|| Changed::from(changed, had, rows)).flatten();
            // Rows that are new are written before those that go.
            let has_room = |it: &Arc<Difference>| had.len() + it.puts.len() <= desired.rows_max;
            let difference = difference.filter(has_room);
            match difference.and_then(|difference| in_place(&difference, slot)) {
                Some(ops) => {
                    plan.flip.extend(ops);
                    slot
                }
                None => stage(desired, slot ^ 1, plan),
            }
        }
        (Some(slot), None) => stage(desired, slot ^ 1, plan),
        (None, _) => stage(desired, desired.id.slot(0), plan),
    }
}

fn stage(desired: &Desired, slot: u32, plan: &mut EndpointPlan) -> u32 {
    plan.aside.push(KernelOp::BuildPolicy { slot, rows: desired.policy.as_ref().clone() });
    plan.flip.push(KernelOp::FlipPolicy { slot });
    slot
}

/// The row writes that make this difference, if none of the states on the way can
/// give a packet a third verdict: every packet must meet at most one of the changed rows.
///
/// A packet meets rows of its own identity and rows of any identity. So one changed row for each
/// identity is fine, unless a row for any identity changes too.
fn in_place(difference: &Difference, slot: u32) -> Option<Vec<KernelOp>> {
    let mut touched: BTreeMap<(u8, IdentityId), u32> = BTreeMap::new();
    for key in difference.keys() {
        *touched.entry((key.direction as u8, key.identity)).or_default() += 1;
    }
    let one_each = touched.values().all(|&count| count == 1);
    let any_in = |direction| touched.contains_key(&(direction, IdentityId::UNKNOWN));
    let alone = |direction| touched.keys().filter(|(way, _)| *way == direction).count() == 1;
    let safe = one_each && [0, 1].into_iter().all(|way| !any_in(way) || alone(way));
    let safe = safe || mutated(Mutant::RowsAlwaysInPlace);
    let puts = difference.puts.iter();
    let puts = puts.map(|&(key, entry)| KernelOp::PutPolicyRow { slot, key, entry });
    let deletes = difference.deletes.iter();
    let deletes = deletes.map(|&key| KernelOp::DeletePolicyRow { slot, key });
    safe.then(|| puts.chain(deletes).collect())
}

/// What leads others to the endpoint, and what led them to where it no longer is.
fn plan_reachability(
    desired: &Desired,
    ifindex: u32,
    known: &RealisedEndpoint,
    plan: &mut EndpointPlan,
) {
    for (&address, &row) in &desired.lxc {
        if known.lxc.get(&address) != Some(&row) {
            plan.flip.push(KernelOp::PutLxc { address, row });
        }
    }
    // The kernel takes no route to an interface that is down.
    if !known.up && !desired.chained {
        plan.flip.push(KernelOp::LinkUp { ifindex });
    }
    let routed = |address: &&IpAddr| desired.chained || known.routes.contains(*address);
    for &address in desired.lxc.keys().filter(|address| !routed(address)) {
        plan.flip.push(KernelOp::PutRoute { address, ifindex });
    }
    for &address in known.lxc.keys().filter(|address| !desired.lxc.contains_key(address)) {
        plan.flip.push(KernelOp::DeleteLxc { address, endpoint: desired.id.0 });
    }
    for &address in known.routes.iter().filter(|address| !desired.lxc.contains_key(address)) {
        plan.flip.push(KernelOp::DeleteRoute { address, ifindex });
    }
}

/// Every step that takes an endpoint down, the denying ones first.
pub(super) fn teardown(id: EndpointId, spec: &EndpointSpec) -> Vec<KernelOp> {
    let (interface, addresses) = (spec.interface_of_its_own(), spec.addresses);
    let mut ops = Vec::new();
    if let Some(ifindex) = interface {
        // Also of another plugin's, which takes it away: until then nothing passes it unjudged.
        ops.push(KernelOp::LinkDown { ifindex });
        for address in addresses.iter() {
            ops.push(KernelOp::DeleteLxc { address, endpoint: id.0 });
            ops.extend((!spec.is_chained()).then_some(KernelOp::DeleteRoute { address, ifindex }));
        }
    }
    ops.push(KernelOp::DeleteConfig { ifindex: spec.config_ifindex(), endpoint: id });
    ops.extend(interface.map(|ifindex| KernelOp::Detach { endpoint: id, ifindex }));
    ops.extend([
        KernelOp::UnpinPolicy { endpoint: id },
        KernelOp::ClearSlot { slot: id.slot(0) },
        KernelOp::ClearSlot { slot: id.slot(1) },
        KernelOp::ScrubConntrack { addresses },
        KernelOp::DeleteEndpoint { endpoint: id },
    ]);
    ops.retain(|op| match op {
        KernelOp::ScrubConntrack { .. } => !mutated(Mutant::ConntrackNotScrubbed),
        KernelOp::ClearSlot { slot } => !mutated(Mutant::SlotLeft) || slot % 2 == 0,
        _ => true,
    });
    ops
}
