//! What is shown of the reachability of nodes: results of probes, and latencies as histograms.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use serde::Serialize;

/// What came of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeResult {
    /// After how long an answer came.
    pub latency: Duration,
    /// Why none came.
    pub error: Option<String>,
    /// When that was, nanoseconds since 1970.
    pub probed: u64,
}

/// An address and how it is reached; what is not known yet is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddressReach {
    /// The address.
    pub ip: IpAddr,
    /// By ICMP.
    pub icmp: Option<ProbeResult>,
    /// By HTTP.
    pub http: Option<ProbeResult>,
}

impl AddressReach {
    /// Whether it can be reached, if that is known.
    pub fn is_reached(&self) -> Option<bool> {
        let all = [&self.icmp, &self.http];
        if all.iter().any(|it| it.as_ref().is_some_and(|it| it.error.is_some())) {
            return Some(false);
        }
        all.iter().all(|it| it.is_some()).then_some(true)
    }

    /// What of it does not answer, in words.
    pub fn problem(&self) -> Option<String> {
        let failed = |result: &Option<ProbeResult>, how: &str| {
            let error = result.as_ref()?.error.as_ref()?;
            Some(format!("{how} ({error})"))
        };
        let failed = [failed(&self.icmp, "ICMP"), failed(&self.http, "HTTP at port 4240")];
        let failed: Vec<String> = failed.into_iter().flatten().collect();
        (!failed.is_empty())
            .then(|| format!("{} does not answer {}", self.ip, failed.join(" nor ")))
    }
}

/// A node and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeReach {
    /// Its name, with that of its cluster unless that has none of its own.
    pub name: String,
    /// Whether it is this one.
    pub local: bool,
    /// Its own addresses, the primary one first.
    pub host: Vec<AddressReach>,
    /// Those of its health endpoint.
    pub endpoint: Vec<AddressReach>,
}

impl NodeReach {
    /// What of it cannot be reached, in words; nothing if all can.
    pub fn problem(&self) -> Option<String> {
        let of = |what: &str, all: &[AddressReach]| {
            let all = all.iter().filter_map(AddressReach::problem);
            all.map(|problem| format!("{what} {problem}")).collect::<Vec<_>>()
        };
        let all =
            [of("its address", &self.host), of("its health endpoint", &self.endpoint)].concat();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// Upper bounds of latencies, microseconds, as Cilium has them.
pub const BUCKETS_US: [u64; 13] = [
    1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_000_000,
    4_000_000, 8_000_000,
];

/// How long answers took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencyHistogram {
    /// How many were within each bound, and not within the one before.
    pub buckets: [u64; BUCKETS_US.len()],
    /// How many there were.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
}

impl LatencyHistogram {
    pub(super) fn observe(&mut self, latency: Duration) {
        let within = BUCKETS_US.iter().position(|it| latency <= Duration::from_micros(*it));
        if let Some(bucket) = within {
            self.buckets[bucket] += 1;
        }
        self.count += 1;
        self.sum += latency;
    }
}

/// Which latencies these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LatencyKey {
    /// `node` or `endpoint`.
    pub of: &'static str,
    /// `icmp` or `http`.
    pub protocol: &'static str,
    /// `primary` or `secondary`.
    pub address: &'static str,
}

/// How all nodes are reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReachabilityView {
    /// When the round of probes began, nanoseconds since 1970.
    pub began: u64,
    /// How long a round takes.
    pub interval: Duration,
    /// This node's name.
    pub local: String,
    /// All nodes, this one first.
    pub nodes: Vec<NodeReach>,
    /// Latencies, of each round one of each address.
    #[serde(skip)]
    pub latencies: BTreeMap<LatencyKey, LatencyHistogram>,
}

impl ReachabilityView {
    /// How many addresses of nodes or of endpoints can be reached, cannot, or are not known.
    pub fn counts(&self, endpoints: bool) -> [(&'static str, usize); 3] {
        // As Cilium: nodes that have no health endpoint are left out.
        let nodes = self.nodes.iter().filter(|node| !node.endpoint.is_empty());
        let all = nodes.flat_map(|node| if endpoints { &node.endpoint } else { &node.host });
        let states: Vec<_> = all.map(AddressReach::is_reached).collect();
        let count = |state| states.iter().filter(|it| **it == state).count();
        [
            ("reachable", count(Some(true))),
            ("unreachable", count(Some(false))),
            ("unknown", count(None)),
        ]
    }
}
