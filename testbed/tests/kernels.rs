//! Other kernels, each in a virtual machine: they take the programs of two versions of clang, and a node that is
//! restarted there loses nothing, by links and by filters.

use volvox_testbed::kernels;

fn try_one(name: &str) {
    let there = kernels::names().expect("the place of kernels is known");
    if !there.iter().any(|there| there == name) {
        volvox_system::say!("SKIPPED: run testbed/kernels.sh, which fetches the kernel of {name}");
        return;
    }
    if let Err(error) = kernels::try_one(name) {
        panic!("{error:#}");
    }
}

/// Linux 6.1, which has no TCX.
#[test]
fn the_kernel_of_debian_12() {
    try_one("bookworm");
}

#[test]
fn the_kernel_of_debian_13() {
    try_one("trixie");
}

#[test]
fn the_newest_kernel_of_debian() {
    try_one("trixie-backports");
}
