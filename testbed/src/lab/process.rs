//! A running agent or server, seen from outside.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::{sys, wait_for};

/// One life of it. Dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// When it was started.
    pub started: Instant,
}

/// What a process used.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Processor time of all its threads.
    pub cpu: Duration,
    /// Memory that is resident (`VmRSS`), bytes.
    pub memory: u64,
    /// Most memory that was resident at once (`VmHWM`), bytes.
    pub memory_peak: u64,
}

impl Process {
    /// Starts `program`; what it prints goes to the end of `log`.
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> Result<Self> {
        Self::start_with(program, arguments, log, &BTreeMap::new())
    }

    /// The same with variables of the environment that are not this process's.
    pub(super) fn start_with(
        program: &Path,
        arguments: &[String],
        log: &Path,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot open {}", log.display()))?;
        let started = Instant::now();
        let child = Command::new(program)
            .args(arguments)
            .envs(environment)
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, started })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it used so far.
    pub fn usage(&self) -> Result<Usage> {
        let file = format!("/proc/{}/status", self.pid());
        let status = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        let bytes = |name: &str| -> Result<u64> {
            let row = status.lines().find_map(|line| line.strip_prefix(name));
            let kilobytes =
                row.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok());
            let kilobytes: u64 =
                kilobytes.with_context(|| format!("{file} has no {name} the process has ended"))?;
            Ok(kilobytes * 1024)
        };
        Ok(Usage {
            cpu: sys::cpu_time(self.pid())?,
            memory: bytes("VmRSS:")?,
            memory_peak: bytes("VmHWM:")?,
        })
    }

    /// Fails when it has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("process {} ended by itself: {status}", self.pid()),
            None => Ok(()),
        }
    }

    /// Waits for its end; whether it succeeded.
    pub fn ends_well(mut self) -> Result<bool> {
        let mut status = None;
        wait_for("it ends by itself", || {
            status = self.child.try_wait()?;
            Ok(status.is_some())
        })?;
        Ok(status.is_some_and(|status| status.success()))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(mut self) -> Result<()> {
        self.end()
    }

    /// SIGTERM, and waits for the end.
    pub fn terminate(mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        wait_for("it ends after SIGTERM", || {
            let Some(status) = self.child.try_wait()? else { return Ok(false) };
            ensure!(status.success(), "after SIGTERM it ended with {status}");
            Ok(true)
        })
    }

    fn end(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.end();
    }
}
