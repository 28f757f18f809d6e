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

/// How long a connection may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Where a pod finds the token of its service account.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// Where a pod is told that it runs in a cluster.
const SERVICE_HOST: &str = "KUBERNETES_SERVICE_HOST";

/// How the API server is found, and who asks it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// A file that says all of it.
    pub kubeconfig: Option<PathBuf>,
    /// The server's address, whatever else says another.
    pub server: Option<String>,
}

impl Access {
    /// What the settings say, or the pod in which the program runs; `None` if there is no cluster.
    pub fn found(self) -> Option<Self> {
        let in_pod = || env::var_os(SERVICE_HOST).is_some() && PathBuf::from(TOKEN).exists();
        (self != Self::default() || in_pod()).then_some(self)
    }

    /// A client by what the files say now: certificates and tokens are renewed.
    pub(super) async fn client(&self) -> Result<Client, ClusterError> {
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let read = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
                let options = KubeConfigOptions::default();
                let config = kube::Config::from_custom_kubeconfig(read, &options).await;
                config.map_err(|error| unusable(&error))?
            }
            None => match (kube::Config::incluster(), &self.server) {
                (Ok(config), _) => config,
                (Err(_), Some(server)) => kube::Config::new(address(server)?),
                (Err(error), None) => return Err(unusable(&error)),
            },
        };
        if let Some(server) = &self.server {
            config.cluster_url = address(server)?;
        }
        config.connect_timeout = Some(CONNECT_PATIENCE);
        // The actors decide what is tried again, and when.
        config.default_retry = false;
        Client::try_from(config).map_err(|error| unusable(&error))
    }
}

fn address(server: &str) -> Result<hyper::Uri, ClusterError> {
    let text = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    text.parse().map_err(|error| {
        ClusterError::Unreachable(format!(
            "--k8s-api-server={server} is no address ({error}): write https://HOST:PORT"
        ))
    })
}

fn unusable(error: &dyn std::error::Error) -> ClusterError {
    ClusterError::Unreachable(format!("the way to it is not usable: {}", reported(error)))
}
