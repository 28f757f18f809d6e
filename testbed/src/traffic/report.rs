//! What a stream has to say when it ends.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{Kind, counters::Resent};

/// One stream's account. Packets of both directions are counted together.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was sent.
    pub kind: Kind,
    /// Where to.
    pub target: IpAddr,
    /// Packets, of [`Kind::Tcp`] records and of [`Kind::Connect`] connections, that were sent.
    pub sent: u64,
    /// Of them those that did not arrive; of the TCP kinds, segments that had to be sent again.
    pub lost: u64,
    /// Of the TCP kinds: what the sender's and the receiver's kernel sent again.
    pub resent: [Resent; 2],
    /// Packets that arrived after a later one.
    pub reordered: u64,
    /// Packets that arrived twice.
    pub duplicates: u64,
    /// Connections that were refused, reset or timed out, and sends that the kernel refused.
    pub failures: u64,
    /// Longest time between two arrivals at the sender.
    pub longest_gap: Duration,
    /// When that began, if anything arrived twice.
    #[serde(skip)]
    pub gap_since: Option<Instant>,
}

impl Report {
    /// An account in which nothing happened yet.
    pub(super) fn new(kind: Kind, target: IpAddr) -> Self {
        Self {
            kind,
            target,
            sent: 0,
            lost: 0,
            resent: Default::default(),
            reordered: 0,
            duplicates: 0,
            failures: 0,
            longest_gap: Duration::ZERO,
            gap_since: None,
        }
    }

    /// Whether somebody who uses the stream could have noticed anything.
    pub fn is_clean(&self) -> bool {
        self.sent > 0 && self.lost == 0 && self.failures == 0
    }
}
