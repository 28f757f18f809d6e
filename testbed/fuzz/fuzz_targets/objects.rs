//! Objects of the cluster about nodes, endpoints and identities.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_actors::fuzzing::objects(data));

#[cfg(not(fuzzing))]
fn main() {}
