//! All files of a state directory.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_actors::fuzzing::state_directory(data));

#[cfg(not(fuzzing))]
fn main() {}
