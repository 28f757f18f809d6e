//! Files that earlier runs and other programs left.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_agent::fuzzing::remains(data));

#[cfg(not(fuzzing))]
fn main() {}
