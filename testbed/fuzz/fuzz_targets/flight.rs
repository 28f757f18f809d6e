//! A flight recorder's ring.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_actors::fuzzing::flight(data));

#[cfg(not(fuzzing))]
fn main() {}
