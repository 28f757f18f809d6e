//! Tests: hooks in reverse order, those that hang or panic, and the signals, in a process of their own.

use std::{
    cell::RefCell,
    env,
    future::{pending, ready},
    io::{BufRead, BufReader, Write},
    process::{Child, Command, ExitStatus, Stdio},
    rc::Rc,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::*;

const SHORT: Part =
    Part { name: "short", patience: Duration::from_millis(150), otherwise: "nothing is lost" };
const LONG: Part = Part { name: "long", patience: Duration::from_secs(60), ..SHORT };

#[test]
fn all_parts_together_keep_the_limit() {
    let whole: Duration = PARTS.iter().map(|part| part.patience).sum();
    assert!(whole < STOP_MAX, "{whole:?}");
}

#[actix::test]
async fn who_started_last_is_stopped_first_and_nobody_before_it_is_time() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let mut hooks = Hooks::default();
    for name in ["first", "second", "third"] {
        let order = Rc::clone(&order);
        hooks.started(Part { name, ..LONG }, async move {
            tokio::task::yield_now().await;
            order.borrow_mut().push(name);
        });
    }
    tokio::task::yield_now().await;
    assert!(order.borrow().is_empty());
    let under_way = UnderWay::default();
    hooks.stop(under_way.clone()).await;
    assert_eq!(*order.borrow(), ["third", "second", "first"]);
    assert_eq!(under_way.name(), "the actors' thread");
}

#[actix::test]
async fn a_hook_that_hangs_or_panics_costs_only_itself() {
    let (tell, stopped) = mpsc::channel();
    let mut hooks = Hooks::default();
    let first = tell.clone();
    hooks.started(LONG, async move { first.send("first").unwrap() });
    hooks.started(SHORT, pending());
    hooks.started(LONG, async { panic!("a fault of this hook") });
    // Blocking work does not keep the actors' thread.
    let (release, held) = mpsc::channel::<()>();
    hooks.started(SHORT, aside(move || held.recv().unwrap_or_default()));
    hooks.started(LONG, aside(move || tell.send("last").unwrap()));
    hooks.started(LONG, aside(|| panic!("a fault of this work")));
    let begun = Instant::now();
    hooks.stop(UnderWay::default()).await;
    assert!(begun.elapsed() >= 2 * SHORT.patience, "two of them had their time");
    assert_eq!(stopped.iter().collect::<Vec<_>>(), ["last", "first"]);
    drop(release);
}

/// Tells the second run of a test that it is the one that gets signals, and what it does then.
const KIND: &str = "VOLVOX_TEST_STOPS";
/// What it may take, in all.
const LIMIT: Duration = Duration::from_secs(2);
/// Far less than its hooks take, and its limit if that is not tried.
const SOON: Duration = Duration::from_secs(20);

/// A process like the agent: it has hooks, and listens to signals.
struct Stopping {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Stopping {
    /// Starts it, and waits until it listens.
    fn start(kind: &str, test: &str) -> Self {
        let this = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", &this, "--nocapture"])
            .env(KIND, kind)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        thread::spawn(move || out.lines().try_for_each(|line| tell.send(line.unwrap())));
        let stopping = Self { child, lines };
        stopping.says("listens");
        stopping
    }

    fn says(&self, expected: &str) {
        loop {
            let line = self.lines.recv_timeout(SOON).unwrap_or_else(|_| panic!("no {expected:?}"));
            if line == expected {
                return;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn ended(mut self) -> (ExitStatus, Vec<String>) {
        let begun = Instant::now();
        while begun.elapsed() < SOON {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, self.lines.iter().collect());
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end");
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        // It has ended, if all is well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(line: &str) {
    // A line of its own, whatever the test harness began.
    writeln!(std::io::stdout(), "\n{line}").unwrap();
}

/// The life of the process that gets the signals, if this is it.
fn live(limit: Duration) {
    let Ok(kind) = env::var(KIND) else { return };
    actix::System::new().block_on(async move {
        let under_way = UnderWay::default();
        let signals = Signals::listen(limit, under_way.clone()).unwrap();
        say("listens");
        if kind == "actors hang" {
            say("hangs");
            thread::sleep(Duration::MAX);
        }
        let first = signals.first().await.unwrap();
        say(first);
        let mut hooks = Hooks::default();
        hooks.started(LONG, async { say("written") });
        if kind == "a hook hangs" {
            hooks.started(LONG, async {
                say("hangs");
                pending().await
            });
        }
        hooks.started(LONG, ready(()));
        hooks.stop(under_way).await;
    });
    std::process::exit(0);
}

#[test]
fn one_signal_runs_the_hooks_and_ends_well() {
    live(LONG.patience);
    let stopping = Stopping::start("nothing hangs", "one_signal_runs_the_hooks_and_ends_well");
    stopping.signal(Signal::INT);
    stopping.says("SIGINT");
    let (status, said) = stopping.ended();
    assert!(status.success(), "{status}");
    assert!(said.contains(&"written".to_owned()), "{said:?}");
}

#[test]
fn a_second_signal_ends_at_once() {
    live(LONG.patience);
    let stopping = Stopping::start("a hook hangs", "a_second_signal_ends_at_once");
    stopping.signal(Signal::TERM);
    stopping.says("hangs");
    stopping.signal(Signal::TERM);
    let (status, said) = stopping.ended();
    assert_eq!(status.code(), Some(143), "{status}");
    assert!(!said.contains(&"written".to_owned()), "{said:?}");
}

#[test]
fn signals_end_an_agent_whose_actors_hang() {
    live(LONG.patience);
    let stopping = Stopping::start("actors hang", "signals_end_an_agent_whose_actors_hang");
    stopping.says("hangs");
    stopping.signal(Signal::TERM);
    stopping.signal(Signal::INT);
    let (status, _) = stopping.ended();
    // Whichever of the two is heard as the second one.
    assert!(matches!(status.code(), Some(130 | 143)), "{status}");
}

#[test]
fn a_stop_that_hangs_is_bounded() {
    live(LIMIT);
    let stopping = Stopping::start("a hook hangs", "a_stop_that_hangs_is_bounded");
    let begun = Instant::now();
    stopping.signal(Signal::TERM);
    let (status, _) = stopping.ended();
    assert_eq!(status.code(), Some(1), "{status}");
    assert!(begun.elapsed() >= LIMIT, "it had its time");
}
