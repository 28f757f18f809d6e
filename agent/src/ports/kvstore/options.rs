//! The options of `--kvstore-opt` and the file that they may name: servers, certificates, a user.
//! They are read here; connecting is left to the client.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use super::EtcdError;

/// Where etcd is and how it is spoken to, as `--kvstore-opt` says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EtcdOptions {
    /// A server.
    #[serde(rename = "etcd.address", skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// A file with servers, certificates and a user; read whenever a connection is made.
    #[serde(rename = "etcd.config", skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
}

/// A text that is no option of etcd.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is no option of etcd: write etcd.address=URL or etcd.config=FILE")]
pub struct OptionError {
    word: String,
}

impl EtcdOptions {
    /// Those of `self`, and of `other` what is missing.
    pub fn or(self, other: Self) -> Self {
        Self { address: self.address.or(other.address), config: self.config.or(other.config) }
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        match name.trim() {
            "etcd.address" => self.address = Some(value.trim().to_owned()),
            "etcd.config" => self.config = Some(value.trim().into()),
            _ => return Err(OptionError { word: name.to_owned() }),
        }
        Ok(())
    }

    /// What is to be connected to now.
    pub fn read(&self) -> Result<Endpoints, EtcdError> {
        let mut endpoints = match &self.config {
            Some(path) => File::read(path)?.endpoints()?,
            None => Endpoints::default(),
        };
        if let Some(address) = &self.address {
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

impl FromStr for EtcdOptions {
    type Err = OptionError;

    /// Reads `etcd.address=URL,etcd.config=FILE`, or the same as a JSON object.
    fn from_str(text: &str) -> Result<Self, OptionError> {
        let mut options = Self::default();
        if text.trim_start().starts_with('{') {
            let all: BTreeMap<String, String> = serde_json::from_str(text)
                .map_err(|error| OptionError { word: format!("{text}: {error}") })?;
            for (name, value) in &all {
                options.set(name, value)?;
            }
            return Ok(options);
        }
        for word in text.split(',').filter(|word| !word.trim().is_empty()) {
            let Some((name, value)) = word.split_once('=') else {
                return Err(OptionError { word: word.to_owned() });
            };
            options.set(name, value)?;
        }
        Ok(options)
    }
}

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
