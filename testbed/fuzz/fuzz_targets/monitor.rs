//! Records of the datapath.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_cli::fuzzing::monitor(data));

#[cfg(not(fuzzing))]
fn main() {}
