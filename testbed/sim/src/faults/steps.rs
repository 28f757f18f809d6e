//! What is done to an agent that runs: steps that fail, clocks that jump.

use std::time::Duration;

use volvox_actors_simulated::{
    ports::{KernelOp, Refusal},
    testing::Turn,
};

use crate::{history::action::Fault, random::Random, world::node::Node};

/// How often policies may be refused before the rules go on without whoever has none, at least.
const REFUSALS: u32 = 6;

/// Steps that a full disk refuses; the content of a file may find no room only when it is synced.
const NEED_SPACE: [&str; 4] = ["MakeDir", "WriteBeside", "SyncBeside", "LinkMissing"];

/// Steps that a broken disk refuses besides.
const NEED_DISK: [&str; 6] = ["Place", "Exchange", "Rename", "MoveAside", "RemoveAside", "SyncDir"];

/// Ends of the names of steps that are a batch of rows.
const BATCHES: [&str; 4] = ["Ipcache", "Slots", "Backends", "ReverseNat"];

impl Node {
    /// The kernel does nothing for that long; what was given up meanwhile is done later.
    pub(crate) fn stall(&mut self, span: Duration) {
        self.world.kernel.hold(true);
        self.time(span, 1);
        self.world.kernel.hold(false);
    }

    /// Nothing is written of that pod's policy from now on.
    pub(crate) fn hang_policy(&mut self, pod: u8) {
        let endpoint = self.oracle.borrow().expected.pods.get(&pod).and_then(|it| it.endpoint);
        let Some(id) = endpoint else { return };
        self.faults.hung = Some(pod);
        let slots = [0, 1].map(|parity| id.slot(parity));
        self.world.kernel.stall(move |op| match op {
            KernelOp::BuildPolicy { slot, .. }
            | KernelOp::PutPolicyRow { slot, .. }
            | KernelOp::DeletePolicyRow { slot, .. } => slots.contains(slot),
            _ => false,
        });
    }

    /// Policy maps have room for so many rows from now on.
    pub(crate) fn set_policy_room(&mut self, rows: Option<u8>) {
        let most = rows.map(usize::from);
        self.world.kernel.tamper(|state| state.policy_rows_max = most);
        self.world.settings.policy.rows_max = rows.map_or(16_384, u32::from);
        self.oracle.borrow_mut().crowded = rows.is_some();
    }

    /// The monotonic clock jumps, and the wall clock with it or backwards.
    pub(crate) fn jump_clocks(&mut self, span: Duration, wall: u64) {
        if self.world.is_alive() {
            let universe = &self.world.life().universe;
            universe.clock().advance(span);
            universe.clock().set_wall(wall);
            universe.host.fire_due();
        }
    }

    /// Steps of the kernel or of the disk are refused from now on.
    pub(crate) fn fail_steps(&mut self, kind: Fault, one_in: u8, seed: u64) {
        self.faults.failing = true;
        if !self.world.is_alive() {
            return;
        }
        let mut random = Random::new(seed);
        let trace = self.trace.clone();
        let mut refused = 0;
        self.world.fate.is(move |step| {
            let is_put = step.starts_with("Put");
            let turn = match kind {
                Fault::Any => Turn::Fail,
                Fault::MapFull if is_put => Turn::Refuse(Refusal::MapFull),
                Fault::NoMemory if matches!(step, "BuildPolicy" | "FlipPolicy") => {
                    Turn::Refuse(Refusal::NoMemory)
                }
                Fault::Half if BATCHES.iter().any(|end| step.ends_with(end)) => Turn::Half,
                Fault::NoSpace if NEED_SPACE.contains(&step) => Turn::Fail,
                Fault::Io if NEED_SPACE.contains(&step) || NEED_DISK.contains(&step) => Turn::Fail,
                _ => return Turn::Work,
            };
            if random.roll(one_in.into()) > 0 {
                return Turn::Work;
            }
            // Rules that deny wait for ever neither for an ipcache nor for a policy that cannot be
            // written.
            refused += u32::from(step.ends_with("Policy"));
            trace.was_late(step.ends_with("Ipcache") || refused >= REFUSALS);
            turn
        });
    }

    /// Everything works again.
    pub(crate) fn end_faults(&mut self) {
        self.faults.failing = false;
        self.world.fate.is_kind();
    }
}
