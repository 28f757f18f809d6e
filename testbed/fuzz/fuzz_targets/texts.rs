//! Texts of flags, paths and members.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_actors::fuzzing::texts(data));

#[cfg(not(fuzzing))]
fn main() {}
