//! State files in two alternating copies: a torn write leaves the other copy.

use std::{marker::PhantomData, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{StateError, StateFiles, seal};
use crate::ports::FsOp;

/// A file kept twice: each writing replaces the older copy, so the previous one always remains.
/// Fields of `T`, and of what is in it, stand in the order of their names, as they are written.
#[derive(Debug)]
pub struct Slots<T> {
    stem: &'static str,
    kind: PhantomData<fn() -> T>,
}

/// What a double file held.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored<T> {
    /// The newest copy that holds, if any does.
    pub value: Option<T>,
    /// Which writing that was; the next is one more. 0 if there is none.
    pub generation: u32,
    /// What is wrong with the others. Without a value, all was lost.
    pub errors: Vec<StateError>,
}

impl<T> Stored<T> {
    /// Whether a copy is there and could not be read: it may be newer than the value.
    pub fn is_unread(&self) -> bool {
        self.errors.iter().any(StateError::is_unread)
    }
}

impl<T: Serialize + for<'de> Deserialize<'de>> Slots<T> {
    /// The files `<stem>.0.json` and `<stem>.1.json`.
    pub(super) const fn new(stem: &'static str) -> Self {
        Self { stem, kind: PhantomData }
    }

    /// Both files' paths.
    pub fn paths(&self) -> [String; 2] {
        [0, 1].map(|slot| self.path(slot))
    }

    /// Writes a value as that generation.
    pub fn save(&self, value: &T, generation: u32) -> FsOp {
        FsOp::Write {
            path: PathBuf::from(self.path(generation)),
            bytes: seal::seal_sorted(value, generation),
        }
    }

    /// Reads the newest copy that holds.
    pub fn load(&self, files: &impl StateFiles) -> Stored<T> {
        self.load_of(files, |_| true)
    }

    /// Reads the newest copy of those that count.
    pub(super) fn load_of(
        &self,
        files: &impl StateFiles,
        counts: impl Fn(&T) -> bool,
    ) -> Stored<T> {
        let mut stored = Stored { value: None, generation: 0, errors: Vec::new() };
        for path in self.paths() {
            match read_copy(&path, files) {
                Ok(Some((value, generation)))
                    if counts(&value)
                        && (stored.value.is_none() || is_later(generation, stored.generation)) =>
                {
                    (stored.value, stored.generation) = (Some(value), generation);
                }
                Ok(_) => {}
                Err(error) => stored.errors.push(error),
            }
        }
        stored
    }

    fn path(&self, generation: u32) -> String {
        format!("{}.{}.json", self.stem, generation & 1)
    }
}

fn read_copy<T: for<'de> Deserialize<'de>>(
    path: &str,
    files: &impl StateFiles,
) -> Result<Option<(T, u32)>, StateError> {
    let unreadable = |cause| StateError::Unreadable { file: path.to_owned(), cause };
    let Some(bytes) = files.read(path).map_err(unreadable)? else { return Ok(None) };
    let (value, stamp) = seal::open(path, &bytes)?;
    let stamp = stamp.ok_or_else(|| StateError::Syntax {
        file: path.to_owned(),
        cause: "it has no checksum".to_owned(),
    })?;
    Ok(Some((value, stamp.generation)))
}

/// Whether one generation comes after another, also when the counter wrapped.
fn is_later(generation: u32, than: u32) -> bool {
    generation.wrapping_sub(than).cast_signed() > 0
}
