//! Looks at the hooks of pods all the time: programs that were attached never go.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use aya::programs::{SchedClassifier, tc::TcAttachType};

use crate::lab::Pod;

/// Between two looks at all of them.
const LOOK: Duration = Duration::from_millis(1);
const HOOKS: [TcAttachType; 2] = [TcAttachType::Ingress, TcAttachType::Egress];

/// Interfaces, and at which hooks of theirs a program was seen.
type Seen = Arc<Mutex<BTreeMap<String, [bool; 2]>>>;

/// A thread that looks. Hooks count from the first look at which they have a program.
pub struct Watcher {
    stop: Arc<AtomicBool>,
    seen: Seen,
    looks: JoinHandle<Result<Looks>>,
}

/// What it saw.
struct Looks {
    rounds: u64,
    /// Hooks that had a program and then none, a look each.
    dips: u64,
}

impl Watcher {
    /// Starts to look; none where the kernel has no such hooks.
    pub fn start() -> Result<Option<Self>> {
        if SchedClassifier::query_tcx("lo", TcAttachType::Ingress).is_err() {
            return Ok(None);
        }
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Seen::default());
        let (reported, interfaces) = (Arc::clone(&stop), Arc::clone(&seen));
        let looks = thread::Builder::new().name("watcher".into()).spawn(move || {
            let mut looks = Looks { rounds: 0, dips: 0 };
            while !reported.load(Ordering::Relaxed) {
                looks.dips += look(&interfaces);
                looks.rounds += 1;
                thread::sleep(LOOK);
            }
            Ok(looks)
        });
        Ok(Some(Self { stop, seen, looks: looks.context("cannot start a thread")? }))
    }

    /// Looks at this pod's hooks, too.
    pub fn watch(&self, pod: &Pod) -> Result<()> {
        let [_, host] = pod.links()?;
        lock(&self.seen).insert(host.name, [false; 2]);
        Ok(())
    }

    /// Looks at them no longer.
    pub fn unwatch(&self, pod: &Pod) -> Result<()> {
        // Who took the interface away took the hooks with it.
        if let Ok([_, host]) = pod.links() {
            lock(&self.seen).remove(&host.name);
        }
        Ok(())
    }

    /// How often a hook was seen without a program that it had before.
    pub fn stop(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let looks = self.looks.join().expect("it returns")?;
        ensure!(looks.rounds > 0, "nobody looked at the hooks");
        Ok(looks.dips)
    }
}

fn lock(seen: &Seen) -> std::sync::MutexGuard<'_, BTreeMap<String, [bool; 2]>> {
    seen.lock().expect("nobody panics while holding it")
}

/// Hooks that have no program although they had one.
fn look(seen: &Seen) -> u64 {
    let mut dips = 0;
    for (interface, had) in lock(seen).iter_mut() {
        for (hook, had) in HOOKS.into_iter().zip(had) {
            // An interface that is gone has no hooks, and no packets.
            let Ok((_, programs)) = SchedClassifier::query_tcx(interface, hook) else { continue };
            dips += u64::from(*had && programs.is_empty());
            *had |= !programs.is_empty();
        }
    }
    dips
}
