//! The programs under test.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// The agent's programs, found beside the program that is running, or where somebody says.
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
                bail!(
                    "{} is missing: put it there, or name the directory of Volvox's programs by \
                     {PROGRAMS}; in a checkout, `cargo build --workspace --bins` builds it",
                    path.display()
                );
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

/// Names the directory of the programs under test, if it is not the running program's own.
const PROGRAMS: &str = "VOLVOX_PROGRAMS";

/// Where they are: where somebody says, or beside the running program, as cargo and packages put them.
pub(super) fn directory() -> Result<PathBuf> {
    if let Some(named) = env::var_os(PROGRAMS) {
        return Ok(named.into());
    }
    let program = env::current_exe().context("cannot find this program")?;
    let directory = program.parent().context("this program is in no directory")?;
    // A test program lies one level below.
    Ok(match directory.file_name() {
        Some(name) if name == "deps" => directory.parent().unwrap_or(directory),
        _ => directory,
    }
    .into())
}
