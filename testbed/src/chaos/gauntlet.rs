//! The gauntlet: an agent dies before every system call of an operation, one after the other, under traffic.
//!
//! A moment is a call's name and its number in a thread, as strace counts: the first thread that makes so many
//! dies with all others. Behind each death a whole agent starts, and the operation is finished or undone. Some
//! deaths together are judged; if they are not well, each is tried again for itself, so that the one is named,
//! and kept as a history.

mod calls;
mod state;
mod uninstall;
mod walker;
mod walks;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::ProgressBar;

use self::{state::State, walker::Walker, walks::Plan};
use crate::{
    chaos::{
        library::Source,
        mutant,
        outcome::Place,
        run::{Asked, shrink_to},
    },
    lab::{self, build},
    progress::Progress,
};

pub(super) use walks::Walk;

/// How it is walked through.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Endpoints on the node
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(11..=1000))]
    endpoints: u16,
    /// Where to keep what was done: a run that was interrupted goes on there
    #[arg(long, value_name = "FILE", default_value = "chaos-gauntlet.json")]
    state: PathBuf,
    /// Stop after so many deaths of each walk; the next run goes on
    #[arg(long, value_name = "DEATHS")]
    most: Option<usize>,
}

/// Walks, or goes on; the exit status.
pub(super) fn run(walk: Walk, options: &Options) -> Result<i32> {
    if lab::is_inside() {
        let mut status = 0;
        lab::inside(|| {
            status = inside(walk, options)?;
            Ok(())
        })?;
        return Ok(status);
    }
    lab::seen_inside(&options.state)?;
    mutant::asked_for()?;
    for walk in walk.each() {
        Plan::make(walk, options.endpoints.into())?;
    }
    build::build()?;
    if walk.each().contains(&Walk::Upgrade) {
        build::other_agent()?;
    }
    let mut worst = 0;
    for walk in walk.each() {
        let mut words = vec!["chaos".into(), "gauntlet".into(), walk.name().into()];
        words.extend(["--endpoints".into(), options.endpoints.to_string().into()]);
        words.extend(["--state".into(), options.state.clone().into()]);
        if let Some(most) = options.most {
            words.extend(["--most".into(), most.to_string().into()]);
        }
        let status = lab::again(words, Command::status)?.code().unwrap_or(2);
        worst = worst.max(status);
        if status == 1 {
            shrink(walk, options)?;
        }
    }
    Ok(worst)
}

/// Shrinks the histories of violations that were not shrunk yet.
fn shrink(walk: Walk, options: &Options) -> Result<()> {
    let asked = Asked { place: Place::Lab, seed: 1 };
    for place in state::histories_beside(&options.state, walk)? {
        let shrunk = place.with_extension("shrunk.yaml");
        if shrunk.exists() {
            continue;
        }
        let text = fs::read_to_string(&place)?;
        shrink_to(&Source { name: place.display().to_string(), text }, asked, &shrunk)?;
    }
    Ok(())
}

fn inside(walk: Walk, options: &Options) -> Result<i32> {
    let agent = mutant::binaries()?.agent;
    let mut state = State::open(&options.state, walk, options.endpoints, &agent)?;
    let plan = Plan::make(walk, options.endpoints.into())?;
    if walk == Walk::Uninstall {
        uninstall::walk(&plan, &mut state, options)?;
    } else {
        let mut walker = Walker::begin(&plan)?;
        if state.is_new() {
            let moments = walker.moments()?;
            state.begin(moments)?;
        }
        let left = chosen(&state, options);
        let mut meter = Meter::new(left.len());
        walker.walk(&left, &mut state, |state, count| meter.tell(state, count))?;
    }
    keep_histories(&state)?;
    volvox_system::say!("{}", state.report());
    Ok(i32::from(!state.violations().is_empty()))
}

/// Moments that this run comes to.
fn chosen(state: &State, options: &Options) -> Vec<calls::Moment> {
    let mut left = state.left();
    left.truncate(options.most.unwrap_or(usize::MAX));
    left
}

/// Each violation as a history beside the state.
fn keep_histories(state: &State) -> Result<()> {
    for (place, history) in state.histories() {
        fs::write(&place, history).with_context(|| format!("cannot write {}", place.display()))?;
    }
    Ok(())
}

/// Says how far it is: a bar at a terminal, lines elsewhere.
struct Meter {
    bar: ProgressBar,
    begun: Instant,
}

impl Meter {
    fn new(count: usize) -> Self {
        let bar = Progress::new(false).bar("dying at every call", count);
        Self { bar, begun: Instant::now() }
    }

    fn tell(&mut self, state: &State, count: usize) {
        self.bar.inc(count as u64);
        let rate = self.bar.position() as f64 / self.begun.elapsed().as_secs_f64() * 60.0;
        if self.bar.is_hidden() {
            volvox_system::complain!("{}, {rate:.0} deaths a minute", state.line());
        }
        self.bar.set_message(format!("{rate:.0} deaths a minute"));
    }
}

/// A path that is the same within the lab.
fn lock_of(state: &Path) -> PathBuf {
    state.with_extension("lock")
}
