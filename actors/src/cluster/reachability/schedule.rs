//! How often addresses are probed, by how many there are.
//!
//! | addresses | echo requests a second | each address every | named after, at most | HTTP, each every |
//! |---|---|---|---|---|
//! | 2 (a node alone) | 0.2 | 10 s | 18 s | 66 s |
//! | 200 (100 nodes) | 20 | 10 s | 18 s | 5 min 18 s |
//! | 2,000 (1,000 nodes) | 200 | 10 s | 18 s | 7 min 36 s |
//! | 10,000 (5,000 nodes) | 500 | 20 s | 28 s | 9 min 13 s |
//!
//! Echo requests never exceed [`ECHOES_PER_SECOND`], 50 kB a second; HTTP requests never exceed
//! [`HELLOS_PER_SECOND`]. A node receives as many as it sends. From 11,000 addresses on it takes longer than
//! half a minute until one is named.

use std::time::Duration;

/// How often an address is sent an echo request, at most.
const ECHO_EVERY: Duration = Duration::from_secs(10);
/// How many echo requests are sent in a second, at most.
pub const ECHOES_PER_SECOND: u32 = 500;
/// How many HTTP requests are begun in a second, at most.
pub const HELLOS_PER_SECOND: u32 = 40;
/// How many HTTP requests are under way, at most.
pub(super) const HELLOS_MAX: usize = 64;
/// How long an echo may take after the last request; an answer by HTTP may take as long as with Cilium.
pub(super) const ECHO_PATIENCE: Duration = Duration::from_millis(1500);
pub(super) const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// So many failures in a row are believed.
pub(super) const BELIEVED: u32 = 3;
/// When one that failed is tried again before that,
pub(super) const ECHO_AGAIN: Duration = Duration::from_secs(1);
pub(super) const HELLO_AGAIN: Duration = Duration::from_secs(3);
/// and how often after it by HTTP, unless that is later than in any case.
pub(super) const HELLO_UNANSWERED: Duration = Duration::from_secs(30);
/// Twice in a second it is looked which probes are due.
pub(super) const TICK: Duration = Duration::from_millis(500);
/// How often it is asked which nodes there are.
pub(super) const NODES_EVERY: Duration = Duration::from_secs(15);

/// How often each of so many addresses is sent an echo request.
pub fn echo_every(addresses: usize) -> Duration {
    let paced = addresses as f64 / f64::from(ECHOES_PER_SECOND);
    ECHO_EVERY.max(Duration::from_secs_f64(paced))
}

/// How often each of so many addresses is asked by HTTP: as Cilium has it, `--connectivity-probe-frequency-ratio`
/// from 0 (more often) to 1 (more seldom).
pub fn interval(ratio: f64, addresses: usize) -> Duration {
    let base = 10.0 + 100.0 * ratio;
    let factor = if addresses == 0 { 1.0 } else { (1.0 + addresses as f64).ln() };
    Duration::from_secs_f64(base * factor)
}

/// How much longer each of so many lasts until an address that does not answer any more is named.
pub fn named_after(addresses: usize) -> Duration {
    let tries = (ECHO_PATIENCE + TICK) * BELIEVED;
    echo_every(addresses) + tries + ECHO_AGAIN * (BELIEVED - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cilium_s_interval_is_kept() {
        let seconds = |count| interval(0.5, count).as_secs_f64();
        assert!((seconds(4) - 96.566_274_7).abs() < 1e-6, "{}", seconds(4));
        assert_eq!(interval(0.5, 0), Duration::from_secs(60));
        assert!(interval(0.0, 4) < interval(0.5, 4) && interval(0.5, 4) < interval(1.0, 4));
    }

    #[test]
    fn five_thousand_nodes_are_not_flooded_and_are_named_within_half_a_minute() {
        for addresses in [1, 2, 200, 2_000, 10_000, 100_000] {
            let a_second = addresses as f64 / echo_every(addresses).as_secs_f64();
            assert!(a_second <= f64::from(ECHOES_PER_SECOND) + 1e-6, "{a_second}");
        }
        assert!(named_after(2) <= Duration::from_secs(18));
        assert!(named_after(10_000) <= Duration::from_secs(28));
        assert!(10_000.0 / interval(0.0, 10_000).as_secs_f64() > f64::from(HELLOS_PER_SECOND));
        assert!(10_000.0 / interval(0.5, 10_000).as_secs_f64() < f64::from(HELLOS_PER_SECOND));
    }
}
