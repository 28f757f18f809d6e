//! For the fuzzer (`testbed/fuzz`): each parser of what others write by one function, which takes bytes
//! and panics over what must not be. Nothing else is for it to be called from elsewhere.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs, panic,
    path::{Path, PathBuf},
    process,
    sync::{Once, OnceLock},
    time::Duration,
};

use volvox_actors::host::flight;
use volvox_inspect::{
    dashboard::Opened,
    evidence::{Evidence, PastLife},
    manifests::objects,
    trace::{Selection, Story, lines, otlp, perfetto},
};
use volvox_rest::delete_queue::DeleteQueue;

use crate::{
    api, config, datapath,
    guarded::is_guarded,
    ports::embedded,
    remembered::{self, Remembered},
};

/// What runs a parser over bytes.
pub type Parser = fn(&[u8]);

/// What can be fuzzed, by name.
pub const TARGETS: &[(&str, Parser)] = &[
    ("bodies", bodies),
    ("etcd", etcd),
    ("events", events),
    ("flags", flags),
    ("manifests", manifests),
    ("remains", remains),
    ("rows", rows),
    ("runtime", runtime),
    ("store", store),
    ("trace", trace),
];

/// A directory of this process. Who has it in memory (`TMPDIR`) is faster.
fn scratch() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let path = env::temp_dir().join(format!("volvox-fuzz-{}", process::id()));
        fs::create_dir_all(&path).expect("a directory for the fuzzer");
        path
    })
}

/// A panic that somebody takes for an error is none to the fuzzer either, whose hook ends the process.
pub(crate) fn pass_guarded() {
    static PASSED: Once = Once::new();
    PASSED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !is_guarded() {
                before(panic);
            }
        }));
    });
}

/// Bodies of requests to the API.
pub fn bodies(data: &[u8]) {
    api::fuzzing::bodies(data);
}

/// What is said of etcd.
pub fn etcd(data: &[u8]) {
    volvox_etcd::fuzzing::etcd(scratch(), data);
}

/// What the container runtime says.
pub fn runtime(data: &[u8]) {
    volvox_containerd::fuzzing::runtime(data);
}

/// What an API server says.
pub fn events(data: &[u8]) {
    volvox_cluster::fuzzing::events(data);
}

/// Flags, one a line. Those that stand in the environment begin with a capital; in a line `file NAME VALUE`
/// stands what a file of the directory of settings says.
pub fn flags(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let dir = scratch().join("settings");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("there is room");
    let (mut arguments, mut variables) = (vec![OsString::from("volvox-agent")], BTreeMap::new());
    for line in text.lines() {
        let words: Vec<_> = line.splitn(3, ' ').collect();
        match (&words[..], line.split_once('=')) {
            // Which directory is read is not for the input to say.
            _ if line.to_lowercase().replace('_', "-").contains("config-d") => {}
            (["file", name, value], _) if !name.contains('/') && !name.contains('\0') => {
                let _ = fs::write(dir.join(name), value);
            }
            (_, Some((name, value))) if line.starts_with(|c: char| c.is_ascii_uppercase()) => {
                variables.insert(name.to_owned(), OsString::from(value));
            }
            _ => arguments.push(line.into()),
        }
    }
    variables.insert("VOLVOX_CONFIG_DIR".to_owned(), dir.into());
    match config::load(arguments, |name| variables.get(name).cloned()) {
        Ok(loaded) => drop(loaded.warnings),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The text of a manifest.
pub fn manifests(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match objects(&text) {
        Ok(objects) => assert!(objects.len() <= data.len(), "more objects than bytes"),
        Err(error) => assert!(!error.is_empty()),
    }
}

/// Files that earlier runs and other programs left: who the others were, how a life restored, who was
/// lost, and deletions in the queue.
pub fn remains(data: &[u8]) {
    let dir = scratch().join("remains");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("lives")).expect("there is room");
    let write = |name: &str| {
        let path = dir.join(name);
        fs::write(&path, data).expect("there is room");
        path
    };
    let remembered = Remembered::read(&write(remembered::FILE));
    let bytes = serde_json::to_vec(&remembered).expect("plain data");
    fs::write(dir.join(remembered::FILE), bytes).expect("there is room");
    assert_eq!(Remembered::read(&dir.join(remembered::FILE)), remembered);
    let evidence = Evidence::at(&dir);
    write("lives/7.json");
    write("lives/lost.json");
    evidence.lost("boot");
    if let Some(life) = evidence.life(7) {
        let number = life.number;
        evidence.note(&life).expect("there is room");
        assert_eq!(evidence.life(number), Some(life));
    }
    evidence.note(&PastLife::default()).expect("there is room");
    let queue = dir.join("queue");
    fs::create_dir_all(&queue).expect("there is room");
    fs::write(queue.join("1.delete"), data).expect("there is room");
    let held = DeleteQueue::at(&queue).hold(Duration::from_secs(1)).expect("nobody else has it");
    let (entries, bad) = held.read().expect("it can be read");
    assert_eq!(entries.len() + bad.len(), 1, "a deletion is neither wanted nor put aside");
    bad.iter().for_each(|it| assert!(!it.cause.is_empty()));
}

/// Rows of maps.
pub fn rows(data: &[u8]) {
    datapath::fuzzing::rows(data);
}

/// The embedded store's file.
pub fn store(data: &[u8]) {
    embedded::fuzzing::store(scratch(), data);
}

/// A flight recorder's ring or what was exported from one, as the page opens it and as it is told.
pub fn trace(data: &[u8]) {
    let path = scratch().join("opened");
    fs::write(&path, data).expect("there is room");
    if let Err(error) = Opened::read(&path) {
        assert!(error.to_string().contains("opened"), "{error}");
    }
    let flight = serde_json::from_slice(data).ok().or_else(|| flight::read(data, 0).ok());
    let Some(flight): Option<flight::Flight> = flight else { return };
    let story = Story::new(&flight);
    let selection = Selection { endpoint: Some(12), root: None, since: None };
    let some = selection.of(&story, story.end());
    let since = Some(Duration::from_secs(1));
    let all = Selection { since, ..Selection::default() }.of(&story, story.end());
    for events in [&some, &all] {
        lines(&story, events);
        otlp(&story, events);
        perfetto(&story, events);
        events.iter().for_each(|event| drop(story.back(event)));
    }
    story.chain(12);
    story.state(12);
    story.regenerated(12);
    story.open_waits().count();
}

#[cfg(test)]
mod tests;
