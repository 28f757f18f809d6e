//! What the agents of a history recorded, for who wants to look into it afterwards.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use volvox_inspect::dashboard::{FAULTS, Fault};

use crate::{chaos::outcome::Outcome, lab::Node};

/// What was done, and when agents died, by the clock that recordings have: the first step was that long ago.
pub(super) fn faults(outcome: &Outcome, ago: Duration) -> Vec<Fault> {
    let begun = SystemTime::now() - ago;
    let begun = begun.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let fault = |at: f64, took: f64, what: &str| Fault {
        at_unix_ns: (begun as i128 + (at * 1e9) as i128).try_into().unwrap_or(0),
        took_ns: (took * 1e9) as u64,
        what: what.to_owned(),
    };
    let steps = outcome.steps.iter().map(|step| fault(step.at, step.took, &step.what));
    let deaths = outcome.deaths.iter().map(|at| fault(*at, 0.0, "the agent dies"));
    let mut all: Vec<_> = steps.chain(deaths).collect();
    all.sort_by_key(|fault| fault.at_unix_ns);
    all
}

/// Copies the rings of the last agent, of the one before, and of earlier ones, and notes faults beside; names
/// of the rings there.
pub(super) fn keep(node: &Node, place: &Path, faults: &[Fault]) -> Result<Vec<String>> {
    fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    let noted = place.join(FAULTS);
    fs::write(&noted, serde_json::to_string(faults)?)
        .with_context(|| format!("cannot write {}", noted.display()))?;
    let state = node.path("cilium");
    let mut names = Vec::new();
    for folder in [state.join("lives"), state] {
        let files = fs::read_dir(&folder).into_iter().flatten().flatten();
        for file in files.filter(|file| file.path().extension().is_some_and(|end| end == "ring")) {
            let name = file.file_name().to_string_lossy().into_owned();
            let copied = fs::copy(file.path(), place.join(&name));
            copied.with_context(|| format!("cannot write {name} into {}", place.display()))?;
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::outcome::{Done, Place};

    #[test]
    fn faults_are_told_by_the_clock_in_their_order() {
        let mut outcome = Outcome::new("a", Place::Lab, 1);
        outcome.steps.push(Done { what: "kill".into(), at: 1.0, took: 0.5 });
        outcome.steps.push(Done { what: "start".into(), at: 2.0, took: 0.1 });
        outcome.deaths = vec![1.25];
        let all = faults(&outcome, Duration::from_secs(60));
        let told: Vec<_> = all.iter().map(|it| (it.what.as_str(), it.took_ns)).collect();
        assert_eq!(told, [("kill", 500_000_000), ("the agent dies", 0), ("start", 100_000_000)]);
        assert_eq!(all[2].at_unix_ns - all[0].at_unix_ns, 1_000_000_000);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let ago = now - all[0].at_unix_ns;
        assert!((59_000_000_000..120_000_000_000).contains(&ago), "{ago}");
    }
}
