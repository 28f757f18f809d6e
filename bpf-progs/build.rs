//! Compiles the programs in `c` with clang, and hashes what comes out.

#![allow(clippy::print_stdout, reason = "that is how cargo is told")]

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Sources in `c`, each of which makes an object.
const SOURCES: [&str; 4] = ["endpoint", "socket", "device", "overlay"];

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=VOLVOX_BPF_CFLAGS");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let objects = SOURCES.map(|name| out.join(name).with_extension("o"));
    for (name, object) in SOURCES.iter().zip(&objects) {
        if let Err(reason) = compile(&format!("c/{name}.c"), object) {
            println!("cargo::error=cannot build c/{name}.c: {reason}");
            return;
        }
    }
    if let Err(reason) = hash(&objects, &out.join("hash.rs")) {
        println!("cargo::error=cannot hash the objects: {reason}");
    }
}

fn compile(source: &str, object: &Path) -> Result<(), String> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    if !Path::new("/usr/include/bpf/bpf_helpers.h").exists() {
        return Err("bpf/bpf_helpers.h is missing; install the package libbpf-dev".into());
    }
    let status = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        // Packets are read through pointers of many types.
        .arg("-fno-strict-aliasing")
        // The same sources make the same object wherever they lie.
        .args(["-fdebug-compilation-dir=.", "-c", source, "-o"])
        .arg(object)
        .args(["-idirafter", &kernel_headers()])
        // Further flags; with them, builds of other programs from the same sources.
        .args(env::var("VOLVOX_BPF_CFLAGS").unwrap_or_default().split_whitespace())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{clang} failed ({status})")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("{clang} is not installed; install the package clang, or set CLANG"))
        }
        Err(error) => Err(format!("{clang} does not start: {error}")),
    }
}

/// Where Debian keeps `asm/types.h`, which clang does not look for when the target is BPF.
fn kernel_headers() -> String {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    format!("/usr/include/{arch}-linux-gnu")
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
