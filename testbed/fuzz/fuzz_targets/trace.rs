//! What a flight recorder tells, as it is shown.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_agent::fuzzing::trace(data));

#[cfg(not(fuzzing))]
fn main() {}
