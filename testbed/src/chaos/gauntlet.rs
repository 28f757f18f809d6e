//! The gauntlet: an agent dies before every system call of a restart, one after the other, under traffic.
//!
//! A moment is a call's name and its number in a thread, as strace counts: the first thread that makes so many
//! dies with all others. Between two deaths a whole agent starts and all must be ready. Some deaths together
//! are judged; if they are not well, each is tried again for itself, so that the one is named.

mod calls;
mod state;

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use self::{
    calls::Moment,
    state::{State, Violation},
};
use crate::{
    fleet::Fleet,
    judge::Judge,
    lab::{self, Through, build},
    progress::Progress,
    traffic::Kind,
};

/// Deaths that are judged together.
const TOGETHER: usize = 20;
/// How often a moment is tried that a start does not come to: threads share their work differently each time.
const TRIES: u32 = 3;
/// A pod that pod 0's policy does not let it reach.
const FORBIDDEN: usize = 5;

/// What is walked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Walk {
    /// A restart with nothing changed.
    Restart,
}

/// How it is walked through.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Endpoints on the node
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(8..=1000))]
    endpoints: u16,
    /// Where to keep what was done: a run that was interrupted goes on there
    #[arg(long, value_name = "FILE", default_value = "chaos-gauntlet.json")]
    state: PathBuf,
    /// Stop after so many deaths; the next run goes on
    #[arg(long, value_name = "DEATHS")]
    most: Option<usize>,
}

/// Walks, or goes on; the exit status.
pub(super) fn run(walk: Walk, options: &Options) -> Result<i32> {
    let Walk::Restart = walk;
    if !lab::is_inside() {
        let place = std::path::absolute(&options.state)?;
        let own = ["/run", "/proc", "/sys"].iter().find(|own| place.starts_with(own));
        ensure!(
            own.is_none(),
            "{} is below {}, which the lab has for itself: take another --state",
            place.display(),
            own.unwrap_or(&"")
        );
        build::build()?;
    }
    let mut status = 0;
    let outside = lab::inside(|| {
        status = inside(options)?;
        if status != 0 {
            std::process::exit(status);
        }
        Ok(())
    })?;
    Ok(outside.max(status))
}

fn inside(options: &Options) -> Result<i32> {
    let count = usize::from(options.endpoints);
    let progress = Progress::new(false);
    let mut fleet = Fleet::launch(count, Through::Rest, &progress)?;
    let agent = fleet.node.binaries().agent.clone();
    let mut state = State::open(&options.state, options.endpoints, &agent)?;
    if state.is_new() {
        state.begin(moments(&mut fleet)?)?;
    }
    let left = state.left();
    let some = options.most.unwrap_or(left.len()).min(left.len());
    let (bar, begun) = (progress.bar("dying at every call", left.len()), Instant::now());
    for group in left[..some].chunks(TOGETHER) {
        walk(&mut fleet, group, &mut state)?;
        bar.inc(group.len() as u64);
        let rate = bar.position() as f64 / begun.elapsed().as_secs_f64() * 60.0;
        if bar.is_hidden() {
            volvox_system::complain!("{}, {rate:.0} deaths a minute", state.line());
        }
        bar.set_message(format!("{rate:.0} deaths a minute"));
    }
    bar.finish();
    volvox_system::say!("{}", state.report());
    Ok(i32::from(!state.violations().is_empty()))
}

/// The calls of a restart until all is ready and restored.
fn moments(fleet: &mut Fleet) -> Result<Vec<Moment>> {
    let node = &mut fleet.node;
    let file = node.trace_all_calls("all-calls");
    node.kill_agent()?;
    node.start_agent()?;
    node.wait_for_ready(fleet.pods.len())?;
    node.wait_until_restored()?;
    node.kill_agent()?;
    node.trace_no_calls();
    let moments = calls::moments(&file)?;
    node.start_agent()?;
    node.wait_for_ready(fleet.pods.len())?;
    Ok(moments)
}

/// Dies at these moments, and judges them.
fn walk(fleet: &mut Fleet, group: &[Moment], state: &mut State) -> Result<()> {
    let Err(first) = judged(fleet, group, state) else { return state.save() };
    // A violation of the last one is one of that one alone.
    if let [moment] = group {
        state.broke(Violation { moment: moment.clone(), what: format!("{first:#}") });
        recover(fleet).context("after a violation the node does not get ready again")?;
        return state.save();
    }
    recover(fleet)
        .with_context(|| format!("after {first:#}, the node does not get ready again"))?;
    let before = state.violations().len();
    group.iter().try_for_each(|moment| walk(fleet, std::slice::from_ref(moment), state))?;
    if state.violations().len() == before {
        // Together they broke something that none does alone.
        let what = format!("together with {} others: {first:#}", group.len() - 1);
        state.broke(Violation { moment: group[0].clone(), what });
    }
    state.save()
}

/// Fails if somebody noticed.
fn judged(fleet: &mut Fleet, group: &[Moment], state: &mut State) -> Result<()> {
    let mut judge = Judge::begin(&fleet.node)?;
    judge.watch(&fleet.pods.iter().collect::<Vec<_>>())?;
    fleet.all_streams()?.into_iter().for_each(|stream| judge.flows(stream));
    judge.denied(fleet.stream(Kind::Udp, 0, FORBIDDEN, false, 100)?);
    for moment in group {
        let died = die(fleet, moment)?;
        state.tried(moment, died);
    }
    let judgement = judge.end(&fleet.node)?;
    ensure!(
        judgement.is_clean(),
        "lost {}, let through {}, moved {} ({}), without a program {}",
        judgement.lost(),
        judgement.let_through,
        judgement.moved,
        judgement.changes.join("; "),
        judgement.dips
    );
    Ok(())
}

/// One death, and a whole life after it; whether it died there.
fn die(fleet: &mut Fleet, moment: &Moment) -> Result<bool> {
    let count = fleet.pods.len();
    let node = &mut fleet.node;
    for _ in 0..TRIES {
        node.bury_agent();
        node.doom(&moment.call, moment.nth);
        node.exec_agent()?;
        let lives = node.ready_or_ended(count)? && node.wait_until_restored().is_ok();
        let died = !lives || !node.has_agent();
        node.bury_agent();
        node.start_agent().with_context(|| moment.to_string())?;
        node.wait_for_ready(count).with_context(|| moment.to_string())?;
        if died {
            return Ok(true);
        }
    }
    Ok(false)
}

fn recover(fleet: &mut Fleet) -> Result<()> {
    fleet.node.bury_agent();
    fleet.node.start_agent()?;
    fleet.node.wait_for_ready(fleet.pods.len()).map(drop)
}

/// A path that is the same within the lab.
fn lock_of(state: &Path) -> PathBuf {
    state.with_extension("lock")
}
