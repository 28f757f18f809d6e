//! The machine loses power: the kernel forgets all, pods are gone, and of the disk only what was synced is
//! sure.

use volvox_actors_simulated::testing::Turn;

use crate::{
    model::{PODS, devices::devices},
    random::Random,
    world::node::Node,
};

impl Node {
    /// The power goes before the nth step of kernel or disk from now, at once if no agent runs.
    pub(crate) fn cut_power(&mut self, nth: u16, tmpfs: bool, seed: u64) {
        self.faults.power = Some((tmpfs, seed));
        match self.world.is_alive() {
            true => self.world.fate.at(nth.into(), Turn::Die),
            false => self.lose_power(),
        }
    }

    /// The power goes: the kernel forgets all, the disk what was not synced. Of pods that are gone
    /// with it, some are deleted by whoever started them; of others nobody hears again.
    pub(crate) fn lose_power(&mut self) {
        let Some((tmpfs, seed)) = self.faults.power.take() else { return };
        self.trace.say(|| "the power goes".to_owned());
        let mut random = Random::new(seed);
        self.kill();
        for number in 1..=PODS {
            self.lose_pod(number, random.roll(2) == 0);
        }
        let links = self.world.kernel.with(|state| devices(state).cloned().collect());
        let complaints = self.world.cut_power(tmpfs, &mut |sides| random.roll(sides));
        if let Some(complaint) = complaints.into_iter().next() {
            self.wrong(complaint);
        }
        self.remembered.host_connected = false;
        // What was not synced is not sure.
        self.remembered.host_number = None;
        self.begin_anew(links);
        self.oracle.borrow_mut().services.forget();
        if tmpfs {
            self.remembered.torn = 0;
        }
    }
}
