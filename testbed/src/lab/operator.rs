//! A running operator.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use anyhow::{Context, Result, ensure};

use super::{Process, binaries::directory, http_get};

/// Where the first one serves its health; each next one two ports above.
const PORT: u16 = 19_234;

/// One life of `volvox-operator`. Dropped, it is killed.
#[derive(Debug)]
pub struct Operator {
    process: Process,
    health: SocketAddr,
}

impl Operator {
    /// Starts the nth one, which follows the cluster of that kubeconfig; it logs below `place`.
    pub fn start(number: u16, kubeconfig: &Path, place: &Path, flags: &[&str]) -> Result<Self> {
        let program = directory()?.join("volvox-operator");
        let [health, metrics] = [0, 1]
            .map(|beside| SocketAddr::from((Ipv4Addr::LOCALHOST, PORT + 2 * number + beside)));
        let own = [
            format!("--k8s-kubeconfig-path={}", kubeconfig.display()),
            format!("--operator-api-serve-addr={health}"),
            format!("--operator-prometheus-serve-addr={metrics}"),
        ];
        let arguments: Vec<String> =
            own.into_iter().chain(flags.iter().map(|flag| (*flag).to_owned())).collect();
        let log = place.join(format!("operator-{number}.log"));
        Ok(Self { process: Process::start(&program, &arguments, &log)?, health })
    }

    /// What it says of its health, or why it does not.
    pub fn health(&self) -> Result<String> {
        let (head, body) = http_get(self.health, "/healthz").context("its health is not served")?;
        ensure!(head.contains(" 200 "), "{head}");
        Ok(body.trim().to_owned())
    }

    /// Whether it leads; not while it does not answer.
    pub fn leads(&self) -> bool {
        self.health().is_ok_and(|health| health == "ok: leads")
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Kills it.
    pub fn kill(self) -> Result<()> {
        self.process.kill()
    }

    /// Ends it as a kubelet does.
    pub fn terminate(self) -> Result<()> {
        self.process.terminate()
    }
}
