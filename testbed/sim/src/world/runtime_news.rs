//! What the container runtime says of pods to whoever follows it: of those that start and go by itself, and
//! now and then what is not so.

use volvox_actors_simulated::testing::MemoryRuntime;

use super::{node::Node, pod::Pod};
use crate::{
    history::events::RuntimeNews,
    model::{NAMESPACE, PODS},
};

impl Node {
    /// It says that, or is followed from the next agent on.
    pub(crate) fn runtime_says(&mut self, news: RuntimeNews) {
        if news == RuntimeNews::Followed {
            return self.follow_runtime();
        }
        let Some(runtime) = self.world.runtime.clone() else { return };
        let container = |number| self.plugged(number).map(|pod| pod.container(pod.incarnation));
        match news {
            RuntimeNews::Followed => {}
            RuntimeNews::Exited(number) => {
                container(number).iter().for_each(|it| runtime.exit(it));
            }
            RuntimeNews::Removed(number) => {
                container(number).iter().for_each(|it| runtime.remove(it));
            }
            RuntimeNews::Runs(number) => self.container_runs(number),
            RuntimeNews::Forgets => drop(runtime.forget_containers()),
            RuntimeNews::Down => runtime.is_away(true),
            RuntimeNews::Hung => runtime.hangs(true),
            RuntimeNews::Up => {
                runtime.is_away(false);
                runtime.hangs(false);
            }
        }
    }

    fn follow_runtime(&mut self) {
        if self.world.runtime.is_none() {
            self.world.runtime = Some(MemoryRuntime::default());
            (1..=PODS).for_each(|number| self.container_runs(number));
            self.kill();
            self.boot(true);
        }
    }

    /// A pod that has an interface.
    fn plugged(&self, number: u8) -> Option<&Pod> {
        let is_plugged = self.oracle.borrow().expected.pods.contains_key(&number);
        self.pods.get(&number).filter(|pod| pod.exists && is_plugged)
    }

    /// A pod has its interface, so its container runs.
    pub(crate) fn container_runs(&self, number: u8) {
        if let (Some(runtime), Some(pod)) = (&self.world.runtime, self.plugged(number)) {
            let (container, uid) = (pod.container(pod.incarnation), pod.uid());
            runtime.run(&container, NAMESPACE, &Pod::name(number), &uid);
        }
    }

    /// A pod is gone, and with it its container, unless that has another interface.
    pub(crate) fn container_goes(&self, number: u8) {
        let (Some(runtime), Some(pod)) = (&self.world.runtime, self.pods.get(&number)) else {
            return;
        };
        let container = pod.container(pod.incarnation);
        let has_it = |other: u8| {
            let other = self.plugged(other).filter(|it| it.number != number);
            other.is_some_and(|other| other.container(other.incarnation) == container)
        };
        if !(1..=PODS).any(has_it) {
            runtime.remove(&container);
        }
    }

    /// Things that it has to say.
    pub(crate) fn runtime_jobs(&self) -> usize {
        let now = self.world.life().universe.host.now();
        self.world.runtime.as_ref().map_or(0, |runtime| runtime.has_something(now).into())
    }

    /// It says one of them.
    pub(crate) fn step_runtime(&self) {
        let now = self.world.life().universe.host.now();
        if let Some(runtime) = &self.world.runtime {
            runtime.step(now);
        }
    }
}
