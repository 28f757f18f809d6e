//! Names in a file, so that flows of before a restart have theirs. What the file lacks or has wrong costs
//! names of such flows, and nothing else.

use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use prost::Message;

use super::{Names, versions::Version};
use crate::messages::{FlowEndpoint, FlowPolicy, now};

/// The largest file that is read, bytes.
const FILE_MAX: u64 = 64 << 20;

/// Why names are not kept.
#[derive(Debug, thiserror::Error)]
#[error("names of flows are not kept for after a restart: write {}: {cause}; make --state-dir writable", .path.display())]
pub struct NamesFileError {
    path: PathBuf,
    cause: io::Error,
}

#[derive(Clone, PartialEq, Message)]
struct Kept {
    #[prost(message, repeated, tag = "1")]
    endpoints: Vec<KeptEndpoint>,
    #[prost(message, repeated, tag = "2")]
    identities: Vec<KeptIdentity>,
    #[prost(message, repeated, tag = "3")]
    policies: Vec<KeptPolicies>,
    /// When it was written.
    #[prost(fixed64, tag = "4")]
    written: u64,
}

#[derive(Clone, PartialEq, Message)]
struct KeptEndpoint {
    #[prost(string, tag = "1")]
    address: String,
    #[prost(fixed64, tag = "2")]
    from: u64,
    #[prost(fixed64, tag = "3")]
    until: u64,
    #[prost(message, optional, tag = "4")]
    value: Option<FlowEndpoint>,
}

#[derive(Clone, PartialEq, Message)]
struct KeptIdentity {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(fixed64, tag = "2")]
    from: u64,
    #[prost(fixed64, tag = "3")]
    until: u64,
    #[prost(string, repeated, tag = "4")]
    labels: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct KeptPolicies {
    #[prost(uint32, tag = "1")]
    cookie: u32,
    #[prost(fixed64, tag = "2")]
    from: u64,
    #[prost(fixed64, tag = "3")]
    until: u64,
    #[prost(message, repeated, tag = "4")]
    policies: Vec<FlowPolicy>,
}

impl Names {
    /// Takes up what an earlier life kept. Each name counts as known until the file was written.
    pub fn restore(&mut self, path: &Path) {
        let is_read = fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= FILE_MAX);
        let Some(kept) = is_read.then(|| fs::read(path).ok()).flatten() else { return };
        if !self.restore_bytes(&kept) {
            tracing::warn!(file = %path.display(), "names of earlier flows are lost: it has others");
        }
    }

    /// The same of its bytes; false if they are not such a file's.
    pub(crate) fn restore_bytes(&mut self, kept: &[u8]) -> bool {
        let Ok(kept) = Kept::decode(kept) else { return false };
        // The agent that wrote it lived on for a while.
        let until = now().max(kept.written);
        for KeptEndpoint { address, from, until: end, value } in kept.endpoints {
            let (Ok(address), Some(value)) = (address.parse::<IpAddr>(), value) else { continue };
            let version = Version { span: from..end, value: Arc::new(value) };
            self.endpoints.restore(address, version, until);
        }
        for KeptIdentity { id, from, until: end, labels } in kept.identities {
            let version = Version { span: from..end, value: Arc::new(labels) };
            self.identities.restore(id, version, until);
        }
        for KeptPolicies { cookie, from, until: end, policies } in kept.policies {
            let version = Version { span: from..end, value: Arc::new(policies) };
            self.policies.restore(cookie, version, until);
        }
        true
    }

    /// The bytes to keep, if they are others than before.
    pub fn to_keep(&mut self) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let endpoints = self.endpoints.iter().map(|(address, version)| KeptEndpoint {
            address: address.to_string(),
            from: version.span.start,
            until: version.span.end,
            value: Some(FlowEndpoint::clone(&version.value)),
        });
        let identities = self.identities.iter().map(|(id, version)| KeptIdentity {
            id: *id,
            from: version.span.start,
            until: version.span.end,
            labels: version.value.to_vec(),
        });
        let policies = self.policies.iter().map(|(cookie, version)| KeptPolicies {
            cookie: *cookie,
            from: version.span.start,
            until: version.span.end,
            policies: version.value.to_vec(),
        });
        let kept = Kept {
            endpoints: endpoints.collect(),
            identities: identities.collect(),
            policies: policies.collect(),
            written: now(),
        };
        Some(kept.encode_to_vec())
    }

    /// Writes them: whoever reads sees the old ones or the new ones.
    pub fn write(path: &Path, bytes: &[u8]) -> Result<(), NamesFileError> {
        let beside = path.with_extension("new");
        let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
        written.map_err(|cause| {
            let _ = fs::remove_file(&beside);
            NamesFileError { path: path.to_owned(), cause }
        })
    }
}
