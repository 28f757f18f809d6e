//! For the fuzzer: what other clusters write into their stores.

use crate::cluster::origins::ClusterConfig;
use crate::{ports::Pair, services::service_cache::RemoteService};

/// Reads a pair as a cluster's configuration and as a service's. A service is read as it was written.
pub(crate) fn pair(pair: &Pair) {
    if let Ok(config) = ClusterConfig::read(pair) {
        assert_ne!(config.id.0, 0, "a cluster of a mesh has a number");
    }
    let Some(key) = RemoteService::key(&pair.key, "cilium/state/services/v1/b/") else { return };
    if let Ok(service) = RemoteService::read(pair, "b", &key) {
        let value = serde_json::to_vec(&service).expect("plain data");
        let written = Pair { key: pair.key.clone(), value };
        assert_eq!(RemoteService::read(&written, "b", &key), Ok(service));
    }
}
