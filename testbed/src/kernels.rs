//! Other kernels: virtual machines that run kernels of Debian, and what is tried in each: whether it takes the
//! programs, as several versions of clang make them, and whether a node lives through a restart there.
//!
//! The machines are emulated, so nothing of them needs this machine's kernel, and times say nothing.

mod guest;
mod machine;
mod objects;

use std::{env, fs, path::PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use comfy_table::{Table, presets};

use crate::lab::build;
use guest::Findings;
use machine::Kernel;
pub use objects::clangs;

/// What `cargo testbed kernels` is told.
#[derive(Args)]
pub struct Options {
    /// Kernels by their names below; all if none is named
    names: Vec<String>,
    /// What the virtual machine itself is told: where objects are, and findings go
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

/// Where kernels are looked for that `testbed/kernels.sh` fetched: `VOLVOX_KERNELS`, or the cache.
fn place() -> Result<PathBuf> {
    if let Some(place) = env::var_os("VOLVOX_KERNELS") {
        return Ok(place.into());
    }
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    Ok(cache.context("there is no HOME")?.join("volvox/kernels"))
}

/// Names of the kernels that are there; none where none was fetched.
pub fn names() -> Result<Vec<String>> {
    let place = place()?;
    let Ok(entries) = fs::read_dir(&place) else { return Ok(Vec::new()) };
    let all = entries.flatten().filter(|entry| entry.path().join("vmlinuz").exists());
    let mut names: Vec<_> =
        all.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Tries a kernel; what was found there is told, and fails unless all of it is as it should be.
pub fn try_one(name: &str) -> Result<()> {
    let findings = find(name)?;
    volvox_system::say!("{}", table(&[(name.to_owned(), findings.clone())]));
    findings.judge().with_context(|| format!("on kernel {name}"))
}

fn find(name: &str) -> Result<Findings> {
    let kernel = Kernel::open(&place()?.join(name))?;
    let shared = tempfile::tempdir()?;
    objects::put(&shared.path().join("objects"))?;
    let text = kernel.run(shared.path())?;
    serde_json::from_str(&text).with_context(|| format!("what {name} found: {text}"))
}

/// Tries all that are named, and prints the table.
pub fn run(options: &Options) -> Result<i32> {
    if let Some(place) = &options.inside {
        return guest::run(place);
    }
    let there = names()?;
    ensure!(!there.is_empty(), "no kernels are there: run testbed/kernels.sh {:?}", place()?);
    if let Some(unknown) = options.names.iter().find(|name| !there.contains(name)) {
        bail!("there is no kernel {unknown}; there are {}", there.join(", "));
    }
    build::build()?;
    let wanted = if options.names.is_empty() { &there } else { &options.names };
    let mut rows = Vec::new();
    for name in wanted {
        rows.push((name.clone(), find(name)?));
    }
    volvox_system::say!("{}", table(&rows));
    for (name, findings) in &rows {
        findings.judge().with_context(|| format!("on kernel {name}"))?;
    }
    Ok(0)
}

fn table(rows: &[(String, Findings)]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let clangs = rows.first().map(|(_, findings)| &findings.objects);
    let clangs = clangs.into_iter().flatten().map(|(clang, _)| format!("objects by {clang}"));
    let rest = ["agent", "programs by", "restarts", "lost", "forbidden"].map(str::to_owned);
    let head = ["kernel", "Linux"].map(str::to_owned).into_iter();
    table.set_header(head.chain(clangs).chain(rest));
    for (name, findings) in rows {
        let objects = findings.objects.values().map(|object| {
            let loaded = object.values().filter(|error| error.is_none()).count();
            format!("{loaded} of {}", object.len())
        });
        let rest = [
            findings.state.clone(),
            findings.modes.join(", "),
            findings.restarts.to_string(),
            format!("{} of {}", findings.lost, findings.sent),
            findings.forbidden.to_string(),
        ];
        let head = [name.clone(), findings.release.clone()].into_iter();
        table.add_row(head.chain(objects).chain(rest));
    }
    table
}
