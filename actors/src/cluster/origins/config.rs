//! Parses the configuration that a cluster writes of itself, and says why one cannot be read.

use serde::{Deserialize, Serialize};

use crate::{model::ClusterId, ports::Pair};

/// Below it: a cluster's name, and as value what it says of itself.
pub const CLUSTER_CONFIG: &str = "cilium/cluster-config/";
/// As many clusters as a mesh has by default; with more, identities have other numbers.
const CONNECTED_MAX: u32 = 255;

/// What a cluster says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ClusterConfig {
    pub(crate) id: ClusterId,
    /// Its store is a copy, which has each cluster below its name.
    pub(crate) cached: bool,
    /// It says when all of a kind is written.
    pub(crate) synced_canaries: bool,
}

/// Why a cluster is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It has not said what it is.
    #[error(
        "its store has no key {CLUSTER_CONFIG}{0}: its clustermesh-apiserver or its operator \
         writes that; look whether they run, and whether this is that cluster's store"
    )]
    Missing(String),
    /// What it says is not what Cilium writes.
    #[error("key {key} of its store: {cause}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong, and what to do.
        cause: String,
    },
    /// Its number is another cluster's.
    #[error(
        "its number {id} is that of cluster {other}, too: give one of them another --cluster-id"
    )]
    Taken {
        /// The number.
        id: ClusterId,
        /// Whose it is.
        other: String,
    },
}

#[derive(Deserialize)]
struct StoredClusterConfig {
    id: u32,
    #[serde(default)]
    capabilities: Capabilities,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Capabilities {
    synced_canaries: bool,
    max_connected_clusters: u32,
    cached: bool,
}

impl ClusterConfig {
    pub(crate) fn read(pair: &Pair) -> Result<Self, ConfigError> {
        let bad = |cause: String| ConfigError::Value { key: pair.key.clone(), cause };
        let said: StoredClusterConfig =
            serde_json::from_slice(&pair.value).map_err(|error| bad(error.to_string()))?;
        let Capabilities { synced_canaries, max_connected_clusters: most, cached } =
            said.capabilities;
        if most != 0 && most != CONNECTED_MAX {
            let cause = format!(
                "it counts on up to {most} clusters, this one on {CONNECTED_MAX}: say the same \
                 maxConnectedClusters for both"
            );
            return Err(bad(cause));
        }
        let id = u8::try_from(said.id).ok().filter(|id| *id != 0).ok_or_else(|| {
            bad(format!("its number is {}: give it one from 1 to 255 (--cluster-id)", said.id))
        })?;
        Ok(Self { id: ClusterId(id), cached, synced_canaries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Result<ClusterConfig, String> {
        let pair = Pair { key: "cilium/cluster-config/b".to_owned(), value: value.into() };
        ClusterConfig::read(&pair).map_err(|error| error.to_string())
    }

    #[test]
    fn a_cluster_says_its_number_and_where_its_keys_are() {
        let whole = r#"{"id":3,"capabilities":{"syncedCanaries":true,"maxConnectedClusters":255,
            "cached":true,"serviceExportsEnabled":false}}"#;
        let expected = ClusterConfig { id: ClusterId(3), cached: true, synced_canaries: true };
        assert_eq!(read(whole), Ok(expected));
        let expected = ClusterConfig { id: ClusterId(7), cached: false, synced_canaries: false };
        assert_eq!(read(r#"{"id":7}"#), Ok(expected));
    }

    #[test]
    fn what_it_cannot_be_is_named() {
        for (value, words) in [
            ("rubbish", "key cilium/cluster-config/b of its store: expected value"),
            (r#"{"capabilities":{}}"#, "missing field `id`"),
            (r#"{"id":0}"#, "its number is 0: give it one from 1 to 255"),
            (r#"{"id":300}"#, "its number is 300"),
            (r#"{"id":3,"capabilities":{"maxConnectedClusters":511}}"#, "up to 511 clusters"),
        ] {
            let error = read(value).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
