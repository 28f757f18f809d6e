//! A browser in the lab: headless Chromium, told what to do through the pipe of its debugger.
//!
//! The protocol is one JSON text a message, ended by a zero byte; the few commands that tests of a
//! page need are here. Libraries for it bring the whole protocol, thousands of types, and a runtime.

mod page;
mod pipe;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

pub use page::Page;

use self::pipe::Pipe;

/// Programs that are the browser, the smallest first.
const PROGRAMS: [&str; 5] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome"];

/// No sandbox, as the lab is root's and one; nothing of what browsers do by themselves.
const FLAGS: [&str; 14] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// A running browser. Dropped, it ends.
pub struct Browser {
    pipe: Pipe,
}

impl Browser {
    /// Starts it; `profile` is a directory that it may fill.
    pub fn start(profile: &Path) -> Result<Self> {
        let program = program()?;
        // The debugger speaks on descriptors 3 and 4; a shell puts our pipes there.
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>&1", "sh"])
            .arg(program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank");
        Ok(Self { pipe: Pipe::start(command)? })
    }

    /// Its page.
    pub fn page(&mut self) -> Result<Page<'_>> {
        Page::attach(&mut self.pipe)
    }
}

fn program() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| PROGRAMS.map(|name| folder.join(name)))
        .find(|program| program.is_file())
        .with_context(|| format!("no browser: install one of {}", PROGRAMS.join(", ")))
}
