//! Cookies of policy rows: from the clauses behind a row to its number.

use std::collections::BTreeSet;

use super::ClauseOrigin;

const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

/// The number that names a set of clauses in rows and verdict records: FNV-1a over where they are
/// written, sorted. It is the same in every life of the agent; 0 is the empty set's alone.
pub(super) fn cookie(origins: &BTreeSet<&ClauseOrigin>) -> u32 {
    if origins.is_empty() {
        return 0;
    }
    let mut hash = FNV_OFFSET;
    let mut eat = |text: &str| {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u32::from(byte)).wrapping_mul(FNV_PRIME);
        }
    };
    for origin in origins {
        eat(&origin.source);
        eat(&origin.policy.to_string());
        eat(&origin.path);
    }
    hash.max(1)
}
