//! Has histories happen, each in a place of its own, and gathers what they came to.

use std::{
    io::{Read, Write},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    history::{Build, History, Step},
    lab as real,
    library::Source,
    outcome::{Outcome, Place},
    sim as simulated,
};
use crate::lab::{self, build};

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Where.
    pub place: Place,
    /// Where random moments come from.
    pub seed: u64,
}

/// Reads histories, refuses what cannot be done in that place, and has them happen one after the other.
pub fn histories(
    sources: &[Source],
    asked: Asked,
    mut each: impl FnMut(&Outcome),
) -> Result<Vec<Outcome>> {
    let histories = read(sources)?;
    match asked.place {
        Place::Sim => refuse_for_the_simulator(&histories)?,
        Place::Lab => prepare_the_lab(&histories)?,
    }
    let mut outcomes = Vec::new();
    for (history, source) in histories.iter().zip(sources) {
        let outcome = match asked.place {
            Place::Sim => simulated::live(history, asked.seed)?,
            Place::Lab => in_a_lab(source, history, asked.seed)?,
        };
        each(&outcome);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Reads them; fails with all that is wrong in any of them.
pub(super) fn read(sources: &[Source]) -> Result<Vec<History>> {
    let (mut histories, mut complaints) = (Vec::new(), Vec::new());
    for Source { name, text } in sources {
        match History::read(name, text) {
            Ok(history) => histories.push(history),
            Err(found) => complaints.extend(found.iter().map(ToString::to_string)),
        }
    }
    ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
    Ok(histories)
}

fn refuse_for_the_simulator(histories: &[History]) -> Result<()> {
    let refused: Vec<_> = histories
        .iter()
        .flat_map(|history| {
            let each = simulated::refused(history).into_iter();
            each.map(|what| format!("{}: the simulator cannot do this: {what}", history.name))
        })
        .collect();
    ensure!(refused.is_empty(), "{}\nNothing was started. Try --in lab.", refused.join("\n"));
    Ok(())
}

fn prepare_the_lab(histories: &[History]) -> Result<()> {
    let calls: std::collections::BTreeSet<_> = histories.iter().flat_map(History::calls).collect();
    for call in calls {
        let known = Command::new("strace")
            .args(["-o", "/dev/null", "-e", &format!("trace={call}"), "true"])
            .output()
            .context(
                "cannot start strace, which kills an agent before a system call: install it",
            )?;
        ensure!(
            known.status.success(),
            "the kernel has no system call {call}: nothing was started"
        );
    }
    build::build()?;
    let upgrades = |step: &Step| matches!(step, Step::Upgrade(Build::Other));
    if histories.iter().flat_map(History::all_steps).any(upgrades) && build::other_agent().is_err()
    {
        bail!(
            "a history upgrades to another build of the agent, and there is none: run cargo testbed \
             other-agent first; nothing was started"
        );
    }
    Ok(())
}

/// What this program is called with to live through one history, within a lab: the text comes on stdin.
pub(super) const INSIDE: &str = "inside";

/// Lives through one in a lab of its own. Whatever becomes of it, the lab's end removes all of it.
fn in_a_lab(source: &Source, history: &History, seed: u64) -> Result<Outcome> {
    let words = ["chaos", INSIDE, "--seed", &seed.to_string(), &source.name].map(Into::into);
    let text = source.text.clone();
    let output = lab::again(words.into(), move |command: &mut Command| {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        // Who ended before has read what he wanted.
        let _ = child.stdin.take().expect("piped").write_all(text.as_bytes());
        child.wait_with_output()
    });
    let output = output?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if let Some(outcome) = printed.lines().last().and_then(|line| serde_json::from_str(line).ok()) {
        return Ok(outcome);
    }
    let mut outcome = Outcome::new(&history.name, Place::Lab, seed);
    let complaint = String::from_utf8_lossy(&output.stderr);
    outcome.error = Some(format!("the lab ended with {}: {}", output.status, complaint.trim()));
    Ok(outcome)
}

/// The inner side of [`in_a_lab`].
pub(super) fn inside(name: &str, seed: u64) -> Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read the history")?;
    let source = Source { name: name.to_owned(), text };
    let [history] = read(&[source])?.try_into().ok().context("one history")?;
    let outcome = real::live(&history, seed);
    volvox_system::say!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}
