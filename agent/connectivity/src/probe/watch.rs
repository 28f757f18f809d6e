//! Asks targets without a pause, and counts what is lost.

use std::{
    cell::RefCell,
    io::{self, Read},
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::{
    sync::oneshot,
    task::{JoinSet, LocalSet, spawn_local},
    time::{MissedTickBehavior, interval, timeout},
};

use super::{
    answer::{Answer, Trouble},
    ask::{Connection, once},
    target::{Protocol, Target},
};

/// How long an answer may take of which a packet was lost: less than the kernel takes to send a lost SYN
/// again, so that it is noticed.
pub(crate) const PATIENCE: Duration = Duration::from_millis(900);
/// How long an answer may take on a busy machine, of which nothing was lost.
pub(crate) const SLOW: Duration = Duration::from_secs(10);
/// How often counts are told.
const PERIOD: Duration = Duration::from_secs(1);
/// How many losses are told with their time and reason.
const TOLD: usize = 5;

/// What became of a target's probes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// How many were sent.
    pub sent: u64,
    /// How many were answered.
    pub answered: u64,
    /// How many were not.
    pub lost: u64,
    /// The longest that an answer took, in microseconds.
    pub longest_micros: u64,
    /// The first losses: when was asked, in milliseconds from the start, and why.
    pub losses: Vec<(u64, String)>,
}

/// Counts of all targets, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Watched {
    /// Milliseconds from the start.
    pub at: u64,
    /// No more will come.
    pub ended: bool,
    /// One for each target.
    pub tallies: Vec<Tally>,
}

struct Counts {
    began: Instant,
    tally: Tally,
}

impl Counts {
    fn count(&mut self, answer: &Answer) {
        let took = Duration::from_micros(answer.micros);
        let repaired = (took >= PATIENCE && answer.resent > 0).then(|| {
            let (lost, after) = (answer.resent, took.as_millis());
            format!("answered after {after} ms, for {lost} segments were lost and sent again")
        });
        match answer.reason().or(repaired) {
            None => {
                self.tally.answered += 1;
                self.tally.longest_micros = self.tally.longest_micros.max(answer.micros);
            }
            Some(reason) => {
                self.tally.lost += 1;
                if self.tally.losses.len() < TOLD {
                    let asked = self.began.elapsed().saturating_sub(took);
                    self.tally.losses.push((millis(asked), reason));
                }
            }
        }
    }
}

/// Asks each target `rate` times a second until `until` says something, and tells the counts each
/// second and in the end.
pub async fn watch(
    targets: Vec<Target>,
    rate: u32,
    until: oneshot::Receiver<()>,
    mut tell: impl FnMut(&Watched),
) {
    let began = Instant::now();
    let pause = Duration::from_secs(1) / rate.max(1);
    let counts: Vec<_> = targets
        .iter()
        .map(|_| Rc::new(RefCell::new(Counts { began, tally: Tally::default() })))
        .collect();
    let seen = |ended| Watched {
        at: millis(began.elapsed()),
        ended,
        tallies: counts.iter().map(|it| it.borrow().tally.clone()).collect(),
    };
    let local = LocalSet::new();
    local
        .run_until(async {
            let (end, _) = tokio::sync::watch::channel(false);
            let mut watchers = Vec::new();
            for (target, counts) in targets.into_iter().zip(&counts) {
                let (counts, ended) = (Rc::clone(counts), end.subscribe());
                watchers.push(spawn_local(async move {
                    if target.protocol == Protocol::Stream {
                        stream(target, pause, &counts, ended).await;
                    } else {
                        repeat(target, pause, &counts, ended).await;
                    }
                }));
            }
            let mut ticks = interval(PERIOD);
            tokio::pin!(until);
            loop {
                tokio::select! {
                    _ = &mut until => break,
                    _ = ticks.tick() => tell(&seen(false)),
                }
            }
            end.send_replace(true);
            for watcher in watchers {
                // Those under way are waited for.
                let _ = watcher.await;
            }
        })
        .await;
    tell(&seen(true));
}

/// A probe each, none waiting for the one before.
async fn repeat(
    target: Target,
    pause: Duration,
    counts: &Rc<RefCell<Counts>>,
    mut ended: tokio::sync::watch::Receiver<bool>,
) {
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asked = JoinSet::new();
    loop {
        tokio::select! {
            _ = ended.changed() => break,
            _ = ticks.tick() => {}
        }
        counts.borrow_mut().tally.sent += 1;
        let (target, counts) = (target.clone(), Rc::clone(counts));
        asked.spawn_local(async move {
            let answer = once(&target).await;
            counts.borrow_mut().count(&answer);
        });
        while asked.try_join_next().is_some() {}
    }
    while asked.join_next().await.is_some() {}
}

/// Requests over one connection; it is opened anew only when it is broken, which is a loss.
async fn stream(
    target: Target,
    pause: Duration,
    counts: &Rc<RefCell<Counts>>,
    mut ended: tokio::sync::watch::Receiver<bool>,
) {
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut connection = None;
    loop {
        tokio::select! {
            _ = ended.changed() => break,
            _ = ticks.tick() => {}
        }
        counts.borrow_mut().tally.sent += 1;
        let began = Instant::now();
        let mut answer = Answer::default();
        let outcome = match timeout(target.wait, over(&mut connection, &target, &mut answer)).await
        {
            Ok(outcome) => outcome,
            Err(_) => Err(Trouble::timed_out(target.wait)),
        };
        answer.micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        if let Err(trouble) = outcome {
            connection = None;
            (answer.fault, answer.detail) = (Some(trouble.fault), trouble.detail);
        }
        counts.borrow_mut().count(&answer);
    }
}

async fn over(
    connection: &mut Option<Connection>,
    target: &Target,
    answer: &mut Answer,
) -> Result<(), Trouble> {
    let at =
        target.address().ok_or_else(|| Trouble::new(super::Fault::NoName, "it is no address"))?;
    let open = match connection {
        Some(open) => open,
        None => connection.insert(Connection::open(at).await?),
    };
    open.exchange(target.size, answer).await
}

/// Is told when standard input has ended, or has anything to say.
pub fn input_ended() -> io::Result<oneshot::Receiver<()>> {
    let (tell, told) = oneshot::channel();
    thread::Builder::new().name("input".to_owned()).spawn(move || {
        let _ = io::stdin().read(&mut [0]);
        let _ = tell.send(());
    })?;
    Ok(told)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
