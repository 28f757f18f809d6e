//! Building the programs under test. Needs cargo and the whole machine: not for inside the lab.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::binaries;

/// Flags that make clang write other instructions for the same sources.
const OTHER: &str = "-Os";

/// The packages of the other programs.
const BESIDE: [&str; 2] = ["--package=volvox-cli", "--package=volvox-operator"];

/// The plugin as it goes to nodes, whose C library is another's: it needs none of it, and starts sooner. The same
/// words stand in `agent/packaging/build`.
const STATIC: [&str; 4] = ["--bin=volvox-cni", "--", "-C", "target-feature=+crt-static"];

/// What brings mutants into a release: see [`volvox_actors::mutants`]. Other builds have them.
const MUTANTS: [&str; 2] = [
    "--config=profile.release.package.volvox-actors.debug-assertions=true",
    "--config=profile.release.package.volvox-agent.debug-assertions=true",
];

/// The agent whose programs differ, beside the usual one.
const OTHER_AGENT: &str = "volvox-agent-other";

/// Builds the programs when cargo started this one, in the same profile; cargo itself only built
/// this one. Without cargo the scripts have built them.
pub fn build() -> Result<()> {
    if env::var_os("CARGO").is_none() {
        return Ok(());
    }
    cargo(None)
}

/// Builds an agent whose programs differ, and in which known bugs can be switched in, unless there is one that
/// is newer than the usual agent. Compiles the agent twice.
pub fn build_other() -> Result<()> {
    let directory = binaries::directory()?;
    let (usual, other) = (directory.join("volvox-agent"), directory.join(OTHER_AGENT));
    if age(&other).zip(age(&usual)).is_some_and(|(other, usual)| other > usual) {
        return Ok(());
    }
    cargo(Some(OTHER))?;
    let built = directory.join("built-other");
    fs::copy(&usual, &built)?;
    // The usual one is put back first: the copy must come out newer.
    cargo(None)?;
    fs::copy(&built, &other)?;
    fs::remove_file(&built)?;
    Ok(())
}

/// The agent of [`build_other`].
pub fn other_agent() -> Result<PathBuf> {
    let path = binaries::directory()?.join(OTHER_AGENT);
    ensure!(
        path.is_file(),
        "{} is missing: put another build of the agent there, or in a checkout run `cargo run -p \
         volvox-testbed -- other-agent`",
        path.display()
    );
    Ok(path)
}

fn age(path: &Path) -> Option<std::time::SystemTime> {
    fs::metadata(path).and_then(|found| found.modified()).ok()
}

fn cargo(bpf_flags: Option<&str>) -> Result<()> {
    let release = binaries::directory()?.ends_with("release");
    let mut agent = vec!["build", "--bins", "--package=volvox-agent"];
    // As this one was built: otherwise all that both need would be built anew.
    agent.extend(cfg!(feature = "etcd-rs").then_some("--features=volvox-agent/etcd-rs"));
    // Of another agent nobody wants the other programs.
    if bpf_flags.is_some() {
        agent.extend(if release { &MUTANTS[..] } else { &[] });
        return run(&agent, release, bpf_flags);
    }
    agent.extend(BESIDE);
    if release {
        run(&agent, release, None)?;
        return run(&[&["rustc", "--package=volvox-cni"], &STATIC[..]].concat(), release, None);
    }
    agent.push("--package=volvox-cni");
    run(&agent, release, None)
}

/// Without flags the environment stays as cargo itself saw it: an empty variable is another one than
/// none, and would build everything anew each time.
fn run(arguments: &[&str], release: bool, bpf_flags: Option<&str>) -> Result<()> {
    let (verb, rest) = arguments.split_first().context("no verb")?;
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([*verb, "--quiet", "--profile", if release { "release" } else { "dev" }])
        .args(rest)
        .envs(bpf_flags.map(|flags| ("VOLVOX_BPF_CFLAGS", flags)))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .context("cannot start cargo, which builds the programs")?;
    ensure!(status.success(), "cargo cannot build the programs");
    Ok(())
}
