//! For the fuzzer (`testbed/fuzz`): each parser of what others write by one function, which takes bytes
//! and panics over what must not be. Nothing else is for it to be called from elsewhere.

use crate::monitor::fuzzing::records;

/// What runs a parser over bytes.
pub type Parser = fn(&[u8]);

/// What can be fuzzed, by name.
pub const TARGETS: &[(&str, Parser)] = &[("monitor", monitor)];

/// Records of the datapath, as they come over the monitor's socket: the first byte says how long the
/// pieces are.
pub fn monitor(data: &[u8]) {
    records(data);
}

#[cfg(test)]
mod tests;
