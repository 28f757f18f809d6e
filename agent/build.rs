//! Says which commit a program was built from, for its `--version`. Only release builds tell it: others
//! would be compiled anew at every commit.

#![allow(clippy::print_stdout, reason = "that is how cargo is told")]

use std::{env, path::Path, process::Command};

fn main() {
    // Of the agent's own package, or of one below it. A file that is missing has cargo compile all anew each time.
    let own = ["build.rs", "../build.rs"].into_iter().find(|path| Path::new(path).exists());
    println!("cargo::rerun-if-changed={}", own.expect("cargo has just built it"));
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets CARGO_PKG_VERSION");
    let version = match env::var("PROFILE").as_deref() {
        Ok("release") => format!("{version} ({})", commit()),
        _ => version,
    };
    println!("cargo::rustc-env=VOLVOX_VERSION={version}");
}

/// The commit that is checked out; cargo asks again when it is another one.
fn commit() -> String {
    // It has a line for every move of HEAD, also where branches are packed into one file.
    if let Some(moves) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&moves).exists()
    {
        println!("cargo::rerun-if-changed={moves}");
    }
    git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned())
}

/// What git answers, unless it is missing or this is no checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
