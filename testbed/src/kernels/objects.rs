//! The programs' objects as several versions of clang make them, and loading them with all that may be switched
//! on.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use aya::{Ebpf, EbpfLoader, VerifierLogLevel, programs::Program};
use volvox_bpf_progs::{Features, maps::MAPS, object::HOST_NETNS};

use crate::compile;

/// What the verifier said last.
const LAST_LINES: usize = 8;

/// The oldest and the newest clang of this machine, by their commands.
pub fn clangs() -> Result<Vec<String>> {
    let path = env::var_os("PATH").context("there is no PATH")?;
    let mut numbers = Vec::new();
    for directory in env::split_paths(&path) {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let of = |name: String| name.strip_prefix("clang-")?.parse::<u32>().ok();
        numbers.extend(names.filter_map(of));
    }
    numbers.sort_unstable();
    let ends = numbers.first().into_iter().chain(numbers.last().filter(|_| numbers.len() > 1));
    let mut clangs: Vec<_> = ends.map(|number| format!("clang-{number}")).collect();
    clangs.dedup();
    ensure!(!clangs.is_empty(), "there is no clang-NUMBER in PATH: install the package clang");
    Ok(clangs)
}

/// Puts the objects of each clang below a directory: `CLANG/NAME.o`. They are made once.
pub(super) fn put(place: &Path) -> Result<()> {
    static MADE: Mutex<Option<tempfile::TempDir>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_none() {
        let directory = tempfile::tempdir()?;
        make(directory.path())?;
        *made = Some(directory);
    }
    let Some(made) = &*made else { return Ok(()) };
    for clang in clangs()? {
        fs::create_dir_all(place.join(&clang))?;
        for entry in fs::read_dir(made.path().join(&clang))? {
            let entry = entry?;
            fs::copy(entry.path(), place.join(&clang).join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn make(place: &Path) -> Result<()> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bpf-progs/c");
    for clang in clangs()? {
        let directory = place.join(&clang);
        fs::create_dir_all(&directory)?;
        for name in compile::SOURCES {
            let source = sources.join(name).with_extension("c");
            let source = source.to_str().context("the project's path is no text")?;
            let object = directory.join(name).with_extension("o");
            compile::compile((&clang, "", env::consts::ARCH), source, &object)
                .map_err(|error| anyhow!("{clang}: {error}"))?;
        }
    }
    Ok(())
}

/// All that may be switched on.
pub(super) fn everything() -> Features {
    let dsr = Features { dsr: true, dsr_by_service: true, ..Features::default() };
    Features { policy_stats: true, host_firewall: true, ..dsr }
}

/// What became of each object: an error, or none where all its programs are loaded.
pub(super) type Loaded = BTreeMap<String, Option<String>>;

/// Loads the objects below a directory over the maps that are pinned there, as each clang made them.
pub(super) fn load(place: &Path, maps: &Path) -> Result<BTreeMap<String, Loaded>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(place)? {
        let directory = entry?;
        let mut loaded = Loaded::new();
        for name in compile::SOURCES {
            let object = fs::read(directory.path().join(name).with_extension("o"))?;
            // The verifier's log is costly, and says something only where it refuses.
            let quiet = load_one(&object, maps, VerifierLogLevel::DISABLE);
            let told = quiet.or_else(|_| load_one(&object, maps, VerifierLogLevel::DEBUG));
            let error = told.err().map(|error| last_lines(&format!("{error:#}")));
            loaded.insert(name.to_owned(), error);
        }
        all.insert(directory.file_name().to_string_lossy().into_owned(), loaded);
    }
    Ok(all)
}

fn load_one(object: &[u8], maps: &Path, log: VerifierLogLevel) -> Result<()> {
    let globals = everything().globals();
    let mut loader = EbpfLoader::new();
    loader.verifier_log_level(log);
    for spec in MAPS {
        loader.map_pin_path(spec.name, maps.join(spec.name));
    }
    for (name, value) in &globals {
        loader.override_global(name, value, false);
    }
    let netns = 1_u64;
    loader.override_global(HOST_NETNS, &netns, false);
    let mut loaded: Ebpf = loader.load(object)?;
    for (name, program) in loaded.programs_mut() {
        match program {
            Program::SchedClassifier(program) => program.load(),
            Program::CgroupSockAddr(program) => program.load(),
            Program::CgroupSock(program) => program.load(),
            _ => bail!("{name} is of a kind that the agent does not load"),
        }
        .with_context(|| name.to_owned())?;
    }
    Ok(())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join(" / ")
}
