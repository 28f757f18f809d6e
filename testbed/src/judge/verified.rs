//! What `volvox verify` names on a node: kernel, disk and what its agent wants are compared from outside, as
//! an operator would.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use volvox_actors::node::verification::NodeDifference;

use super::{Finding, Measure};
use crate::lab::Node;

/// Exit codes of broken guarantees are this and more.
const DIFFERS: i32 = 10;
/// Differences that are told in full, of each guarantee.
const TOLD: usize = 3;

/// The part of its answer that is judged.
#[derive(Deserialize)]
struct Answer {
    differences: Vec<NodeDifference>,
}

/// What differs on a node whose agent answers, once it has settled.
pub fn differences(node: &Node) -> Result<Vec<NodeDifference>> {
    let lib = node.path("lib").display().to_string();
    let output = node.client(&format!("-o json verify --agent --lib-dir={lib}")).output()?;
    let code = output.status.code().context("volvox verify was killed")?;
    if code != 0 && code < DIFFERS {
        bail!("volvox verify: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let answer: Answer = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("volvox verify: {}", String::from_utf8_lossy(&output.stdout)))?;
    Ok(answer.differences)
}

/// What differs of each guarantee, held against the most that is well; one that is well if nothing does.
pub fn findings(
    differences: &[NodeDifference],
    limit: f64,
    is_asked: impl Fn(u8) -> bool,
) -> Vec<Finding> {
    let mut broken: BTreeMap<u8, Vec<&NodeDifference>> = BTreeMap::new();
    for difference in differences.iter().filter(|it| is_asked(it.guarantee.number())) {
        broken.entry(difference.guarantee.number()).or_default().push(difference);
    }
    if broken.is_empty() {
        return vec![Finding::new(Measure::Differences, Some(0.0), limit, "")];
    }
    let each = broken.into_iter().map(|(number, all)| {
        let mut told: Vec<_> =
            all.iter().take(TOLD).map(|it| format!("{}: {}", it.about, it.found)).collect();
        if all.len() > TOLD {
            told.push(format!("and {} more", all.len() - TOLD));
        }
        Finding::new(Measure::Differences, Some(all.len() as f64), limit, told.join("; "))
            .of_guarantee(number)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use volvox_actors::node::verification::Guarantee;

    use super::*;
    use crate::judge::Verdict;

    fn difference(guarantee: Guarantee) -> NodeDifference {
        let (about, found) = ("endpoint 7".to_owned(), "no route".to_owned());
        NodeDifference { guarantee, about, found, remedy: "restart".to_owned() }
    }

    #[test]
    fn each_guarantee_has_a_finding_of_its_own() {
        let all = [
            difference(Guarantee::Clean),
            difference(Guarantee::Numbers),
            difference(Guarantee::Clean),
        ];
        let found = findings(&all, 0.0, |_| true);
        let seen: Vec<_> = found.iter().map(|it| (it.guarantee, it.found, it.verdict)).collect();
        let broken = Verdict::Broken;
        assert_eq!(seen, [(Some(3), Some(1.0), broken), (Some(10), Some(2.0), broken)]);
        assert!(found[0].detail.contains("endpoint 7: no route"), "{found:?}");
        // What nobody asks about is not told.
        let [one] = findings(&all, 0.0, |number| number == 1).try_into().unwrap();
        assert_eq!((one.found, one.verdict, one.guarantee), (Some(0.0), Verdict::Well, None));
    }
}
