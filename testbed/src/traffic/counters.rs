//! The kernel's own counters of a network namespace.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::lab::Netns;

/// Counters of `/proc/net/snmp` and `/proc/net/netstat`, named as `Tcp.RetransSegs`.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads those of `namespace`.
    pub(super) fn read(namespace: &Netns) -> Result<Self> {
        namespace.run(|| {
            let mut all = BTreeMap::new();
            for file in ["/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat"] {
                let text =
                    fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
                parse(&text, &mut all);
            }
            Ok(Self(all))
        })
    }

    /// What TCP sent again since `before`.
    pub(super) fn resent_since(&self, before: &Self) -> Resent {
        let grown = |name: &str| self.get(name).saturating_sub(before.get(name));
        Resent {
            segments: grown("Tcp.RetransSegs"),
            needlessly: grown("TcpExt.TCPDSACKRecv") + grown("TcpExt.TCPDSACKOfoRecv"),
            openings: grown("TcpExt.TCPSynRetrans"),
            probes: grown("TcpExt.TCPLossProbes"),
            timeouts: grown("TcpExt.TCPTimeouts"),
            recovered: grown("TcpExt.TCPLossProbeRecovery"),
        }
    }

    fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// What TCP sent again, as the kernel of one end counts it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Resent {
    /// Segments.
    pub segments: u64,
    /// Of them those that had arrived already: the peer said so (D-SACK).
    pub needlessly: u64,
    /// Of them the first ones of connections.
    pub openings: u64,
    /// How often it asked for news of the last ones by sending one of them again, or a new one.
    pub probes: u64,
    /// How often a sender heard nothing for so long that its timer ran out.
    pub timeouts: u64,
    /// How often such a question made good a loss.
    pub recovered: u64,
}

impl Resent {
    /// Segments that were lost. Those that were sent again although they had arrived come from a busy
    /// machine, unless the timer ran out.
    pub(super) fn lost(&self) -> u64 {
        self.segments.saturating_sub(self.needlessly).max(self.timeouts)
    }

    /// The same of connections that end before it is said that something had arrived already: what was
    /// sent again as a question counts only if it made good a loss.
    pub(super) fn lost_of_short(&self) -> u64 {
        self.timeouts.max(self.openings).max(self.recovered)
    }
}

/// Two lines a protocol: names, then values.
fn parse(text: &str, into: &mut BTreeMap<String, u64>) {
    let lines: Vec<_> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let (Some((protocol, names)), Some((_, values))) =
            (pair[0].split_once(':'), pair[1].split_once(':'))
        else {
            continue;
        };
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let Ok(value) = value.parse() {
                into.insert(format!("{protocol}.{name}"), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernel_s_pairs_of_lines() {
        let mut all = BTreeMap::new();
        parse("Tcp: MaxConn RetransSegs\nTcp: -1 7\nUdp: InErrors\nUdp: 2\n", &mut all);
        assert_eq!(
            all,
            BTreeMap::from([("Tcp.RetransSegs".into(), 7), ("Udp.InErrors".into(), 2)])
        );
    }
}
