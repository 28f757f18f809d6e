//! A real kube-apiserver, with all that it writes in the lab's own file system.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ApiClient, Etcd, Process, Speaks, programs, wait_for};

const PORT: u16 = 6443;
/// What a cluster with kubelets has that is usual by now.
pub(super) const FEATURES: &str = "EndpointSliceTerminatingCondition=true";
/// What its server has: bookmarks also of what never changed since it started.
const SERVER_FEATURES: &str = "EfficientWatchResumption=true";
/// What those say who ask the server: people, and agents.
const TOKENS: [&str; 2] = ["lab", "agent"];
/// Those in a cluster with kubelets: people, the controllers, the scheduler, and nodes.
const USERS: [&str; 6] = ["lab", "kube-controller-manager", "kube-scheduler", "n1", "n2", "n3"];
const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// Who agents are to a server that asks for their rights.
const ACCOUNT: &str = "system:serviceaccount:kube-system:volvox";

/// An API server that keeps its objects in an etcd of the lab. Dropped, it is killed.
pub struct ApiServer {
    program: PathBuf,
    place: PathBuf,
    etcd: String,
    address: IpAddr,
    callers: Callers,
    process: Option<Process>,
    client: ApiClient,
}

/// Who asks the server, and who may do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callers {
    /// Everyone may do everything.
    Free,
    /// Agents are a service account, and may do what its roles say.
    Bound,
    /// Kubelets and controllers ask too. All may do what their roles say.
    Nodes,
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
    /// The program, or `None` and loud words if there is none.
    pub fn find() -> Option<PathBuf> {
        programs::find("kube-apiserver")
    }

    /// Starts it with what it writes below `place`, and waits until it serves. Everyone may do
    /// everything.
    pub fn start(program: PathBuf, place: &Path, etcd: &Etcd) -> Result<Self> {
        Self::start_as(program, place, etcd, Ipv4Addr::LOCALHOST.into(), Callers::Free)
    }

    /// The same, but agents are a service account, have no token before [`ApiServer::let_in`], and
    /// may do what its roles say.
    pub fn start_strict(program: PathBuf, place: &Path, etcd: &Etcd) -> Result<Self> {
        Self::start_as(program, place, etcd, Ipv4Addr::LOCALHOST.into(), Callers::Bound)
    }

    /// One that nodes reach at that address. People, the controllers, the
    /// scheduler and nodes have their kubeconfigs by [`ApiServer::kubeconfig_of`].
    pub fn start_for_nodes(
        program: PathBuf,
        place: &Path,
        etcd: &Etcd,
        address: IpAddr,
    ) -> Result<Self> {
        Self::start_as(program, place, etcd, address, Callers::Nodes)
    }

    fn start_as(
        program: PathBuf,
        place: &Path,
        etcd: &Etcd,
        address: IpAddr,
        callers: Callers,
    ) -> Result<Self> {
        fs::create_dir_all(place)?;
        fs::write(place.join("tokens"), callers.tokens())?;
        // Only where it matters, requests are noted again with their answers.
        let mut omitted = vec!["ResponseStarted", "Panic"];
        omitted.extend((callers == Callers::Free).then_some("ResponseComplete"));
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
        let mut server = Self { program, place, etcd, address, callers, process: None, client };
        server.start_again()?;
        Ok(server)
    }

    /// Starts it after a [`ApiServer::kill`], and waits until it serves.
    pub fn start_again(&mut self) -> Result<()> {
        let path = |name: &str| self.place.join(name).display().to_string();
        let (accounts, address) = (path("accounts.key"), self.address.to_string());
        let for_nodes = self.callers == Callers::Nodes;
        let features =
            if for_nodes { format!("{FEATURES},{SERVER_FEATURES}") } else { String::new() };
        let arguments = [
            ("etcd-servers", self.etcd.as_str()),
            ("bind-address", &address),
            ("advertise-address", &address),
            ("secure-port", &PORT.to_string()),
            ("cert-dir", &path("certificates")),
            ("token-auth-file", &path("tokens")),
            ("audit-policy-file", &path("audit.yaml")),
            ("audit-log-path", &path("audit.log")),
            ("audit-log-mode", "blocking"),
            ("service-account-issuer", "https://lab"),
            ("service-account-key-file", &accounts),
            ("service-account-signing-key-file", &accounts),
            ("service-cluster-ip-range", "10.96.0.0/24"),
            ("authorization-mode", self.callers.authorization()),
            // As in clusters: the packaged pods have an init container that is privileged.
            ("allow-privileged", "true"),
            ("endpoint-reconciler-type", if for_nodes { "lease" } else { "none" }),
            ("disable-admission-plugins", if for_nodes { "" } else { "ServiceAccount" }),
            ("feature-gates", &features),
            // Nobody knows the nodes by name.
            ("kubelet-preferred-address-types", "InternalIP"),
        ];
        let arguments = arguments.map(|(name, value)| format!("--{name}={value}"));
        let log = self.place.join("api.log");
        self.process = Some(Process::start(&self.program, &arguments, &log)?);
        let certificate = self.certificate();
        wait_for("the API server makes its certificate", || {
            self.process()?.check()?;
            Ok(certificate.exists())
        })?;
        for user in self.callers.first() {
            fs::write(self.kubeconfig_of(user), self.access(user).to_string())?;
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
        kubeconfig(SocketAddr::new(self.address, PORT), &self.certificate(), token)
    }

    /// What its certificate is verified by.
    pub fn certificate(&self) -> PathBuf {
        self.place.join("certificates/apiserver.crt")
    }

    /// What service accounts' tokens are signed with.
    pub fn accounts_key(&self) -> PathBuf {
        self.place.join("accounts.key")
    }

    /// Says to that user how it is reached.
    pub fn kubeconfig_of(&self, user: &str) -> PathBuf {
        self.place.join(format!("{user}.kubeconfig"))
    }

    /// Says to agents how it is reached.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_of("agent")
    }

    /// Says to agents how it is reached through a proxy at that address.
    pub fn kubeconfig_through(&self, proxy: SocketAddr) -> Result<PathBuf> {
        let path = self.kubeconfig_of("proxied");
        fs::write(&path, kubeconfig(proxy, &self.certificate(), "agent").to_string())?;
        Ok(path)
    }

    /// Where it serves.
    pub fn socket_address(&self) -> SocketAddr {
        SocketAddr::new(self.address, PORT)
    }

    /// What a proxy has to speak that answers in its place.
    pub fn speaks(&self) -> Speaks {
        let key = self.certificate().with_extension("key");
        Speaks::Https { certificate: self.certificate(), key }
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

    /// SIGCONT.
    pub fn go_on(&mut self) -> Result<()> {
        self.process()?.signal(Signal::CONT)
    }

    /// Whether it was not killed.
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context("no API server runs")?.kill()
    }
}

impl Callers {
    /// Who has a token from the start.
    fn first(self) -> &'static [&'static str] {
        match self {
            Self::Free => &TOKENS,
            Self::Bound => &TOKENS[..1],
            Self::Nodes => &USERS,
        }
    }

    /// The file of tokens: token, user, its number, groups.
    fn tokens(self) -> String {
        let all: &[&str] = if self == Self::Nodes { &USERS } else { &TOKENS };
        let line = |user: &&str| match *user {
            "lab" | "agent" => format!("{user},{user},{user},system:masters\n"),
            node if NODES.contains(&node) => {
                format!("{node},system:node:{node},{node},system:nodes\n")
            }
            part => format!("{part},system:{part},{part},\n"),
        };
        all.iter().map(line).collect()
    }

    fn authorization(self) -> &'static str {
        match self {
            Self::Free => "AlwaysAllow",
            Self::Bound => "RBAC",
            Self::Nodes => "Node,RBAC",
        }
    }
}

fn kubeconfig(at: SocketAddr, certificate: &Path, token: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{
            "name": "lab",
            "cluster": { "server": format!("https://{at}"), "certificate-authority": certificate },
        }],
        "users": [{ "name": "lab", "user": { "token": token } }],
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab" } }],
    })
}
