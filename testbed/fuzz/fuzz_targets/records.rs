//! An endpoint's record.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_actors::fuzzing::records(data));

#[cfg(not(fuzzing))]
fn main() {}
