//! A real etcd, on the lab's loopback.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{Node, Process, Store, wait_for};

/// Where clients reach it.
const CLIENTS: &str = "http://127.0.0.1:2379";
const PEERS: &str = "http://127.0.0.1:2380";

/// An etcd of one member. Dropped, it is killed; its data stay with the lab.
#[derive(Debug)]
pub struct Etcd {
    directory: PathBuf,
    process: Option<Process>,
}

impl Etcd {
    /// Starts one whose data and log are below `directory`, and waits until it answers.
    pub fn start(directory: &Path) -> Result<Self> {
        let status = Command::new("ip").args(["link", "set", "lo", "up"]).status()?;
        ensure!(status.success(), "loopback stays down: {status}");
        fs::create_dir_all(directory)?;
        let mut etcd = Self { directory: directory.to_owned(), process: None };
        etcd.start_again()?;
        Ok(etcd)
    }

    /// As `--kvstore-opt` names it.
    pub fn option(&self) -> String {
        format!("etcd.address={CLIENTS}")
    }

    /// Where clients reach it.
    pub fn address(&self) -> &'static str {
        CLIENTS
    }

    /// A connection of another node.
    pub fn connect(&self) -> Result<Store> {
        Store::connect(CLIENTS)
    }

    /// Has the agents of this node share it, from their next start on.
    pub fn share_with(&self, node: &mut Node) -> Result<()> {
        let status =
            Command::new("ip").args(["addr", "replace", "192.0.2.1/32", "dev", "lo"]).status()?;
        ensure!(status.success(), "the node has no address: {status}");
        node.set_flag("kvstore", Some("etcd")).set_flag("kvstore-opt", Some(&self.option()));
        Ok(())
    }

    /// Starts it after a [`Etcd::kill`], with what it had.
    pub fn start_again(&mut self) -> Result<()> {
        let data = self.directory.join("data").display().to_string();
        let peers = format!("default={PEERS}");
        let arguments = [
            ("data-dir", data.as_str()),
            ("listen-client-urls", CLIENTS),
            ("advertise-client-urls", CLIENTS),
            ("listen-peer-urls", PEERS),
            ("initial-advertise-peer-urls", PEERS),
            ("initial-cluster", &peers),
            ("log-level", "error"),
        ];
        let arguments = arguments.map(|(name, value)| format!("--{name}={value}"));
        let log = self.directory.join("log");
        self.process = Some(Process::start(&program(), &arguments, &log)?);
        wait_for("etcd answers", || {
            self.process()?.check()?;
            Ok(self.control(&["endpoint", "health"]).is_ok())
        })
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context("no etcd runs")?.kill()
    }

    /// SIGSTOP: its connections stand and say nothing.
    pub fn stop(&mut self) -> Result<()> {
        self.process()?.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub fn go_on(&mut self) -> Result<()> {
        self.process()?.signal(Signal::CONT)
    }

    fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("no etcd runs")
    }

    /// Another node writes a key.
    pub fn put(&self, key: &str, value: &str) -> Result<()> {
        self.control(&["put", key, value]).map(drop)
    }

    /// Another node deletes a key.
    pub fn delete(&self, key: &str) -> Result<()> {
        self.control(&["del", key]).map(drop)
    }

    /// The value of a key; empty if there is none.
    pub fn get(&self, key: &str) -> Result<String> {
        let text = self.control(&["get", "--print-value-only", key])?;
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// Keys that begin so.
    pub fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let text = self.control(&["get", "--prefix", "--keys-only", prefix])?;
        Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    /// Ends every lease, as if its time were over.
    pub fn expire_leases(&self) -> Result<()> {
        let text = self.control(&["lease", "list"])?;
        for lease in text.lines().filter(|line| line.chars().all(|c| c.is_ascii_hexdigit())) {
            self.control(&["lease", "revoke", lease])?;
        }
        Ok(())
    }

    /// Forgets all that changed until now.
    pub fn compact(&self) -> Result<()> {
        let text = self.control(&["get", "-w", "json", "none"])?;
        let answer: serde_json::Value = serde_json::from_str(&text)?;
        let revision = answer["header"]["revision"].as_u64().context("etcd has a revision")?;
        self.control(&["compact", &revision.to_string()]).map(drop)
    }

    /// What `etcdctl` says.
    fn control(&self, words: &[&str]) -> Result<String> {
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={CLIENTS}"))
            .args(words)
            .output()
            .context("cannot run etcdctl: install etcd-client")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "etcdctl {words:?}: {complaint}");
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// The one beside the API server's program, where somebody names both, or that of the machine.
fn program() -> PathBuf {
    let named = env::var_os("KUBEBUILDER_ASSETS").map(|assets| Path::new(&assets).join("etcd"));
    named.filter(|path| path.is_file()).unwrap_or_else(|| "etcd".into())
}
