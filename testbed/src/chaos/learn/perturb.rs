//! A learned history, perturbed: deaths at each message, delays, repetitions, another order.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};
use std::thread;

use super::recording::Learned;
use crate::{
    chaos::{history::History, mutant, outcome::Outcome, sim, tree::Tree},
    judge::Verdict,
};

/// How a history is perturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Death,
    Delay,
    Repetition,
    Order,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Death, Self::Delay, Self::Repetition, Self::Order];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Death => "death",
            Self::Delay => "delay",
            Self::Repetition => "repetition",
            Self::Order => "order",
        }
    }

    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Death => "deaths, one at each message that followed from an event",
            Self::Delay => "delays, one behind each event",
            Self::Repetition => "repetitions of an event",
            Self::Order => "events in another order",
        }
    }
}

/// A history that is a little other than what was learned.
pub(super) struct Variation {
    pub(super) kind: Kind,
    /// What was done to it.
    pub(super) what: String,
    pub(super) tree: Tree,
}

/// All of them that are histories still.
pub(super) fn variations(learned: &Learned) -> Vec<Variation> {
    let steps = learned.tree.get("steps").map(Tree::items).unwrap_or_default();
    let mut all = Vec::new();
    let mut add = |kind, what: String, steps: Vec<Tree>| {
        let mut tree = learned.tree.clone();
        *tree.entry("steps") = Tree::List(steps);
        if History::read(&what, &tree.write()).is_ok() {
            all.push(Variation { kind, what, tree });
        }
    };
    let behind = |place: usize, more: Vec<Tree>| {
        let mut changed = steps.to_vec();
        changed.splice(place + 1..place + 1, more);
        changed
    };
    for (place, followed) in learned.followed.iter().enumerate().filter(|(_, it)| **it > 0) {
        let number = place + 1;
        // A restart waits for its end, and so nothing is left to die in: a start does not.
        let waits = steps[place] == Tree::Text("restart".into());
        for message in 1..=*followed {
            let dies = word("kill", word("messages", Tree::Whole(message.into())));
            let what = format!("dies at message {message} behind step {number}");
            let again = Tree::Text("start".into());
            let changed = if waits {
                let mut changed = steps.to_vec();
                let kill = Tree::Text("kill".into());
                changed.splice(place..=place, [kill, again.clone(), dies, again]);
                changed
            } else {
                behind(place, vec![dies, again])
            };
            add(Kind::Death, what, changed);
        }
        for time in ["1s", "70s"] {
            let pause = word("sleep", Tree::Text(time.into()));
            add(
                Kind::Delay,
                format!("{time} pass behind step {number}"),
                behind(place, vec![pause]),
            );
        }
        let repeated = behind(place, vec![steps[place].clone()]);
        add(Kind::Repetition, format!("step {number} comes twice"), repeated);
        if let Some(next) = (place + 1..steps.len()).find(|it| learned.followed[*it] > 0) {
            let mut changed = steps.to_vec();
            changed.swap(place, next);
            add(Kind::Order, format!("steps {number} and {} change places", next + 1), changed);
        }
    }
    all
}

fn word(word: &str, value: Tree) -> Tree {
    Tree::Map(vec![(word.to_owned(), value)])
}

/// Lives through them on all processors, each under some seeds; those that failed, and why.
pub(super) fn live<'a>(
    all: &[&'a Variation],
    seeds: u64,
) -> anyhow::Result<Vec<(&'a Variation, String)>> {
    mutant::asked_for()?;
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(variation) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(what) = failure(variation, seeds) {
                        let mut failed = failed.lock().unwrap_or_else(|broken| broken.into_inner());
                        failed.push((*variation, what));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_else(|broken| broken.into_inner());
    failed.sort_by_key(|(variation, _)| variation.what.clone());
    Ok(failed)
}

fn failure(variation: &Variation, seeds: u64) -> Option<String> {
    let history = match History::read(&variation.what, &variation.tree.write()) {
        Ok(history) => history,
        Err(complaints) => return complaints.first().map(ToString::to_string),
    };
    match sim::live_under(&history, 1..=seeds) {
        Ok(outcome) => wrong(&outcome),
        Err(error) => Some(format!("{error:#}")),
    }
}

fn wrong(outcome: &Outcome) -> Option<String> {
    let broken = outcome.findings.iter().find(|it| it.verdict == Verdict::Broken)?;
    Some(format!("{}: {}", broken.measure.about(), broken.detail))
}
