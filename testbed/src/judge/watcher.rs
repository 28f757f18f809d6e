//! Looks at the hooks of pods all the time: programs that were attached never go.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use aya::programs::{SchedClassifier, tc::TcAttachType};
use volvox_system::netlink::{Direction, Socket};

use crate::lab::Pod;

/// Between two looks at all of them.
const LOOK: Duration = Duration::from_millis(1);

/// Interfaces by their numbers, with their names, and at which hooks of theirs a program was seen.
type Seen = Arc<Mutex<BTreeMap<u32, (String, [bool; 2])>>>;

/// A thread that looks. Hooks count from the first look at which they have a program.
pub struct Watcher {
    stop: Arc<AtomicBool>,
    seen: Seen,
    looks: Option<JoinHandle<Result<Looks>>>,
}

/// What it saw.
#[derive(Default)]
struct Looks {
    rounds: u64,
    /// Hooks that had a program and then none, a look each.
    dips: u64,
}

impl Watcher {
    /// Starts to look.
    pub fn start() -> Result<Self> {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Seen::default());
        let (reported, interfaces) = (Arc::clone(&stop), Arc::clone(&seen));
        let looks = thread::Builder::new().name("watcher".into()).spawn(move || {
            let (mut socket, mut looks) = (Socket::open()?, Looks::default());
            while !reported.load(Ordering::Relaxed) {
                looks.dips += look(&mut socket, &interfaces);
                looks.rounds += 1;
                thread::sleep(LOOK);
            }
            Ok(looks)
        });
        Ok(Self { stop, seen, looks: Some(looks.context("cannot start a thread")?) })
    }

    /// Looks at this pod's hooks, too.
    pub fn watch(&self, pod: &Pod) -> Result<()> {
        let [_, host] = pod.links()?;
        lock(&self.seen).insert(host.ifindex, (host.name, [false; 2]));
        Ok(())
    }

    /// Looks at them no longer.
    pub fn unwatch(&self, pod: &Pod) {
        // Who took the interface away took the hooks with it.
        if let Ok([_, host]) = pod.links() {
            lock(&self.seen).remove(&host.ifindex);
        }
    }

    /// How often a hook was seen without a program that it had before.
    pub fn stop(mut self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let looks = self.looks.take().expect("taken only here").join().expect("it returns")?;
        ensure!(looks.rounds > 0, "nobody looked at the hooks");
        Ok(looks.dips)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn lock(seen: &Seen) -> MutexGuard<'_, BTreeMap<u32, (String, [bool; 2])>> {
    seen.lock().expect("nobody panics while holding it")
}

/// Hooks that have no program although they had one.
fn look(socket: &mut Socket, seen: &Seen) -> u64 {
    let mut dips = 0;
    for (ifindex, (name, had)) in lock(seen).iter_mut() {
        for (hook, had) in [Direction::Ingress, Direction::Egress].into_iter().zip(had) {
            // An interface that is gone has no hooks, and no packets.
            let Some(has) = has_program(socket, *ifindex, name, hook) else { continue };
            dips += u64::from(*had && !has);
            *had |= has;
        }
    }
    dips
}

/// Whether a program runs there: by a link, or as a filter. A link takes a filter's place before the filter
/// goes, and that may happen between two questions.
fn has_program(socket: &mut Socket, ifindex: u32, name: &str, hook: Direction) -> Option<bool> {
    let by_link = || {
        let hook = match hook {
            Direction::Ingress => TcAttachType::Ingress,
            Direction::Egress => TcAttachType::Egress,
        };
        // Older kernels know no such links.
        SchedClassifier::query_tcx(name, hook).is_ok_and(|(_, programs)| !programs.is_empty())
    };
    if by_link() {
        return Some(true);
    }
    let filters = socket.filter_show(ifindex, hook).ok()?;
    if !filters.is_empty() || by_link() {
        return Some(true);
    }
    // An interface that goes loses its hooks a moment before its number.
    socket.link_by_index(ifindex).ok()?.map(|_| false)
}
