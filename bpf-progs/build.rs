//! Compiles the programs in `c` with clang, and hashes what comes out.

#![allow(clippy::print_stdout, reason = "that is how cargo is told")]

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::{env, fs};

mod compile;

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=compile.rs");
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=VOLVOX_BPF_CFLAGS");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    // Further flags; with them, builds of other programs from the same sources.
    let further = env::var("VOLVOX_BPF_CFLAGS").unwrap_or_default();
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let objects = compile::SOURCES.map(|name| out.join(name).with_extension("o"));
    for (name, object) in compile::SOURCES.iter().zip(&objects) {
        if let Err(reason) =
            compile::compile((&clang, &further, &arch), &format!("c/{name}.c"), object)
        {
            println!("cargo::error=cannot build c/{name}.c: {reason}");
            return;
        }
    }
    if let Err(reason) = hash(&objects, &out.join("hash.rs")) {
        println!("cargo::error=cannot hash the objects: {reason}");
    }
}

fn hash(objects: &[PathBuf], to: &Path) -> Result<(), String> {
    let mut hash = Sha256::new();
    for object in objects {
        let bytes = fs::read(object).map_err(|error| format!("{}: {error}", object.display()))?;
        hash.update(bytes);
    }
    let digest: [u8; 32] = hash.finalize().into();
    fs::write(to, format!("{digest:?}")).map_err(|error| format!("{}: {error}", to.display()))
}
