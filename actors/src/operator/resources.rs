//! Which objects an operator asks the API server for.

use super::news::FollowedKind;
use crate::ports::{Reader, Resource};

const DEFAULTS: Resource = Resource {
    name: "",
    path: "",
    api_version: "cilium.io/v2",
    kind: "",
    fields: None,
    labels: None,
    definition: None,
    reader: Reader::Operator,
};

/// Pods that did not end: one that ended holds nothing any more.
pub(super) const LIVING: &str = "status.phase!=Failed,status.phase!=Succeeded";

/// What is always followed.
pub(super) const ALWAYS: [FollowedKind; 5] = [
    FollowedKind::Nodes,
    FollowedKind::CiliumNodes,
    FollowedKind::Pods,
    FollowedKind::Endpoints,
    FollowedKind::Identities,
];

impl FollowedKind {
    pub(super) fn resource(self) -> Resource {
        match self {
            Self::Pods | Self::AgentPods => Resource { fields: Some(LIVING.to_owned()), ..pods() },
            Self::Nodes => nodes(),
            Self::Endpoints => Resource {
                name: "ciliumendpoints",
                path: "/apis/cilium.io/v2/ciliumendpoints",
                kind: "CiliumEndpoint",
                definition: Some("ciliumendpoints.cilium.io"),
                ..DEFAULTS
            },
            Self::Identities => Resource {
                name: "ciliumidentities",
                path: "/apis/cilium.io/v2/ciliumidentities",
                kind: "CiliumIdentity",
                definition: Some("ciliumidentities.cilium.io"),
                ..DEFAULTS
            },
            Self::PodPools => Resource {
                name: "ciliumpodippools",
                path: "/apis/cilium.io/v2alpha1/ciliumpodippools",
                api_version: "cilium.io/v2alpha1",
                kind: "CiliumPodIPPool",
                definition: Some("ciliumpodippools.cilium.io"),
                ..DEFAULTS
            },
            Self::CiliumNodes => Resource {
                name: "ciliumnodes",
                path: "/apis/cilium.io/v2/ciliumnodes",
                kind: "CiliumNode",
                definition: Some("ciliumnodes.cilium.io"),
                ..DEFAULTS
            },
        }
    }
}

pub(super) fn pods() -> Resource {
    Resource { name: "pods", path: "/api/v1/pods", api_version: "v1", kind: "Pod", ..DEFAULTS }
}

pub(super) fn nodes() -> Resource {
    Resource { name: "nodes", path: "/api/v1/nodes", api_version: "v1", kind: "Node", ..DEFAULTS }
}

pub(super) fn leases() -> Resource {
    Resource {
        name: "leases",
        path: "/apis/coordination.k8s.io/v1/leases",
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        ..DEFAULTS
    }
}
