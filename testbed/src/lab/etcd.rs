//! A real etcd, on the lab's loopback.

use std::{
    env, fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{Authority, Node, Process, Store, wait_for};

/// Where clients reach that of this cluster, and that of another one; the next is for its peers.
const PORT: u16 = 2379;
const PORT_BESIDE: u16 = 2389;

/// An etcd of one member. Dropped, it is killed; its data stay with the lab.
#[derive(Debug)]
pub struct Etcd {
    directory: PathBuf,
    port: u16,
    /// Where else clients reach it, besides the loopback.
    beside: Option<IpAddr>,
    /// How much garbage it may have before it collects it, percent of what it keeps, if that is said.
    garbage: Option<u32>,
    /// It says every few seconds how far it is, as that of a cluster of Kubernetes is told to.
    notifies: bool,
    /// Where certificates are, if it wants to see some.
    certificates: Option<PathBuf>,
    /// Who may do everything, if it wants a password.
    root: Option<&'static str>,
    process: Option<Process>,
}

impl Etcd {
    /// Starts one whose data and log are below `directory`, and waits until it answers.
    pub fn start(directory: &Path) -> Result<Self> {
        Self::start_as(directory, PORT, None)
    }

    /// Starts one that seldom collects its garbage. That takes all processors for longer than what is
    /// measured beside it; in a cluster etcd has others.
    pub fn start_careless(directory: &Path) -> Result<Self> {
        let mut etcd = Self::made(directory, PORT, None, None)?;
        etcd.garbage = Some(1000);
        etcd.start_again()?;
        Ok(etcd)
    }

    /// Starts one for an API server, as those that install clusters set it up.
    pub fn start_for_kubernetes(directory: &Path) -> Result<Self> {
        let mut etcd = Self::made(directory, PORT, None, None)?;
        etcd.notifies = true;
        etcd.start_again()?;
        Ok(etcd)
    }

    /// Starts one that other nodes reach at that address.
    pub fn start_at(directory: &Path, address: IpAddr) -> Result<Self> {
        Self::start_with(directory, PORT, None, Some(address))
    }

    /// Starts one that has the certificate `etcd` of that authority, and lets in who has another one
    /// of it.
    pub fn start_guarded(directory: &Path, authority: &Authority) -> Result<Self> {
        Self::start_as(directory, PORT, Some(authority.place().to_owned()))
    }

    /// Another one beside the one of this cluster: guarded if there is an authority.
    pub fn start_beside(directory: &Path, authority: Option<&Authority>) -> Result<Self> {
        let place = authority.map(|authority| authority.place().to_owned());
        Self::start_as(directory, PORT_BESIDE, place)
    }

    fn start_as(directory: &Path, port: u16, certificates: Option<PathBuf>) -> Result<Self> {
        Self::start_with(directory, port, certificates, None)
    }

    fn start_with(
        directory: &Path,
        port: u16,
        certificates: Option<PathBuf>,
        beside: Option<IpAddr>,
    ) -> Result<Self> {
        let mut etcd = Self::made(directory, port, certificates, beside)?;
        etcd.start_again()?;
        Ok(etcd)
    }

    fn made(
        directory: &Path,
        port: u16,
        certificates: Option<PathBuf>,
        beside: Option<IpAddr>,
    ) -> Result<Self> {
        let status = Command::new("ip").args(["link", "set", "lo", "up"]).status()?;
        ensure!(status.success(), "loopback stays down: {status}");
        fs::create_dir_all(directory)?;
        let directory = directory.to_owned();
        let (garbage, notifies, root, process) = (None, false, None, None);
        Ok(Self { directory, port, beside, garbage, notifies, certificates, root, process })
    }

    /// As `--kvstore-opt` names it.
    pub fn option(&self) -> String {
        format!("etcd.address={}", self.clients())
    }

    /// Where clients reach it.
    pub fn address(&self) -> String {
        self.clients()
    }

    /// A connection of another node, to one that is not guarded.
    pub fn connect(&self) -> Result<Store> {
        Store::connect(&self.clients())
    }

    /// Has the agents of this node share it, from their next start on.
    pub fn share_with(&self, node: &mut Node) -> Result<()> {
        let status =
            Command::new("ip").args(["addr", "replace", "192.0.2.1/32", "dev", "lo"]).status()?;
        ensure!(status.success(), "the node has no address: {status}");
        node.set_flag("kvstore", Some("etcd")).set_flag("kvstore-opt", Some(&self.option()));
        Ok(())
    }

    /// The same through a proxy at that address.
    pub fn share_through(&self, node: &mut Node, proxy: SocketAddr) -> Result<()> {
        self.share_with(node)?;
        node.set_flag("kvstore-opt", Some(&format!("etcd.address=http://{proxy}")));
        Ok(())
    }

    /// Where it listens on the lab's loopback.
    pub fn socket_address(&self) -> SocketAddr {
        SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), self.port)
    }

    /// Starts it after a [`Etcd::kill`], with what it had.
    pub fn start_again(&mut self) -> Result<()> {
        let data = self.directory.join("data").display().to_string();
        let peer = format!("http://127.0.0.1:{}", self.port + 1);
        let peers = format!("default={peer}");
        let clients = self.clients();
        let beside = self.beside.map(|ip| format!(",http://{}", SocketAddr::new(ip, self.port)));
        let listen = format!("{clients}{}", beside.unwrap_or_default());
        let clients = clients.as_str();
        let arguments = [
            ("data-dir", data.as_str()),
            ("listen-client-urls", &listen),
            ("advertise-client-urls", clients),
            ("listen-peer-urls", &peer),
            ("initial-advertise-peer-urls", &peer),
            ("initial-cluster", &peers),
            ("log-level", "error"),
        ];
        let mut arguments = arguments.map(|(name, value)| format!("--{name}={value}")).to_vec();
        if let Some(place) = &self.certificates {
            let file = |name: &str, file: &str| format!("--{name}={}", place.join(file).display());
            arguments.extend([
                file("cert-file", "etcd.pem"),
                file("key-file", "etcd.key"),
                file("trusted-ca-file", "ca.pem"),
                "--client-cert-auth=true".to_owned(),
            ]);
        }
        if self.notifies {
            arguments.push("--experimental-watch-progress-notify-interval=5s".to_owned());
        }
        let log = self.directory.join("log");
        let (mut program, garbage) = (program(), self.garbage);
        if let Some(percent) = garbage {
            let words = [format!("GOGC={percent}"), program.display().to_string()];
            arguments.splice(0..0, words);
            program = "env".into();
        }
        self.process = Some(Process::start(&program, &arguments, &log)?);
        wait_for("etcd answers", || {
            self.process()?.check()?;
            Ok(self.control(&["endpoint", "health"]).is_ok())
        })
    }

    /// From now on only who knows a password is let in: `user` may read and write below `prefix`.
    pub fn want_password(&mut self, user: &str, password: &str, prefix: &str) -> Result<()> {
        for words in [
            "user add root:root",
            "user grant-role root root",
            "role add nodes",
            &format!("role grant-permission nodes --prefix=true readwrite {prefix}"),
            &format!("user add {user}:{password}"),
            &format!("user grant-role {user} nodes"),
            "auth enable",
        ] {
            self.control(&words.split(' ').collect::<Vec<_>>())?;
        }
        self.root = Some("root:root");
        Ok(())
    }

    fn clients(&self) -> String {
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
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

    /// Whether it was not killed.
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("no etcd runs")
    }

    /// Saves a snapshot of now.
    pub fn save(&self) -> Result<()> {
        let snapshot = self.directory.join("snapshot").display().to_string();
        self.control(&["snapshot", "save", &snapshot]).map(drop)
    }

    /// Starts one after a [`Etcd::kill`] that is restored from what was saved.
    pub fn restore(&mut self) -> Result<()> {
        fs::remove_dir_all(self.directory.join("data"))?;
        let data = format!("--data-dir={}", self.directory.join("data").display());
        let snapshot = self.directory.join("snapshot").display().to_string();
        let peer = format!("http://127.0.0.1:{}", self.port + 1);
        let cluster = format!("--initial-cluster=default={peer}");
        let advertised = format!("--initial-advertise-peer-urls={peer}");
        let words = ["snapshot", "restore", &snapshot, &data, "--name=default"];
        self.control(&[&words[..], &[cluster.as_str(), advertised.as_str()]].concat())?;
        self.start_again()
    }

    /// Starts one after a [`Etcd::kill`] that has nothing.
    pub fn start_empty(&mut self) -> Result<()> {
        fs::remove_dir_all(self.directory.join("data"))?;
        self.start_again()
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
        let mut control = Command::new("etcdctl");
        control.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", self.clients()));
        if let Some(place) = &self.certificates {
            // Whatever it shows: the lab knows whom it speaks to.
            control.arg("--insecure-skip-tls-verify");
            for (name, file) in [("cert", "lab.pem"), ("key", "lab.key")] {
                control.arg(format!("--{name}={}", place.join(file).display()));
            }
        }
        if let Some(root) = self.root {
            control.arg(format!("--user={root}"));
        }
        let output =
            control.args(words).output().context("cannot run etcdctl: install etcd-client")?;
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
