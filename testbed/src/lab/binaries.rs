//! The programs under test.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// The agent's programs, found beside the program that is running.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// `volvox-agent`.
    pub agent: PathBuf,
    /// `volvox`, the client.
    pub client: PathBuf,
    /// `volvox-cni`, the plugin.
    pub cni: PathBuf,
}

impl Binaries {
    /// Those of the build that the running program comes from.
    pub fn find() -> Result<Self> {
        let directory = directory()?;
        let find = |name: &str| {
            let path = directory.join(name);
            if !path.is_file() {
                bail!("{} is missing: run `cargo build --workspace --bins`", path.display());
            }
            Ok(path)
        };
        Ok(Self { agent: find("volvox-agent")?, client: find("volvox")?, cni: find("volvox-cni")? })
    }

    /// The same with another agent.
    pub fn with_agent(&self, agent: &Path) -> Self {
        Self { agent: agent.into(), ..self.clone() }
    }
}

/// Where cargo puts programs of the running program's profile.
pub(super) fn directory() -> Result<PathBuf> {
    let program = env::current_exe().context("cannot find this program")?;
    let directory = program.parent().context("this program is in no directory")?;
    // A test program lies one level below.
    Ok(match directory.file_name() {
        Some(name) if name == "deps" => directory.parent().unwrap_or(directory),
        _ => directory,
    }
    .into())
}
