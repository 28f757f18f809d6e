//! Has histories happen, each in a place of its own, and gathers what they came to.

use std::{
    fs,
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    explain,
    faults::{Disk, Fault, Server},
    history::{Build, History, Step},
    lab as real,
    library::Source,
    mutant,
    outcome::{Outcome, Place},
    shrink::{self, Shrunk},
    sim as simulated,
};
use crate::lab::{self, ApiServer, ContainerRuntime, Janitor, build};

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Where.
    pub place: Place,
    /// Where random moments come from.
    pub seed: u64,
}

/// A directory for what agents recorded, for each history one below it.
pub(super) type Recordings<'a> = Option<&'a Path>;

/// Reads histories, refuses what cannot be done in that place, and has them happen one after the other.
pub fn histories(
    sources: &[Source],
    asked: Asked,
    each: impl FnMut(&Outcome),
) -> Result<Vec<Outcome>> {
    recorded(sources, asked, None, each)
}

/// The same; what the agents recorded is kept, too.
pub(super) fn recorded(
    sources: &[Source],
    asked: Asked,
    recordings: Recordings<'_>,
    mut each: impl FnMut(&Outcome),
) -> Result<Vec<Outcome>> {
    let histories = read(sources)?;
    mutant::asked_for()?;
    match asked.place {
        Place::Sim => refuse_for_the_simulator(&histories)?,
        Place::Lab => prepare_the_lab(&histories)?,
    }
    let mut outcomes = Vec::new();
    for source in sources {
        let outcome = one(source, asked, recordings)?;
        each(&outcome);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Has one happen of which all is known to be possible. What a place cannot do is an error.
pub(super) fn one(source: &Source, asked: Asked, recordings: Recordings<'_>) -> Result<Outcome> {
    let history = one_of(source)?;
    match asked.place {
        Place::Sim => simulated::live(&history, asked.seed),
        Place::Lab => in_a_lab(source, &history, asked.seed, recordings),
    }
}

/// Shrinks a history that failed, prints what is left, and keeps it in a file.
pub(super) fn shrink_to(source: &Source, asked: Asked, place: &Path) -> Result<()> {
    let Some(Shrunk { text, tries }) = shrink::shrink(source, asked)? else {
        volvox_system::complain!("{} does not fail again: it is not shrunk", source.name);
        return Ok(());
    };
    fs::write(place, &text).with_context(|| format!("cannot write {}", place.display()))?;
    volvox_system::complain!("{} still fails as this, after {tries} tries:\n\n{text}", source.name);
    let place = place.display();
    volvox_system::complain!("  again: testbed chaos run {place} --in {}", asked.place);
    Ok(())
}

fn one_of(source: &Source) -> Result<History> {
    read(std::slice::from_ref(source))?.pop().context("one history")
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

/// What of a history real processes cannot do, each in words.
pub(super) fn refused_by_the_lab(history: &History) -> Vec<String> {
    let only_simulated =
        |step: &&&Step| matches!(step, Step::Crash(_) | Step::KillAfterMessages(_));
    history.all_steps().iter().filter(only_simulated).map(|step| explain::step(step)).collect()
}

fn refuse_for_the_lab(histories: &[History]) -> Result<()> {
    let refused: Vec<_> = histories
        .iter()
        .flat_map(|history| {
            let each = refused_by_the_lab(history).into_iter();
            each.map(|what| format!("{}: the lab cannot do this: {what}", history.name))
        })
        .collect();
    ensure!(refused.is_empty(), "{}\nNothing was started. Try --in sim.", refused.join("\n"));
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
    refuse_for_the_lab(histories)?;
    histories.iter().try_for_each(prepare_for)?;
    build::build()?;
    let upgrades = |step: &Step| matches!(step, Step::Upgrade(Build::Other, _));
    if histories.iter().flat_map(History::all_steps).any(upgrades) && build::other_agent().is_err()
    {
        bail!(
            "a history upgrades to another build of the agent, and there is none: put one beside the \
             agent as volvox-agent-other, or in a checkout run cargo testbed other-agent; nothing was started"
        );
    }
    Ok(())
}

/// What of this machine a history needs.
fn prepare_for(history: &History) -> Result<()> {
    let has = |wanted: fn(&Fault) -> bool| history.faults().any(wanted);
    let missing = if has(|it| matches!(it, Fault::Disk(Disk::PowerCut | Disk::Failing)))
        && !lab::Disk::is_possible()
    {
        Some("this machine has no loop devices, so no disk can fail whole".to_owned())
    } else {
        real::missing(history)
    };
    let program = |server: &Server| match server {
        Server::Api if ApiServer::find().is_none() => Some(
            "there is no kube-apiserver: run testbed/test once, or name a directory that has one \
                  by KUBEBUILDER_ASSETS",
        ),
        Server::Containerd if !ContainerRuntime::is_possible() => {
            Some("there is no containerd: install it")
        }
        _ => None,
    };
    let program = history.servers.iter().find_map(program).map(str::to_owned);
    match missing.or(program) {
        Some(what) => bail!("{}: {what}; nothing was started", history.name),
        None => Ok(()),
    }
}

/// What this program is called with to live through one history, within a lab: the text comes on stdin.
pub(super) const INSIDE: &str = "inside";

/// Lives through one in a lab of its own. Whatever becomes of it, the lab's end removes all of it.
fn in_a_lab(
    source: &Source,
    history: &History,
    seed: u64,
    recordings: Recordings<'_>,
) -> Result<Outcome> {
    let words = ["chaos", INSIDE, "--seed", &seed.to_string(), &source.name].map(Into::into);
    let mut words: Vec<std::ffi::OsString> = words.into();
    if let Some(place) = recordings {
        words.extend(["--recordings".into(), place.join(&history.name).into()]);
    }
    let text = source.text.clone();
    let groups = real::controllers(history);
    let janitor = (!groups.is_empty()).then(|| Janitor::start(&groups)).transpose()?;
    let output = lab::again(words, move |command: &mut Command| {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        // Who ended before has read what he wanted.
        let _ = child.stdin.take().expect("piped").write_all(text.as_bytes());
        child.wait_with_output()
    });
    drop(janitor);
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
pub(super) fn inside(name: &str, seed: u64, recordings: Recordings<'_>) -> Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read the history")?;
    let source = Source { name: name.to_owned(), text };
    let history = one_of(&source)?;
    let outcome = real::live(&history, seed, recordings);
    volvox_system::say!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}
