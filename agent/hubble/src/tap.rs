//! The way of the datapath's records into the ring. It runs where records are read, once for each, so it
//! copies and does no more.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::watch;
use volvox_bpf_progs::layouts::{EventHeader, Record, VerdictRecord};
use volvox_maps::Event;
use zerocopy::FromBytes;

use crate::{
    agent_events::AgentEvents,
    messages::{AgentEvent, lost, now},
    ring::RingWriter,
};

/// Takes what is read and keeps it.
pub struct Tap {
    writer: RingWriter,
    /// Kinds of records that are kept; none is all.
    kinds: Vec<u8>,
    /// The last verdict of each CPU: a drop by policy follows the verdict that led to it.
    verdicts: BTreeMap<u32, (u32, u32)>,
    lost: BTreeMap<u32, Lost>,
    told: u64,
    interval: Duration,
    news: watch::Sender<u64>,
    agent_events: Arc<Mutex<AgentEvents>>,
    has_news: bool,
}

/// Records that the kernel had no room for, not told yet.
#[derive(Clone, Copy, Debug)]
struct Lost {
    count: u64,
    first: u64,
}

impl Tap {
    /// Keeps records of these kinds; none is all. What is lost is told once in each interval.
    pub fn new(
        mut writer: RingWriter,
        kinds: Vec<u8>,
        interval: Duration,
        agent_events: Arc<Mutex<AgentEvents>>,
    ) -> (Self, watch::Receiver<u64>) {
        let (news, heard) = watch::channel(0);
        // Nobody read while no agent ran, so nobody counted either.
        let (oldest, next) = writer.ring().bounds();
        let before = (oldest..next).rev().find_map(|number| writer.ring().time(number));
        if let Some(before) = before {
            writer.lost(now(), 0, lost::KERNEL as u32, 0, before);
        }
        let (kinds, verdicts, lost) = (kinds, BTreeMap::new(), BTreeMap::new());
        let tap = Self {
            writer,
            kinds,
            verdicts,
            lost,
            told: 0,
            interval,
            news,
            agent_events,
            has_news: false,
        };
        (tap, heard)
    }

    /// Takes what was read.
    pub fn take(&mut self, event: &Event, now: u64) {
        match event {
            Event::Sample { cpu, bytes } => self.sample(*cpu, bytes, now),
            Event::Lost { cpu, count } => {
                let lost = self.lost.entry(*cpu).or_insert(Lost { count: 0, first: now });
                lost.count = lost.count.saturating_add(*count);
            }
        }
    }

    fn sample(&mut self, cpu: u32, bytes: &[u8], now: u64) {
        let Ok((header, _)) = EventHeader::read_from_prefix(bytes) else { return };
        let cookie = match header.kind {
            Record::VERDICT => {
                let cookie = VerdictRecord::read_from_prefix(bytes).map_or(0, |(it, _)| it.cookie);
                self.verdicts.insert(cpu, (header.hash, cookie));
                cookie
            }
            Record::DROP => match self.verdicts.remove(&cpu) {
                Some((hash, cookie)) if hash == header.hash => cookie,
                _ => 0,
            },
            _ => {
                self.verdicts.remove(&cpu);
                0
            }
        };
        if self.kinds.is_empty() || self.kinds.contains(&header.kind) {
            self.writer.record(now, cpu, cookie, bytes);
            self.has_news = true;
        }
    }

    /// Takes what the agent says of itself.
    pub fn agent(&mut self, event: AgentEvent, now: u64) {
        self.agent_events.lock().unwrap_or_else(PoisonError::into_inner).push(now, event);
        self.has_news = true;
    }

    /// Tells those who follow, and what was lost. To be called after all that was read at once.
    pub fn flush(&mut self, now: u64) {
        let interval = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX);
        if !self.lost.is_empty() && now.saturating_sub(self.told) >= interval {
            for (cpu, Lost { count, first }) in std::mem::take(&mut self.lost) {
                self.writer.lost(now, cpu, lost::KERNEL as u32, count, first);
            }
            self.told = now;
            self.has_news = true;
        }
        if std::mem::take(&mut self.has_news) {
            self.news.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Whether something waits to be told.
    pub fn owes(&self) -> bool {
        !self.lost.is_empty()
    }
}
