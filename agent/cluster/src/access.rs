//! How the API server is reached: kubeconfig, settings or the pod's service account.

use std::{env, path::PathBuf, time::Duration};

// One version of the API must be chosen for kube, and that is done by a feature of this crate.
use k8s_openapi as _;
use kube::{
    Client,
    config::{KubeConfigOptions, Kubeconfig},
};
use volvox_actors::ports::ClusterError;
use volvox_system::causes::reported;

use super::servers::{Servers, told};

/// How long a connection may take: less than whoever asks waits, so that they hear of it.
const CONNECT_PATIENCE: Duration = Duration::from_secs(8);
/// Where a pod finds the token of its service account.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// Where a pod is told that it runs in a cluster.
const SERVICE_HOST: &str = "KUBERNETES_SERVICE_HOST";
/// Where a pod is told the address of the Service kubernetes, whatever the other one says.
const SERVICE_URL: &str = "KUBERNETES_PORT";
/// What to do where the Service kubernetes cannot be reached.
const REMEDY: &str = "; name the API servers by --k8s-api-server, because nobody serves the \
    cluster's service address before the agent does";

/// How the API server is found, and who asks it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// A file that says all of it.
    pub kubeconfig: Option<PathBuf>,
    /// The servers' addresses, whatever else says another.
    pub servers: Servers,
}

/// A server that is asked.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// How often the server was changed before.
    pub(super) turn: usize,
    /// Its address, as people are told it.
    pub(super) address: String,
    /// What to do if it cannot be reached, and no other one is named.
    pub(super) remedy: &'static str,
}

impl Access {
    /// What the settings say, or the pod in which the program runs; `None` if there is no cluster.
    pub fn found(self) -> Option<Self> {
        let in_pod = || env::var_os(SERVICE_HOST).is_some() && PathBuf::from(TOKEN).exists();
        (self != Self::default() || in_pod()).then_some(self)
    }

    /// A client by what the files say now: certificates and tokens are renewed. The server is the one
    /// whose turn it is.
    pub(super) async fn client(&self, turn: usize) -> Result<(Client, Asked), ClusterError> {
        let server = self.servers.at(turn);
        let mut remedy = "";
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let read = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
                let options = KubeConfigOptions::default();
                let config = kube::Config::from_custom_kubeconfig(read, &options).await;
                config.map_err(|error| unusable(&error))?
            }
            None => match (kube::Config::incluster(), server) {
                (Ok(config), None) => {
                    remedy = remedy_of(|name| env::var(name).ok());
                    config
                }
                (Ok(config), Some(_)) => config,
                (Err(_), Some(server)) => kube::Config::new(server.clone()),
                (Err(error), None) => return Err(unusable(&error)),
            },
        };
        if let Some(server) = server {
            config.cluster_url = server.clone();
        }
        config.connect_timeout = Some(CONNECT_PATIENCE);
        // The actors decide what is tried again, and when.
        config.default_retry = false;
        let address = told(&config.cluster_url);
        let client = Client::try_from(config).map_err(|error| unusable(&error))?;
        Ok((client, Asked { turn, address, remedy }))
    }

    /// Of which server it is the turn, if several are named.
    pub(super) fn next(&self, turn: usize) -> Option<String> {
        self.servers.at(turn).filter(|_| self.servers.len() > 1).map(told)
    }
}

/// What to do if the address that a pod was told cannot be reached: if it is that of the Service
/// kubernetes, another one has to be named.
pub(super) fn remedy_of(get: impl Fn(&str) -> Option<String>) -> &'static str {
    let host = get(SERVICE_HOST).unwrap_or_default();
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let of_service = get(SERVICE_URL);
    let is_service = of_service.is_none_or(|url| url.contains(&format!("://{host}:")));
    if is_service { REMEDY } else { "" }
}

fn unusable(error: &dyn std::error::Error) -> ClusterError {
    ClusterError::Unreachable(format!("the way to it is not usable: {}", reported(error)))
}
