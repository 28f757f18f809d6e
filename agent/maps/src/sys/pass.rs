//! A program that lets every packet pass, which tests take for somebody else's.

use std::{io, os::fd::OwnedFd};

use super::{
    super::attr::{Command, ProgLoad, short_name},
    address, bpf_fd,
};

/// Loads a program that lets every packet pass and uses no map: what tests take for somebody else's.
pub fn load_pass() -> io::Result<OwnedFd> {
    load_pass_as("")
}

/// The same, of that name.
pub fn load_pass_as(name: &str) -> io::Result<OwnedFd> {
    /// `r0 = 0; exit`
    const PASS: [u64; 2] = [0xb7, 0x95];
    let mut attr = ProgLoad {
        prog_type: 3,
        insn_cnt: PASS.len() as u32,
        insns: address(&PASS),
        license: c"Apache-2.0".as_ptr() as u64,
        prog_name: short_name(name),
        ..ProgLoad::default()
    };
    // SAFETY: the kernel reads `insn_cnt` instructions and a text that ends with NUL.
    unsafe { bpf_fd(Command::ProgLoad, &mut attr) }
}
