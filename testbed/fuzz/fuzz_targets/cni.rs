//! What a runtime tells the CNI plugin.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_cni::fuzzing::cni(data));

#[cfg(not(fuzzing))]
fn main() {}
