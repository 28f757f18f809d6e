//! Flows: records, requests, filters and names.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_hubble::fuzzing::flows(data));

#[cfg(not(fuzzing))]
fn main() {}
