//! The options of `--kvstore-opt`.

use std::{collections::BTreeMap, path::PathBuf, str::FromStr};

use serde::Serialize;

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
