//! A real kube-apiserver on loopback, with all that it writes in the lab's own file system.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ApiClient, Etcd, Process, wait_for};

const SERVER: &str = "https://127.0.0.1:6443";
/// What those say who ask the server: people, and agents.
const TOKENS: [&str; 2] = ["lab", "agent"];
/// Who agents are to a server that asks for their rights.
const ACCOUNT: &str = "system:serviceaccount:kube-system:volvox";

/// An API server that keeps its objects in an etcd of the lab. Dropped, it is killed.
pub struct ApiServer {
    program: PathBuf,
    place: PathBuf,
    etcd: String,
    /// It asks who may do what.
    strict: bool,
    process: Option<Process>,
    client: ApiClient,
}

/// A request that the server answered, as its audit log has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// `list`, `watch`, `get`, `create`, …
    pub verb: String,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    user: User,
    response_status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize)]
struct User {
    /// Nothing of who is not known.
    #[serde(default)]
    username: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Status {
    code: u16,
}

impl Asked {
    /// Whether the server did not know who asked, or did not let that one.
    pub fn is_refused(&self) -> bool {
        self.response_status.as_ref().is_some_and(|status| matches!(status.code, 401 | 403))
    }
}

impl ApiServer {
    /// The program that `KUBEBUILDER_ASSETS` names, as other projects have it, or that
    /// `testbed/test` put into its cache; `None`, and loud words, if there is none.
    pub fn find() -> Option<PathBuf> {
        let named = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
        let assets = named.or_else(|| Some(cache?.join("volvox/kubernetes")))?;
        let program = assets.join("kube-apiserver");
        if !program.is_file() {
            volvox_system::complain!(
                "SKIPPED: no kube-apiserver in {}: run testbed/test, or name a directory that has \
                 one by KUBEBUILDER_ASSETS",
                assets.display()
            );
            return None;
        }
        Some(program)
    }

    /// Starts it with what it writes below `place`, and waits until it serves. Everyone may do
    /// everything.
    pub fn start(program: PathBuf, place: &Path, etcd: &Etcd) -> Result<Self> {
        Self::start_as(program, place, etcd, false)
    }

    /// The same, but agents are a service account, have no token before [`ApiServer::let_in`], and
    /// may do what its roles say.
    pub fn start_strict(program: PathBuf, place: &Path, etcd: &Etcd) -> Result<Self> {
        Self::start_as(program, place, etcd, true)
    }

    fn start_as(program: PathBuf, place: &Path, etcd: &Etcd, strict: bool) -> Result<Self> {
        fs::create_dir_all(place)?;
        let token = |user: &&str| format!("{user},{user},{user},system:masters\n");
        fs::write(place.join("tokens"), TOKENS.iter().map(token).collect::<String>())?;
        // Only where it matters, requests are noted again with their answers.
        let mut omitted = vec!["ResponseStarted", "Panic"];
        omitted.extend((!strict).then_some("ResponseComplete"));
        let audit = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
            "rules": [{ "level": "Metadata" }], "omitStages": omitted,
        });
        fs::write(place.join("audit.yaml"), audit.to_string())?;
        let key = Command::new("openssl")
            .args(["genrsa", "-out"])
            .arg(place.join("accounts.key"))
            .arg("2048")
            .output()
            .context("install the package openssl")?;
        ensure!(key.status.success(), "openssl: {}", String::from_utf8_lossy(&key.stderr));
        let client = ApiClient::new(place.join("lab.kubeconfig"))?;
        let (place, etcd) = (place.to_owned(), etcd.address());
        let mut server = Self { program, place, etcd, strict, process: None, client };
        server.start_again()?;
        Ok(server)
    }

    /// Starts it after a [`ApiServer::kill`], and waits until it serves.
    pub fn start_again(&mut self) -> Result<()> {
        let path = |name: &str| self.place.join(name).display().to_string();
        let accounts = path("accounts.key");
        let arguments = [
            ("etcd-servers", self.etcd.as_str()),
            ("bind-address", "127.0.0.1"),
            ("advertise-address", "127.0.0.1"),
            ("secure-port", "6443"),
            ("cert-dir", &path("certificates")),
            ("token-auth-file", &path("tokens")),
            ("audit-policy-file", &path("audit.yaml")),
            ("audit-log-path", &path("audit.log")),
            ("audit-log-mode", "blocking"),
            ("service-account-issuer", "https://lab"),
            ("service-account-key-file", &accounts),
            ("service-account-signing-key-file", &accounts),
            ("service-cluster-ip-range", "10.96.0.0/24"),
            ("authorization-mode", if self.strict { "RBAC" } else { "AlwaysAllow" }),
            // As in clusters: the packaged pods have an init container that is privileged.
            ("allow-privileged", "true"),
            ("endpoint-reconciler-type", "none"),
            ("disable-admission-plugins", "ServiceAccount"),
        ];
        let arguments = arguments.map(|(name, value)| format!("--{name}={value}"));
        let log = self.place.join("api.log");
        self.process = Some(Process::start(&self.program, &arguments, &log)?);
        let certificate = self.place.join("certificates/apiserver.crt");
        wait_for("the API server makes its certificate", || {
            self.process()?.check()?;
            Ok(certificate.exists())
        })?;
        for user in TOKENS.iter().filter(|user| !self.strict || **user == "lab") {
            let file = self.place.join(format!("{user}.kubeconfig"));
            fs::write(file, self.access(user).to_string())?;
        }
        wait_for("the API server serves", || {
            let alive = self.process()?.check();
            alive.with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
            Ok(self.client.get("/api/v1/namespaces/default").is_ok())
        })
    }

    fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("no API server runs")
    }

    /// Agents have that token from now on.
    pub fn let_in(&self, token: &str) -> Result<()> {
        // Renamed into place: nobody reads half of it.
        let draft = self.place.join("draft.kubeconfig");
        fs::write(&draft, self.access(token).to_string())?;
        Ok(fs::rename(&draft, self.kubeconfig())?)
    }

    fn access(&self, token: &str) -> Value {
        kubeconfig(&self.place.join("certificates/apiserver.crt"), token)
    }

    /// Says to agents how it is reached.
    pub fn kubeconfig(&self) -> PathBuf {
        self.place.join("agent.kubeconfig")
    }

    /// Asks it, as people do.
    pub fn client(&self) -> &ApiClient {
        &self.client
    }

    /// What agents asked so far.
    pub fn asked_by_agents(&self) -> Result<Vec<Asked>> {
        let log = fs::read_to_string(self.place.join("audit.log"))?;
        let all = log.lines().map(serde_json::from_str).collect::<Result<Vec<Asked>, _>>()?;
        Ok(all
            .into_iter()
            .filter(|asked| ["agent", ACCOUNT].contains(&&*asked.user.username))
            .collect())
    }

    /// SIGSTOP: it holds its connections and answers nothing.
    pub fn hang(&mut self) -> Result<()> {
        self.process()?.signal(Signal::STOP)
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context("no API server runs")?.kill()
    }
}

fn kubeconfig(certificate: &Path, token: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{
            "name": "lab", "cluster": { "server": SERVER, "certificate-authority": certificate },
        }],
        "users": [{ "name": "lab", "user": { "token": token } }],
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab" } }],
    })
}
