//! The shortest history that still fails: steps, deaths, traffic, manifests and pods are taken away as long as
//! the same thing breaks.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    history::History,
    library::Source,
    outcome::Outcome,
    run::{self, Asked},
    tree::Tree,
};
use crate::judge::{Measure, Verdict};

/// How often a history is tried that does not fail each time, and whatever is smaller than the smallest before it
/// is said to be well: one that fails each time may have a smaller one that fails by chance.
const TRIES: usize = 3;
/// A shrinking that takes longer ends with what it has.
const LONGEST: Duration = Duration::from_secs(30 * 60);
/// Lists of a history, and words with values, of which some may be left out.
const LISTS: [&str; 4] = ["steps", "traffic", "manifests", "servers"];
const MAPS: [&str; 2] = ["pods", "node"];

/// What is left of a history.
pub(super) struct Shrunk {
    /// A file that fails by itself.
    pub(super) text: String,
    /// How often something was tried.
    pub(super) tries: usize,
}

/// Shrinks a history that failed; nothing if it does not fail again in some tries.
pub(super) fn shrink(source: &Source, asked: Asked) -> Result<Option<Shrunk>> {
    let Ok(tree) = Tree::read(&source.text) else { return Ok(None) };
    let mut shrinker = Shrinker {
        name: source.name.clone(),
        asked,
        broken: BTreeSet::new(),
        tries_each: TRIES,
        tried: BTreeSet::new(),
        count: 0,
        begun: Instant::now(),
    };
    if !shrinker.fails_first(source)? {
        return Ok(None);
    }
    let smallest = shrinker.descend(tree)?;
    Ok(Some(Shrunk { text: smallest.write(), tries: shrinker.count }))
}

struct Shrinker {
    name: String,
    asked: Asked,
    /// What broke at first: something else would be another failure.
    broken: BTreeSet<Measure>,
    tries_each: usize,
    /// Texts that did not fail.
    tried: BTreeSet<String>,
    count: usize,
    begun: Instant,
}

/// What is broken.
fn broken(outcome: &Outcome) -> BTreeSet<Measure> {
    let all = outcome.findings.iter().filter(|finding| finding.verdict == Verdict::Broken);
    all.map(|finding| finding.measure).collect()
}

impl Shrinker {
    /// Whether it fails at all, and whether it does so each time.
    fn fails_first(&mut self, source: &Source) -> Result<bool> {
        let mut failed = 0;
        for _ in 0..TRIES {
            let found = broken(&self.live(source)?);
            failed += usize::from(!found.is_empty());
            self.broken.extend(found);
        }
        if failed == TRIES {
            self.tries_each = 1;
        }
        Ok(failed > 0)
    }

    fn live(&mut self, source: &Source) -> Result<Outcome> {
        self.count += 1;
        run::one(source, self.asked, None)
    }

