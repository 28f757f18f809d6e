//! The text of a manifest.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_agent::fuzzing::manifests(data));

#[cfg(not(fuzzing))]
fn main() {}
