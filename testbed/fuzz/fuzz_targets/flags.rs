//! Flags, the environment and the directory of settings.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_agent::fuzzing::flags(data));

#[cfg(not(fuzzing))]
fn main() {}
