//! How clang makes an object of a source. The crate's build uses it, and who tries other versions of clang.

use std::io;
use std::path::Path;
use std::process::Command;

/// Sources in `c`, each of which makes an object.
pub(crate) const SOURCES: [&str; 4] = ["endpoint", "socket", "device", "overlay"];

/// Makes an object, by that clang with these further flags, to be loaded on machines of that architecture.
pub(crate) fn compile(
    (clang, further, arch): (&str, &str, &str),
    source: &str,
    object: &Path,
) -> Result<(), String> {
    if !Path::new("/usr/include/bpf/bpf_helpers.h").exists() {
        return Err("bpf/bpf_helpers.h is missing; install the package libbpf-dev".into());
    }
    let status = Command::new(clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        // Packets are read through pointers of many types.
        .arg("-fno-strict-aliasing")
        // The same sources make the same object wherever they lie.
        .args(["-fdebug-compilation-dir=.", "-c", source, "-o"])
        .arg(object)
        // Where Debian keeps `asm/types.h`, which clang does not look for when the target is BPF.
        .args(["-idirafter", &format!("/usr/include/{arch}-linux-gnu")])
        .args(further.split_whitespace())
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
