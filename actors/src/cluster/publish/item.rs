//! The items that are published, in order of urgency, and the object that holds each of them.

use std::fmt;

use crate::{
    cluster::resources::further,
    model::Feed,
    ports::{ObjectKey, Resource},
};

/// Something that this node says of itself. What others wait for comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// The condition of its Node that its network is available.
    Condition,
    /// The taint of its Node that keeps pods away.
    Taint,
    /// Its CiliumNode.
    CiliumNode,
    /// The annotations of its Node.
    Annotations,
    /// The CiliumEndpoint of a pod.
    Endpoint(ObjectKey),
}

impl Item {
    /// All that is about the node.
    pub(super) const OF_NODE: [Self; 4] =
        [Self::Condition, Self::Taint, Self::CiliumNode, Self::Annotations];
}

impl Item {
    /// Where it stands.
    pub(super) fn place(&self, node: &str) -> (Resource, ObjectKey) {
        let (feed, key) = match self {
            Self::Condition | Self::Taint | Self::Annotations => (Feed::Node, own(node)),
            Self::CiliumNode => (Feed::CiliumNode, own(node)),
            Self::Endpoint(key) => (Feed::CiliumEndpoints, key.clone()),
        };
        let (_, mut forms) = further(node)
            .into_iter()
            .find(|(other, _)| *other == feed)
            .expect("each feed has its resource");
        (forms.remove(0), key)
    }
}

fn own(node: &str) -> ObjectKey {
    ObjectKey { namespace: String::new(), name: node.to_owned() }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition => f.write_str("condition NetworkUnavailable of the Node"),
            Self::Taint => f.write_str("taint of the Node"),
            Self::CiliumNode => f.write_str("CiliumNode"),
            Self::Annotations => f.write_str("annotations of the Node"),
            Self::Endpoint(key) => write!(f, "CiliumEndpoint {key}"),
        }
    }
}
