//! Policies and groups of prefixes.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_actors::fuzzing::policies(data));

#[cfg(not(fuzzing))]
fn main() {}
