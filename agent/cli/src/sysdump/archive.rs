//! The archive of a sysdump: a compressed tar. Everything that goes in passes here, and loses its secrets.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use serde::Serialize;
use serde_json::Value;
use tar::{Builder, Header};

use super::redact::{redact_text, redact_value};

/// An archive that is being written. Without an end it goes.
pub(super) struct Archive {
    path: PathBuf,
    beside: PathBuf,
    directory: String,
    seconds: u64,
    tar: Builder<GzEncoder<File>>,
    is_done: bool,
}

impl Archive {
    /// Begins one. What is in it is in one directory.
    pub(super) fn begin(path: &Path, directory: String, seconds: u64) -> io::Result<Self> {
        let beside = path.with_extension(format!("{}.part", std::process::id()));
        // Names of pods and addresses are nobody else's matter.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        let tar = Builder::new(GzEncoder::new(file, Compression::default()));
        Ok(Self { path: path.to_owned(), beside, directory, seconds, tar, is_done: false })
    }

    /// Adds a text.
    pub(super) fn text(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.add(name, redact_text(text).as_bytes())
    }

    /// Adds a value, as JSON.
    pub(super) fn value(&mut self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let mut value: Value = serde_json::to_value(value)?;
        redact_value(&mut value);
        let text = serde_json::to_string_pretty(&value)?;
        self.add(name, text.as_bytes())
    }

    fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.seconds);
        self.tar.append_data(&mut header, format!("{}/{name}", self.directory), bytes)
    }

    /// Ends it: now it is where it was asked for.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.tar.finish()?;
        let encoder = self.tar.get_mut();
        encoder.try_finish()?;
        encoder.get_mut().flush()?;
        fs::rename(&self.beside, &self.path)?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = fs::remove_file(&self.beside);
        }
    }
}
