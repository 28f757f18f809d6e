//! HTTP requests to servers that are not ours, a new connection each.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::{counters::Counters, pace::Pace};
use crate::lab::{Netns, wait_for};

/// When a request counts as failed. What is lost is counted by the kernel; who is slow has lost nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests at a bounded rate, until they are stopped.
pub struct Requests {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    from: Netns,
    before: Counters,
    thread: JoinHandle<Result<Tally>>,
}

/// What became of requests.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many were sent.
    pub sent: u64,
    /// What was answered, and how often.
    pub answers: BTreeMap<String, u64>,
    /// Why others were not, and how many seconds after the first.
    pub failures: Vec<(f64, String)>,
    /// TCP segments that the sender's namespace had to send again because they were lost.
    pub lost: u64,
    /// The longest that one took.
    pub slowest: Duration,
}

impl Requests {
    /// Asks for `/` at that address, that often a second.
    pub fn start(from: &Netns, to: SocketAddr, rate: u32) -> Result<Self> {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), answered.clone());
        let before = Counters::read(from)?;
        let thread = from.spawn("requests", move || {
            let (mut tally, begun) = (Tally::default(), Instant::now());
            let mut pace = Pace::new(rate, &stopped);
            while pace.tick() {
                tally.sent += 1;
                let asked = Instant::now();
                match request(to) {
                    Ok(answer) => {
                        *tally.answers.entry(answer).or_default() += 1;
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => {
                        tally.failures.push((begun.elapsed().as_secs_f64(), format!("{error:#}")));
                    }
                }
                tally.slowest = tally.slowest.max(asked.elapsed());
            }
            Ok(tally)
        })?;
        Ok(Self { stop, answered, from: from.clone(), before, thread })
    }

    /// Waits until that many more are answered.
    pub fn wait_for_answers(&self, more: u64) -> Result<()> {
        let wanted = self.answered.load(Ordering::Relaxed) + more;
        wait_for("requests are answered", || Ok(self.answered.load(Ordering::Relaxed) >= wanted))
    }

    /// Sends no more; what became of them.
    pub fn stop(self) -> Result<Tally> {
        self.stop.store(true, Ordering::Relaxed);
        let tally = self.thread.join().ok().context("the requests panicked")??;
        let lost = Counters::read(&self.from)?.resent_since(&self.before).lost_of_short();
        Ok(Tally { lost, ..tally })
    }
}

impl Tally {
    /// Fails if anything was lost on the way.
    pub fn is_clean(&self) -> Result<()> {
        ensure!(
            self.sent > 0 && self.failures.is_empty() && self.lost == 0,
            "{} of {} requests failed, {} segments were lost, the slowest took {:?}: {:?}",
            self.failures.len(),
            self.sent,
            self.lost,
            self.slowest,
            &self.failures[..self.failures.len().min(5)]
        );
        Ok(())
    }
}

/// What is answered, without its headers.
pub fn request(to: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE).context("no connection")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let asked = format!("GET / HTTP/1.0\r\nHost: {to}\r\n\r\n");
    stream.write_all(asked.as_bytes()).context("it takes no request")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("no answer")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end")?;
    ensure!(head.contains(" 200 "), "{head}");
    Ok(body.trim().to_owned())
}
