//! What the container runtime says.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_agent::fuzzing::runtime(data));

#[cfg(not(fuzzing))]
fn main() {}
