//! Messages of the endpoint supervisor: what it can be asked, what it answers, and its errors.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{Abandoned, Regenerations};
use crate::{
    endpoints::{
        endpoint::{
            CreateError, EndpointNews, EndpointSpec, EndpointView, Level, Patch, PatchError,
            RestoredEndpoint,
        },
        supervisor::Announcer,
        workloads::WorkloadsNews,
    },
    host::{Lane, Message, Reply},
    model::{EndpointId, Labels},
    policy::rules::PolicyNews,
    ports::{Notices, RuntimePod},
};

/// Which endpoint is meant, by any of the prefixes of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointReference {
    /// `cilium-local:` or a bare number.
    Id(EndpointId),
    /// `container-id:`
    ContainerId(String),
    /// `container-name:`
    ContainerName(String),
    /// `cni-attachment-id:`, `CONTAINER:INTERFACE`
    AttachmentId(String),
    /// `pod-name:` and `cep-name:`, `namespace/pod`
    Pod(String),
    /// `ipv4:` and `ipv6:`
    Address(IpAddr),
}

/// There is no such endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("endpoint not found")]
pub struct NotFound;

/// Why an endpoint was not deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeleteError {
    /// There is none: HTTP 404.
    #[error("endpoint not found")]
    NotFound,
    /// Restored endpoints are not all known yet: HTTP 503.
    #[error("{0}")]
    NotReady(String),
    /// It is none that may be deleted: HTTP 400.
    #[error("{0}")]
    Refused(String),
}

/// What the supervisor of endpoints can be told.
pub enum EndpointsMsg {
    /// Make an endpoint; answered when it is built if `sync`, else when it is accepted.
    Create {
        /// What it is made of.
        spec: Box<EndpointSpec>,
        /// Answer only when the datapath does what is desired.
        sync: bool,
        /// Where the answer goes.
        reply: Reply<Result<Arc<EndpointView>, CreateError>>,
    },
    /// Change an endpoint.
    Patch {
        /// Which.
        target: EndpointReference,
        /// The change.
        patch: Box<Patch>,
        /// Where the answer goes, once the change is in force.
        reply: Reply<Result<Arc<EndpointView>, PatchError>>,
    },
    /// Delete an endpoint; answered with the number of things that could not be cleaned up.
    Delete {
        /// Which.
        target: EndpointReference,
        /// Where the answer goes.
        reply: Reply<Result<u32, DeleteError>>,
    },
    /// Show one endpoint.
    Get {
        /// Which.
        target: EndpointReference,
        /// Where the answer goes.
        reply: Reply<Result<Arc<EndpointView>, NotFound>>,
    },
    /// Show all endpoints that have all these labels, by number.
    List {
        /// Labels that are desired; empty is all.
        labels: Labels,
        /// Where the answer goes.
        reply: Reply<Vec<Arc<EndpointView>>>,
    },
    /// Ask the kernel how one endpoint stands, or all do; answered once what it says is taken in.
    Verify {
        /// Which; none is all.
        target: Option<EndpointReference>,
        /// Where the answer goes: whether there was any of whom the kernel could be asked.
        reply: Reply<bool>,
    },
    /// From the kernel, unasked: something changed at interfaces or routes.
    Disturbed(Notices),
    /// Show how many builds there were.
    Regenerations(Reply<Regenerations>),
    /// Build an endpoint again.
    Regenerate {
        /// Which.
        target: EndpointReference,
        /// How much of it.
        level: Level,
        /// Why, for its log.
        reason: Arc<str>,
        /// Where the answer goes, once it is built.
        reply: Reply<Result<Arc<EndpointView>, PatchError>>,
    },
    /// From the owner of the policy.
    Policy(PolicyNews),
    /// From the restore supervisor: take these over. Answered when all are spawned.
    Restore {
        /// The endpoints.
        endpoints: Vec<RestoredEndpoint>,
        /// Numbers that are not to be used until what is left of them is removed: each is then
        /// reported as [`EndpointNews::Gone`].
        withheld: BTreeSet<EndpointId>,
        /// Whether there is to be a host endpoint: one is made if none comes back.
        host: bool,
        /// Where the answer goes.
        reply: Reply<()>,
    },
    /// From the restore supervisor: addresses are reserved, policy is read, go. Answered with
    /// each endpoint's outcome once all have settled.
    RegenerateRestored {
        /// Where the answer goes.
        reply: Reply<BTreeMap<EndpointId, Result<(), Arc<str>>>>,
    },
    /// From the restore supervisor: answered once each of these is built without a failure, or
    /// gone.
    AwaitBuilt {
        /// The endpoints.
        endpoints: BTreeSet<EndpointId>,
        /// Where the answer goes.
        reply: Reply<()>,
    },
    /// From the workloads: what the cluster says of pods and of this node.
    Workloads(WorkloadsNews),
    /// From an endpoint.
    Endpoint(EndpointNews),
    /// Somebody who tells the cluster of endpoints: hears of each change.
    AnnounceTo(Announcer),
    /// From the restore supervisor: nothing is left of earlier runs that nobody claims.
    Cleaned,
    /// Look now at what the kernel holds of all endpoints, out of turn.
    Look,
    /// From who follows the container runtime: these containers are gone. Answered once the kernel was
    /// asked for the interfaces of their endpoints.
    Abandoned {
        /// Their identifiers.
        containers: BTreeSet<String>,
        /// Where the answer goes.
        reply: Reply<Abandoned>,
    },
    /// From who follows the container runtime: whose sandbox a container is.
    Introduce {
        /// Its identifier.
        container: String,
        /// The pod.
        pod: RuntimePod,
    },
}

impl Message for EndpointsMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Create { .. } => "Create",
            Self::Patch { .. } => "Patch",
            Self::Delete { .. } => "Delete",
            Self::Get { .. } => "Get",
            Self::List { .. } => "List",
            Self::Verify { .. } => "Verify",
            Self::Disturbed(_) => "Disturbed",
            Self::Regenerations(_) => "Regenerations",
            Self::Regenerate { .. } => "Regenerate",
            Self::Policy(news) => news.kind(),
            Self::Restore { .. } => "Restore",
            Self::RegenerateRestored { .. } => "RegenerateRestored",
            Self::AwaitBuilt { .. } => "AwaitBuilt",
            Self::Workloads(news) => news.kind(),
            Self::Endpoint(news) => news.kind(),
            Self::AnnounceTo(_) => "AnnounceTo",
            Self::Cleaned => "Cleaned",
            Self::Look => "Look",
            Self::Abandoned { .. } => "Abandoned",
            Self::Introduce { .. } => "Introduce",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::Create { .. } | Self::Patch { .. } | Self::Delete { .. } => Lane::Request,
            Self::Get { .. } | Self::List { .. } | Self::Verify { .. } => Lane::Request,
            Self::Regenerate { .. } => Lane::Request,
            // In the order in which the owner of the policy told them.
            Self::Policy(PolicyNews::PolicyChanged { .. } | PolicyNews::Revision(_)) => {
                Lane::Regeneration
            }
            Self::Workloads(_) => Lane::Regeneration,
            Self::Endpoint(EndpointNews::LookAgain(_)) => Lane::Request,
            _ => Lane::Control,
        }
    }
}
