//! Pairs of the store.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_actors::fuzzing::pairs(data));

#[cfg(not(fuzzing))]
fn main() {}
