//! What the programs write to `cilium_events`, and to `cilium_signals`.

use super::Node;
use aya::maps::PerfEventArray;
use aya::maps::perf::{PerfEvent, PerfEventArrayBuffer};
use aya::util::online_cpus;

/// Listens on every CPU.
pub struct Listener(Vec<PerfEventArrayBuffer<aya::maps::MapData>>);

impl Listener {
    pub fn new(node: &mut Node) -> Self {
        Self::on(node, "cilium_events")
    }

    /// Listens to signals instead of records.
    pub fn to_signals(node: &mut Node) -> Self {
        Self::on(node, "cilium_signals")
    }

    fn on(node: &mut Node, map: &str) -> Self {
        let map = node.ebpf.take_map(map).unwrap();
        let mut array = PerfEventArray::try_from(map).unwrap();
        Self(online_cpus().unwrap().into_iter().map(|cpu| array.open(cpu, None).unwrap()).collect())
    }

    /// All samples since the last call, in the order of each CPU.
    pub fn samples(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for buffer in &mut self.0 {
            buffer.for_each(|event| match event {
                PerfEvent::Sample { head, tail } => all.push([head, tail].concat()),
                PerfEvent::Lost { count } => panic!("{count} records lost"),
            });
        }
        all
    }
}

/// Stays on one CPU, so that samples keep their order.
pub fn stay_here() {
    // SAFETY: the set is ours, and zero is a valid one.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    assert_eq!(result, 0);
}
