//! A containerd that an agent follows. It has no pods of its own: who makes pods calls the plugin.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{Process, Signal, wait_for};

/// The program.
const PROGRAM: &str = "containerd";

/// A running containerd. Dropped, it is killed.
pub struct ContainerRuntime {
    place: PathBuf,
    process: Option<Process>,
}

impl ContainerRuntime {
    /// Whether this machine has one.
    pub fn is_possible() -> bool {
        Command::new(PROGRAM).arg("--version").output().is_ok_and(|it| it.status.success())
    }

    /// Starts one with all that it writes below `place`, and waits until it answers.
    pub fn start(place: &Path) -> Result<Self> {
        fs::create_dir_all(place)?;
        let shown = place.display();
        let configuration = format!(
            "version = 2\nroot = \"{shown}/root\"\nstate = \"{shown}/state\"\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\
             [grpc]\naddress = \"{shown}/containerd.sock\"\n"
        );
        fs::write(place.join("config.toml"), configuration)?;
        let mut runtime = Self { place: place.to_owned(), process: None };
        runtime.start_again()?;
        Ok(runtime)
    }

    /// Where agents reach it.
    pub fn socket(&self) -> PathBuf {
        self.place.join("containerd.sock")
    }

    /// Starts it after a [`ContainerRuntime::kill`].
    pub fn start_again(&mut self) -> Result<()> {
        let configuration = self.place.join("config.toml").display().to_string();
        let words = ["--config".to_owned(), configuration];
        let log = self.place.join("log");
        self.process = Some(Process::start(PROGRAM.as_ref(), &words, &log)?);
        let socket = self.socket();
        wait_for("containerd answers", || {
            self.process()?
                .check()
                .with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
            let asked = Command::new("ctr").arg("-a").arg(&socket).arg("version").output();
            Ok(asked.context("cannot start ctr, which comes with containerd")?.status.success())
        })
    }

    /// Whether it was not killed.
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("no containerd runs")
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context("no containerd runs")?.kill()
    }

    /// SIGSTOP: its connections stand and say nothing.
    pub fn stop(&mut self) -> Result<()> {
        self.process()?.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub fn go_on(&mut self) -> Result<()> {
        self.process()?.signal(Signal::CONT)
    }
}
