//! etcd and kube-apiserver on loopback, with all that they write in the lab's own file system.

use std::{
    env,
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use volvox_testbed::lab::{Node, wait_for};

use crate::client::Client;

const ETCD: &str = "127.0.0.1:2379";
const API: &str = "https://127.0.0.1:6443";
/// What everyone says who asks the server.
const TOKEN: &str = "the-lab";

/// A cluster's servers.
pub(crate) struct Server {
    programs: Programs,
    place: PathBuf,
    etcd: Option<Child>,
    api: Option<Child>,
    client: Client,
}

/// The servers' programs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    etcd: PathBuf,
    api: PathBuf,
}

impl Programs {
    /// Those that `KUBEBUILDER_ASSETS` names, as other projects have it, or those that
    /// `testbed/test` put into its cache; `None`, and loud words, if there are none.
    pub(crate) fn find() -> Option<Self> {
        let named = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
        let assets = named.or_else(|| Some(cache?.join("volvox/kubernetes")))?;
        let api = assets.join("kube-apiserver");
        if !api.is_file() {
            eprintln!(
                "SKIPPED: no kube-apiserver in {}: run testbed/test, or name a directory that has \
                 one by KUBEBUILDER_ASSETS",
                assets.display()
            );
            return None;
        }
        let etcd = Some(assets.join("etcd")).filter(|path| path.is_file());
        Some(Self { etcd: etcd.unwrap_or_else(|| "etcd".into()), api })
    }
}

impl Server {
    /// Starts both, and waits until they serve.
    pub(crate) fn start(programs: &Programs, node: &Node) -> Result<Self> {
        ensure!(Command::new("ip").args(["link", "set", "lo", "up"]).status()?.success());
        let place = node.path("cluster");
        fs::create_dir_all(&place)?;
        fs::write(place.join("tokens"), format!("{TOKEN},lab,lab,system:masters\n"))?;
        let key = Command::new("openssl")
            .args(["genrsa", "-out"])
            .arg(place.join("accounts.key"))
            .arg("2048")
            .output()
            .context("install the package openssl")?;
        ensure!(key.status.success(), "openssl: {}", String::from_utf8_lossy(&key.stderr));
        let client = Client::new(place.join("kubeconfig"))?;
        let mut server = Self { programs: programs.clone(), place, etcd: None, api: None, client };
        server.start_etcd()?;
        server.start_api()?;
        Ok(server)
    }

    /// Starts etcd with what it had.
    pub(crate) fn start_etcd(&mut self) -> Result<()> {
        let url = format!("http://{ETCD}");
        let peers = "http://127.0.0.1:2380";
        let mut etcd = Command::new(&self.programs.etcd);
        etcd.arg("--data-dir").arg(self.place.join("etcd")).args([
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
        ]);
        self.etcd = Some(spawn(etcd, &self.place.join("etcd.log"))?);
        wait_for("etcd answers", || Ok(post(ETCD, "/v3/maintenance/status", &json!({})).is_ok()))
    }

    /// Starts the API server, and waits until it serves.
    pub(crate) fn start_api(&mut self) -> Result<()> {
        let path = |name: &str| self.place.join(name).display().to_string();
        let mut api = Command::new(&self.programs.api);
        api.args([
            format!("--etcd-servers=http://{ETCD}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--secure-port=6443".to_owned(),
            format!("--cert-dir={}", path("certificates")),
            format!("--token-auth-file={}", path("tokens")),
            "--service-account-issuer=https://lab".to_owned(),
            format!("--service-account-key-file={}", path("accounts.key")),
            format!("--service-account-signing-key-file={}", path("accounts.key")),
            "--service-cluster-ip-range=10.96.0.0/24".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ]);
        self.api = Some(spawn(api, &self.place.join("api.log"))?);
        let certificate = self.place.join("certificates/apiserver.crt");
        wait_for("the API server makes its certificate", || Ok(certificate.exists()))?;
        fs::write(self.kubeconfig(), kubeconfig(&certificate).to_string())?;
        wait_for("the API server serves", || {
            if let Some(status) = self.api.as_mut().map(Child::try_wait).transpose()?.flatten() {
                let log = fs::read_to_string(self.place.join("api.log")).unwrap_or_default();
                let end: Vec<_> = log.lines().rev().take(5).collect();
                anyhow::bail!("kube-apiserver ended with {status}: {}", end.join("\n"));
            }
            Ok(self.client.get("/api/v1/namespaces/default").is_ok())
        })
    }

    /// Says how it is reached.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.place.join("kubeconfig")
    }

    /// Asks it.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// SIGSTOP: it holds its connections and answers nothing.
    pub(crate) fn hang_api(&self) -> Result<()> {
        let api = self.api.as_ref().context("no API server runs")?;
        Ok(kill_process(Pid::from_child(api), Signal::STOP)?)
    }

    /// SIGKILL.
    pub(crate) fn kill_api(&mut self) -> Result<()> {
        kill(&mut self.api)
    }

    /// SIGKILL.
    pub(crate) fn kill_etcd(&mut self) -> Result<()> {
        kill(&mut self.etcd)
    }

    /// Has etcd forget all that happened until now.
    pub(crate) fn compact(&self) -> Result<()> {
        let status = post(ETCD, "/v3/maintenance/status", &json!({}))?;
        let revision = status["header"]["revision"].clone();
        post(ETCD, "/v3/kv/compaction", &json!({ "revision": revision, "physical": true }))
            .map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The lab's end takes them too.
        let _ = (self.kill_api(), self.kill_etcd());
    }
}

fn kill(child: &mut Option<Child>) -> Result<()> {
    let mut child = child.take().context("it does not run")?;
    child.kill()?;
    child.wait()?;
    Ok(())
}

fn spawn(mut command: Command, log: &Path) -> Result<Child> {
    let log = File::options().create(true).append(true).open(log)?;
    let name = command.get_program().to_owned();
    let started = command.stdout(log.try_clone()?).stderr(log).spawn();
    started.with_context(|| format!("cannot start {}", name.display()))
}

fn kubeconfig(certificate: &Path) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{
            "name": "lab", "cluster": { "server": API, "certificate-authority": certificate },
        }],
        "users": [{ "name": "lab", "user": { "token": TOKEN } }],
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab" } }],
    })
}

/// Asks etcd through its gateway.
fn post(address: &str, path: &str, body: &Value) -> Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    let body = body.to_string();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n\
         {body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("etcd breaks off")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "etcd: {answer}");
    Ok(serde_json::from_str(body)?)
}
