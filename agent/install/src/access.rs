//! How the API server is found: the kubeconfig that is named, or the one that kubectl would take, or
//! the service account of the pod.

use std::{
    env,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

// One version of the API must be chosen for kube, and that is done by a feature of this crate.
use k8s_openapi as _;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use volvox_system::causes::reported;

use crate::{InstallError, server::Server};

/// How long a connection may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// How long the server may be silent over an answer.
const READ_PATIENCE: Duration = Duration::from_secs(60);
/// The port of `https`.
const HTTPS: u16 = 443;

/// Which cluster is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The kubeconfig; if none is named, that of `KUBECONFIG`, or of the home directory.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it; if none is named, the one that it says.
    pub context: Option<String>,
}

/// A cluster that can be asked.
pub struct Cluster {
    server: Server,
    /// Where its address comes from.
    source: String,
    host: String,
    port: u16,
}

impl Access {
    /// Reads how the cluster is reached; asks it nothing.
    pub async fn open(&self) -> Result<Cluster, InstallError> {
        let mut source = self.source();
        let unusable = |source: &str, error: &dyn std::error::Error| InstallError::Access {
            source_of: source.to_owned(),
            cause: reported(error),
        };
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let mut config = match read {
            Ok(read) => {
                let context = self.context.clone().or_else(|| read.current_context.clone());
                source = format!("{source}, context {}", context.as_deref().unwrap_or("none"));
                let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
                let config = Config::from_custom_kubeconfig(read, &options).await;
                config.map_err(|error| unusable(&source, &error))?
            }
            Err(error) if self.kubeconfig.is_some() || env::var_os("KUBECONFIG").is_some() => {
                return Err(unusable(&source, &error));
            }
            Err(error) => match Config::incluster() {
                Ok(config) => {
                    "the pod's service account".clone_into(&mut source);
                    config
                }
                Err(_) => return Err(unusable(&source, &error)),
            },
        };
        config.connect_timeout = Some(CONNECT_PATIENCE);
        config.read_timeout = Some(READ_PATIENCE);
        config.reset_reader_on_write = true;
        config.default_retry = false;
        let address = config.cluster_url.clone();
        let host = address.host().unwrap_or_default();
        let host = host.trim_matches(['[', ']']).to_owned();
        let port = address.port_u16().unwrap_or(HTTPS);
        let client = Client::try_from(config).map_err(|error| unusable(&source, &error))?;
        let name = format!("the API server {address} of {source}");
        Ok(Cluster { server: Server::new(client, name), source, host, port })
    }

    fn source(&self) -> String {
        if let Some(path) = &self.kubeconfig {
            return format!("kubeconfig {}", path.display());
        }
        if let Some(paths) = env::var_os("KUBECONFIG") {
            return format!("kubeconfig {}", Path::new(&paths).display());
        }
        let home = env::home_dir().unwrap_or_default();
        format!("kubeconfig {}", home.join(".kube/config").display())
    }
}

impl Cluster {
    /// A cluster behind a client that somebody else made.
    #[cfg(test)]
    pub(crate) fn of(client: Client, host: &str, port: u16) -> Self {
        let server = Server::new(client, "the API server of the test".to_owned());
        Self { server, source: "the test".to_owned(), host: host.to_owned(), port }
    }

    /// Asks its API server.
    pub fn client(&self) -> &Client {
        self.server.client()
    }

    /// Its API server's address and who names it, for errors.
    pub fn server_name(&self) -> &str {
        self.server.name()
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Where its address comes from.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Its address, and where that comes from.
    pub(crate) fn name(&self) -> String {
        format!("{}:{} of {}", self.host, self.port, self.source)
    }

    /// Where pods of other machines reach it, too; `None` if the address is one of this machine alone.
    pub(crate) fn address_for_pods(&self) -> Option<(&str, u16)> {
        let address: Option<IpAddr> = self.host.parse().ok();
        let local = address.is_some_and(|it| it.is_loopback() || it.is_unspecified())
            || self.host == "localhost"
            || self.host.is_empty();
        (!local).then_some((&self.host, self.port))
    }
}
