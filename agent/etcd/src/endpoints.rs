//! What `--kvstore-opt` and the file that it may name make of etcd: servers, certificates, a user. They are
//! read here; connecting is left to the client.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{EtcdError, EtcdOptions};

/// Servers, and what they want to see.
#[derive(Clone, Debug, Default)]
pub struct Endpoints {
    /// Their addresses.
    pub servers: Vec<String>,
    /// Certificates, theirs and ours.
    pub tls: Option<Certificates>,
    /// Name and password.
    pub user: Option<(String, String)>,
}

impl Endpoints {
    /// What those options say now; files that they name are read.
    pub fn read(options: &EtcdOptions) -> Result<Self, EtcdError> {
        let mut endpoints = match &options.config {
            Some(path) => File::read(path)?.endpoints()?,
            None => Self::default(),
        };
        if let Some(address) = &options.address {
            endpoints.servers = vec![address.clone()];
        }
        if endpoints.servers.is_empty() {
            return Err(EtcdError::NoEndpoint);
        }
        // A certificate is for servers that have one.
        if endpoints.servers.iter().any(|server| server.starts_with("http://")) {
            endpoints.tls = None;
        }
        Ok(endpoints)
    }
}

/// Certificates, each as PEM.
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    /// Of whoever signed the servers' ones.
    pub authority: Option<Vec<u8>>,
    /// Ours, and its key.
    pub own: Option<(Vec<u8>, Vec<u8>)>,
}

/// The file that `etcd.config` names, as etcd's own clients read it; what else stands there is
/// left to them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct File {
    endpoints: Vec<String>,
    trusted_ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    username: Option<String>,
    password: Option<String>,
}

impl File {
    fn read(path: &Path) -> Result<Self, EtcdError> {
        let bad = |cause: String| EtcdError::File { path: path.to_owned(), cause };
        let text = fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        serde_norway::from_str(&text).map_err(|error| bad(error.to_string()))
    }

    fn endpoints(self) -> Result<Endpoints, EtcdError> {
        let read = |path: &PathBuf| {
            let cause = |error: std::io::Error| EtcdError::File {
                path: path.clone(),
                cause: error.to_string(),
            };
            fs::read(path).map_err(cause)
        };
        let authority = self.trusted_ca_file.as_ref().map(read).transpose()?;
        let own = match (&self.cert_file, &self.key_file) {
            (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
            _ => None,
        };
        let any = authority.is_some() || own.is_some();
        let tls = any.then_some(Certificates { authority, own });
        let password = self.password.unwrap_or_default();
        let user = self.username.map(|name| (name, password));
        Ok(Endpoints { servers: self.endpoints, tls, user })
    }
}
