//! A fuzzer of frames: endpoints, strangers and other nodes put on a wire what a grammar and a dice say, the loaded
//! programs run over it, and an oracle that reads frames by itself and knows who may speak with whom says whether
//! what became of each was right. It is deterministic but for the programs' clock.

mod decorate;
mod flows;
mod grammar;
mod network;
mod oracle;
mod random;
mod reader;
mod runner;

use super::Node;
use grammar::Grammar;
pub use network::{At, CLIENT, JAILED, Network, OPEN, SERVER, TUNNEL_PORT};
pub use oracle::{Fault, Oracle};
use random::Random;
pub use runner::{Hook, Runner, Way};
use std::collections::{BTreeMap, BTreeSet};
use volvox_bpf_progs::Features;

/// Kinds of findings that are shown at most, each by its first frame.
const FAULTS_SHOWN: usize = 10;

/// A frame, and where it is put.
#[derive(Clone, Debug)]
pub struct Shot {
    pub at: At,
    pub frame: Vec<u8>,
    /// Nothing is odd about it, so that what may pass has to.
    pub is_plain: bool,
}

/// What became of a frame in one program.
#[derive(Clone, Debug)]
pub struct Seen {
    pub action: u32,
    pub mark: u32,
    pub frame: Vec<u8>,
}

/// What a run found.
#[derive(Debug, Default)]
pub struct Report {
    /// Runs of programs; a frame that the stack would take on has several.
    pub runs: u64,
    /// Frames by where they were put and what became of them.
    pub outcomes: BTreeMap<(&'static str, &'static str), u64>,
    /// The first of the findings, with the number of the frame.
    pub faults: Vec<(u64, Shot, Fault)>,
    pub fault_count: u64,
}

/// Puts that many frames.
pub fn run(features: Features, seed: u64, frames: u64) -> Report {
    run_changed(features, seed, frames, |_, _| ())
}

/// The same with rows changed behind the oracle's back.
pub fn run_changed(
    features: Features,
    seed: u64,
    frames: u64,
    change: impl FnOnce(&mut Node, &Network),
) -> Report {
    let mut runner = Runner::new(features);
    change(&mut runner.node, &runner.network);
    let mut oracle = Oracle::new(runner.network.clone());
    let mut grammar = Grammar::new(runner.network.clone(), Random::new(seed));
    let mut report = Report::default();
    for number in 0..frames {
        let shot = grammar.next();
        let way = runner.put(&shot);
        report.runs += way.len() as u64;
        let (outcome, fault) = oracle.judge(&shot, &way);
        *report.outcomes.entry((shot.at.name(), outcome)).or_default() += 1;
        match fault {
            None => grammar.learn(&shot, &way),
            Some(fault) => {
                report.fault_count += 1;
                if report.faults.len() < FAULTS_SHOWN && !report.kinds().contains(fault) {
                    report.faults.push((number, shot, fault));
                }
            }
        }
    }
    report
}

impl Report {
    /// What was wrong with those.
    pub fn kinds(&self) -> BTreeSet<Fault> {
        self.faults.iter().map(|(_, _, fault)| *fault).collect()
    }

    /// What was found, for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for ((at, outcome), count) in &self.outcomes {
            text += &format!("{at:12} {outcome:12} {count}\n");
        }
        for (number, shot, fault) in &self.faults {
            let bytes: String = shot.frame.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &format!("frame {number} at {:?}: {fault}\n  {bytes}\n", shot.at);
        }
        text + &format!("{} faults", self.fault_count)
    }
}
