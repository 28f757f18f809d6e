//! Finds the rules that select an endpoint, without a look at all the others.

use std::collections::BTreeMap;

use super::rule::Rule;
use crate::model::Labels;

/// Rules by a label that an endpoint must have for them: most of a cluster's rules are for few
/// endpoints, and most are passed over without looking at them.
pub(super) struct RuleIndex<'a> {
    /// By key and value, each with its place in the order.
    by_label: BTreeMap<(&'a str, &'a str), Vec<(usize, &'a Rule)>>,
    /// Those that ask for no label with one value.
    others: Vec<(usize, &'a Rule)>,
}

impl<'a> RuleIndex<'a> {
    pub(super) fn new(rules: impl Iterator<Item = &'a Rule>) -> Self {
        let (mut by_label, mut others) = (BTreeMap::<_, Vec<_>>::new(), Vec::new());
        for (place, rule) in rules.enumerate() {
            let Some(subject) = &rule.subject else { continue };
            match subject.selector().labels.iter().next() {
                Some((key, value)) => {
                    let label = (key.key.as_str(), value.as_str());
                    by_label.entry(label).or_default().push((place, rule));
                }
                None => others.push((place, rule)),
            }
        }
        Self { by_label, others }
    }

    /// The rules for an endpoint with these labels, in their order.
    pub(super) fn of(&self, labels: &Labels) -> Vec<&'a Rule> {
        let named = labels
            .iter()
            .filter_map(|label| self.by_label.get(&(label.key.as_str(), label.value.as_str())));
        let candidates = named.flatten().chain(&self.others);
        let mut rules: Vec<_> =
            candidates.copied().filter(|(_, rule)| rule.selects(labels)).collect();
        rules.sort_unstable_by_key(|(place, _)| *place);
        rules.into_iter().map(|(_, rule)| rule).collect()
    }
}
