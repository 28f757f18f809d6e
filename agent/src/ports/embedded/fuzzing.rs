//! For the fuzzer: the embedded store's file.

use std::{fs, os::unix::fs::FileExt, path::Path, sync::OnceLock};

use volvox_actors::ports::{Put, Transaction};

use super::file::{Answer, File, Job};

/// Pairs that the store has before it is damaged.
const PAIRS: usize = 40;

fn put(file: &mut File, key: String) -> bool {
    let put = Put { key, value: vec![7; 100], lease: None };
    file.work(Job::Commit(Transaction { puts: vec![put], ..Transaction::default() })).answer.is_ok()
}

fn keys(file: &mut File) -> Option<usize> {
    match file.work(Job::List(String::new())).answer {
        Ok(Answer::Listing(listing)) => Some(listing.pairs.len()),
        _ => None,
    }
}

/// A store's file, damaged as the bytes say: each eight of them name a place and what stands there, but
/// for the first two, which say where the file ends. It is read or put aside, and works on.
pub(crate) fn store(dir: &Path, data: &[u8]) {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    let whole = WHOLE.get_or_init(|| {
        let path = dir.join("whole.redb");
        let mut file = File::new(&path);
        (0..PAIRS).for_each(|nth| assert!(put(&mut file, format!("key/{nth}"))));
        drop(file);
        fs::read(&path).expect("it was just written")
    });
    crate::fuzzing::pass_guarded();
    let [low, high, rest @ ..] = data else { return };
    let path = dir.join("store.redb");
    for old in fs::read_dir(dir).into_iter().flatten().flatten() {
        if old.file_name().to_string_lossy().starts_with("store.") {
            let _ = fs::remove_file(old.path());
        }
    }
    fs::write(&path, whole).expect("there is room");
    let on_disk = fs::File::options().write(true).open(&path).expect("it was just written");
    for patch in rest.chunks_exact(8) {
        let at = u32::from_le_bytes([patch[0], patch[1], patch[2], 0]);
        let within = if patch[3] & 1 == 0 { whole.len() } else { whole.len().min(1 << 15) };
        let at = u64::from(at) % within as u64;
        on_disk.write_all_at(&patch[4..], at).expect("there is room");
    }
    // Zero leaves it as long as it is.
    let cut = u64::from(u16::from_le_bytes([*low, *high]));
    if cut > 0 {
        on_disk.set_len((whole.len() as u64 * cut) >> 16).expect("it can be cut");
    }
    drop(on_disk);
    let mut file = File::new(&path);
    assert!(keys(&mut file).is_some(), "the store is neither read nor put aside");
    // What is only found when it is written puts the file aside then, at the latest the second time.
    assert!((0..3).any(|_| put(&mut file, "more".to_owned())), "it can never be written");
    drop(file);
    assert!(keys(&mut File::new(&path)).is_some_and(|retained| retained > 0), "nothing was kept");
}
