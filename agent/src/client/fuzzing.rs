//! For the fuzzer: what the client reads.

/// Records of the datapath, as they come over the monitor's socket: the first byte says how long the
/// pieces are.
pub(crate) fn records(data: &[u8]) {
    super::monitor::fuzzing::records(data);
}
