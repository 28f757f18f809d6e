//! The JSON of a service as another cluster shares it: frontends, backends, and who may use them.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::ports::Pair;

/// A service of another cluster, as that one shares it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RemoteService {
    /// Its cluster.
    pub cluster: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where it is reached: ports by name, of each address.
    pub frontends: BTreeMap<IpAddr, BTreeMap<String, RemotePort>>,
    /// Who serves: ports by name, of each address.
    pub backends: BTreeMap<IpAddr, BTreeMap<String, RemotePort>>,
    /// Whether other clusters may use its backends.
    pub shared: bool,
    /// Whether it wants those of other clusters.
    pub include_external: bool,
}

/// A port of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RemotePort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Its number.
    pub port: u16,
}

impl RemoteService {
    /// Its namespace and name, if the key below `root` names a service.
    pub(crate) fn key(key: &str, root: &str) -> Option<(String, String)> {
        let (namespace, name) = key.strip_prefix(root)?.split_once('/')?;
        let is_one = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
        is_one.then(|| (namespace.to_owned(), name.to_owned()))
    }

    /// What a pair says of the service that its key names.
    pub(crate) fn read(
        pair: &Pair,
        cluster: &str,
        (namespace, name): &(String, String),
    ) -> Result<Self, String> {
        let service: Self =
            serde_json::from_slice(&pair.value).map_err(|error| error.to_string())?;
        let said = [&service.cluster, &service.namespace, &service.name].map(String::as_str);
        if said != [cluster, namespace, name] {
            return Err(format!("it is of {}", said.join("/")));
        }
        Ok(service)
    }
}
