//! Numbers of security identities: the reserved ones, and the range of each scope and cluster.
//! Who gets which number is decided elsewhere.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A security identity: the number that stands for a set of labels.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct IdentityId(pub u32);

/// Where an identity's number means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityScope {
    /// Reserved, well-known and cluster-wide numbers.
    Global,
    /// A prefix known on this node only: scope byte 0x01.
    LocalCidr,
    /// Another node as seen from this one: scope byte 0x02.
    RemoteNode,
}

impl IdentityId {
    /// No identity; in a policy row: any identity.
    pub const UNKNOWN: Self = Self(0);
    /// This node.
    pub const HOST: Self = Self(1);
    /// Everything outside the cluster, with one address family enabled.
    pub const WORLD: Self = Self(2);
    /// A pod that the agent does not manage.
    pub const UNMANAGED: Self = Self(3);
    /// The health endpoint.
    pub const HEALTH: Self = Self(4);
    /// An endpoint whose labels are not known yet.
    pub const INIT: Self = Self(5);
    /// Another node of the cluster.
    pub const REMOTE_NODE: Self = Self(6);
    /// The Kubernetes API server.
    pub const KUBE_APISERVER: Self = Self(7);
    /// An ingress proxy.
    pub const INGRESS: Self = Self(8);
    /// The world over IPv4, with both families enabled.
    pub const WORLD_IPV4: Self = Self(9);
    /// The world over IPv6, with both families enabled.
    pub const WORLD_IPV6: Self = Self(10);
    /// Lowest number for a set of labels.
    pub const MIN_CLUSTER: Self = Self(256);
    /// First number of a local prefix.
    pub const MIN_LOCAL_CIDR: Self = Self((1 << 24) + 1);
    /// Before the first number of another node.
    pub const MIN_REMOTE_NODE: Self = Self(2 << 24);
    /// The last number of another node.
    pub const MAX_REMOTE_NODE: Self = Self((3 << 24) - 1);

    /// Whether it is outside of the cluster: the world, or a prefix of it.
    pub fn is_outside(self) -> bool {
        matches!(self, Self::WORLD | Self::WORLD_IPV4 | Self::WORLD_IPV6)
            || self.scope() == IdentityScope::LocalCidr
    }

    /// Where this number means something.
    pub fn scope(self) -> IdentityScope {
        match self.0 >> 24 {
            0x01 => IdentityScope::LocalCidr,
            0x02 => IdentityScope::RemoteNode,
            _ => IdentityScope::Global,
        }
    }

    /// Whether the number is fixed for all time (reserved, well-known, or reserved by the user).
    pub fn is_reserved(self) -> bool {
        self.0 < Self::MIN_CLUSTER.0
    }
}

/// The number of a cluster. Numbers of identities begin with that of the cluster which hands them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId(pub u8);

impl ClusterId {
    /// That of a cluster which has none of its own.
    pub const MIN: Self = Self(0);
    /// The highest.
    pub const MAX: Self = Self(u8::MAX);
    /// Bits of an identity's number behind that of its cluster.
    const SHIFT: u32 = 16;

    /// The lowest number that it hands out.
    pub fn first(self) -> IdentityId {
        IdentityId(u32::from(self.0) << Self::SHIFT | IdentityId::MIN_CLUSTER.0)
    }

    /// The highest.
    pub fn last(self) -> IdentityId {
        IdentityId(u32::from(self.0) << Self::SHIFT | u32::from(u16::MAX))
    }

    /// Whether it hands that number out.
    pub fn hands_out(self, id: IdentityId) -> bool {
        (self.first()..=self.last()).contains(&id)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for IdentityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cluster_hands_out_numbers_of_its_own() {
        assert_eq!(
            (ClusterId(0).first(), ClusterId(0).last()),
            (IdentityId(256), IdentityId(65_535))
        );
        for (cluster, id) in [(1, 65_792), (7, 7 << 16 | 256), (255, (1 << 24) - 1)] {
            let (id, cluster) = (IdentityId(id), ClusterId(cluster));
            assert!(
                cluster.hands_out(id) && id.scope() == IdentityScope::Global && !id.is_reserved()
            );
            assert!(!ClusterId(cluster.0 - 1).hands_out(id), "{id}");
        }
        assert!(!ClusterId(7).hands_out(IdentityId(7 << 16 | 255)));
    }
}
