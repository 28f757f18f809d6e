//! Datagrams of the kernel.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| volvox_system::fuzzing::netlink(data));

#[cfg(not(fuzzing))]
fn main() {}
