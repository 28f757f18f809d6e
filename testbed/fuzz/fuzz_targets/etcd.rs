//! What flags and files say of etcd.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_agent::fuzzing::etcd(data));

#[cfg(not(fuzzing))]
fn main() {}