    fn descend(&mut self, mut smallest: Tree) -> Result<Tree> {
        'smaller: loop {
            for candidate in smaller(&smallest) {
                if self.begun.elapsed() > LONGEST {
                    volvox_system::complain!("shrinking takes too long: here is what there is");
                    return Ok(smallest);
                }
                if self.fails(&candidate)? {
                    smallest = candidate;
                    volvox_system::complain!(
                        "shrinking {}: {} lines left, {} tries",
                        self.name,
                        smallest.write().lines().count(),
                        self.count
                    );
                    continue 'smaller;
                }
            }
            if self.tries_each == TRIES {
                return Ok(smallest);
            }
            self.tries_each = TRIES;
            self.tried.clear();
        }
    }

    /// Whether the same breaks in it. What is no history any more does not.
    fn fails(&mut self, tree: &Tree) -> Result<bool> {
        let source = Source { name: self.name.clone(), text: tree.write() };
        if History::read(&source.name, &source.text).is_err()
            || !self.tried.insert(source.text.clone())
        {
            return Ok(false);
        }
        for _ in 0..self.tries_each {
            if !broken(&self.live(&source)?).is_disjoint(&self.broken) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Everything that is a little, or much, smaller; what takes most away comes first.
fn smaller(tree: &Tree) -> Vec<Tree> {
    let mut all = Vec::new();
    for word in LISTS {
        for list in tree.get(word).map(fewer).unwrap_or_default() {
            all.push(with(tree, word, list));
        }
    }
    for word in MAPS {
        for map in tree.get(word).map(fewer).unwrap_or_default() {
            all.push(with(tree, word, map));
        }
    }
    for steps in tree.get("steps").map(simpler).unwrap_or_default() {
        all.push(with(tree, "steps", steps));
    }
    all
}

fn with(tree: &Tree, word: &str, value: Tree) -> Tree {
    let mut changed = tree.clone();
    *changed.entry(word) = value;
    changed
}

/// A list, or words with values, without a half of it, a quarter, and so on to each single one.
fn fewer(tree: &Tree) -> Vec<Tree> {
    let length = tree.items().len().max(tree.members().len());
    let mut all = Vec::new();
    let mut size = length;
    while size > 0 {
        for begin in (0..length).step_by(size) {
            let stays = |place: usize| !(begin..begin + size).contains(&place);
            all.push(match tree {
                Tree::Map(members) => Tree::Map(left(members, stays)),
                other => Tree::List(left(other.items(), stays)),
            });
        }
        size /= 2;
    }
    all
}

fn left<T: Clone>(all: &[T], stays: impl Fn(usize) -> bool) -> Vec<T> {
    all.iter().enumerate().filter(|(place, _)| stays(*place)).map(|(_, it)| it.clone()).collect()
}

/// The same steps, one of them simpler: what is repeated is done once or has fewer steps, and who dies on its
/// way dies less often.
fn simpler(steps: &Tree) -> Vec<Tree> {
    let mut all = Vec::new();
    let items = steps.items();
    for (place, step) in items.iter().enumerate() {
        let mut put = |instead: Vec<Tree>| {
            let mut changed = items.to_vec();
            changed.splice(place..=place, instead);
            all.push(Tree::List(changed));
        };
        if let Some(repeat) = step.get("repeat") {
            let inner = repeat.get("steps").cloned().unwrap_or(Tree::Empty);
            put(inner.items().to_vec());
            let some = fewer(&inner).into_iter().chain(simpler(&inner));
            // Without any step it is nothing: that was before.
            for fewer in some.filter(|fewer| !fewer.items().is_empty()) {
                put(vec![with(step, "repeat", with(repeat, "steps", fewer))]);
            }
        }
        for word in ["start", "restart", "upgrade"] {
            let Some(how) = step.get(word) else { continue };
            let Some(killed) = how.get("killed") else { continue };
            let plain = how.get("to").map(|to| with(&Tree::Empty, word, to.clone()));
            put(vec![plain.unwrap_or_else(|| Tree::Text(word.to_owned()))]);
            // Who does not die at all restarts plainly: that was before. A text has no parts.
            for killed in fewer(killed).into_iter().filter(|killed| !killed.items().is_empty()) {
                put(vec![with(step, word, with(how, "killed", killed))]);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::outcome::Place;

    fn tree(text: &str) -> Tree {
        Tree::read(text).unwrap()
    }

    #[test]
    fn what_takes_most_away_comes_first() {
        let all: Vec<_> = smaller(&tree("steps: [a, {repeat: {times: 2, steps: [b, c]}}]"));
        assert_eq!(all[0], tree("steps: []"));
        assert!(all.contains(&tree("steps: [a]")));
        assert!(all.contains(&tree("steps: [a, b, c]")));
        assert!(all.contains(&tree("steps: [a, {repeat: {times: 2, steps: [c]}}]")));
        let deaths = smaller(&tree("steps: [{restart: {killed: [{at: api}, {after: 2s}]}}]"));
        assert!(deaths.contains(&tree("steps: [restart]")));
        assert!(deaths.contains(&tree("steps: [{restart: {killed: [{after: 2s}]}}]")));
    }

    #[test]
    fn nothing_is_tried_that_does_the_same_in_other_words() {
        let text = "steps: [{restart: {killed: [{at: api}]}}, {repeat: {times: 2, steps: [b]}}]";
        for smaller in smaller(&tree(text)) {
            let text = smaller.write();
            assert!(!text.contains("killed: []") && !text.contains(" steps: []"), "{text}");
        }
    }

    #[test]
    fn a_wrong_expectation_is_shrunk_to_the_traffic_that_shows_it() {
        let text = "about: x\npods: {a: {app: a}, b: {app: b}, c: {app: b}}\n\
            traffic:\n- {from: a, to: b, kind: udp}\n- {from: a, to: c, kind: connect, expected: denied}\n\
            steps:\n- repeat: {times: 2, steps: [kill, start]}\n- {create: {pod: d}}\n";
        let source = Source { name: "x".into(), text: text.into() };
        let shrunk = shrink(&source, Asked { place: Place::Sim, seed: 1 }).unwrap().unwrap();
        let left = tree(&shrunk.text);
        assert_eq!(left.get("steps"), Some(&Tree::List(Vec::new())), "{}", shrunk.text);
        assert_eq!(left.get("traffic").unwrap().items().len(), 1, "{}", shrunk.text);
        assert_eq!(left.get("pods").unwrap().members().len(), 2, "{}", shrunk.text);
        let well = Source { text: text.replace("expected: denied", "expected: any"), ..source };
        assert!(shrink(&well, Asked { place: Place::Sim, seed: 1 }).unwrap().is_none());
    }
}
