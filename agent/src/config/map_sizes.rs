//! Sizes of the maps for connections and address translation, from settings and the node's memory.

use super::Config;

/// Rows of the maps of connections and of what is translated for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConntrackSizes {
    /// Of each map of TCP connections.
    pub tcp: u32,
    /// Of each map of other connections.
    pub any: u32,
    /// Of each map of address translation.
    pub nat: u32,
}

/// Sizes without a share of the memory.
const FIXED: ConntrackSizes = ConntrackSizes { tcp: 524_288, any: 262_144, nat: 524_288 };
/// Sizes that a small share of the memory does not fall below.
const LEAST: ConntrackSizes = ConntrackSizes { tcp: 131_072, any: 65_536, nat: 131_072 };
/// The most rows of any map.
const MOST: u32 = 1 << 24;

/// Bytes that all maps which share the memory have at their fixed sizes, as Cilium 1.19 reckons:
/// both kinds of connection tracking and address translation at 94 bytes a row, neighbours at 24,
/// sockets at 52.
const FIXED_BYTES: u64 = (524_288 + 262_144 + 524_288) * 94 + 524_288 * 24 + 262_144 * 52;

impl Config {
    /// Sizes of those maps on a node with that much memory, in bytes.
    pub fn conntrack_sizes(&self, memory: u64) -> ConntrackSizes {
        let share = self.bpf_map_dynamic_size_ratio * memory as f64 / FIXED_BYTES as f64;
        let size = |given: Option<u32>, fixed: u32, least: u32| match given {
            Some(rows) => rows,
            None if self.bpf_map_dynamic_size_ratio == 0.0 => fixed,
            // The cast saturates, and then the bound holds.
            None => ((f64::from(fixed) * share) as u32).clamp(least, MOST),
        };
        ConntrackSizes {
            tcp: size(self.bpf_ct_global_tcp_max, FIXED.tcp, LEAST.tcp),
            any: size(self.bpf_ct_global_any_max, FIXED.any, LEAST.any),
            nat: size(self.bpf_nat_global_max, FIXED.nat, LEAST.nat),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_memory_between_bounds() {
        let mut config = Config::defaults();
        for (gigabytes, tcp) in [(1, 131_072), (60, 526_315), (100_000, MOST)] {
            assert_eq!(config.conntrack_sizes(gigabytes * 1_000_000_000).tcp, tcp);
        }
        config.bpf_ct_global_tcp_max = Some(5_000);
        config.bpf_nat_global_max = Some(6_000);
        config.bpf_map_dynamic_size_ratio = 0.0;
        let sizes = config.conntrack_sizes(1 << 40);
        assert_eq!(sizes, ConntrackSizes { tcp: 5_000, any: FIXED.any, nat: 6_000 });
    }
}
