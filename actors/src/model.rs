//! The words that every actor shares: labels, identities, addresses, numbers.

mod address;
mod api_object;
pub mod drift;
mod endpoint_id;
mod endpoint_kind;
mod families;
mod fault;
mod feed;
pub(crate) mod field;
mod identity;
mod labels;
mod manifest;
mod named_ports;
mod node_facts;
mod node_key;
pub(crate) mod place;
mod policy_rows;
pub(crate) mod ranges;
pub(crate) mod repairs;
mod service;
mod timestamp;
mod tunnel;

pub use address::{Addresses, Mac, MacError};
pub use api_object::{ApiObject, MalformedObject, Readership};
pub use endpoint_id::{EndpointId, POOL_MAX};
pub use endpoint_kind::EndpointKind;
pub use families::Families;
pub use feed::Feed;
pub use identity::{ClusterId, IdentityId, IdentityScope};
pub use labels::{Label, LabelError, LabelSource, Labels};
pub use manifest::Manifest;
pub use named_ports::NamedPorts;
pub(crate) use named_ports::SharedPorts;
pub use node_facts::NodeFacts;
pub use node_key::NodeKey;
pub use policy_rows::{Direction, PolicyEntry, PolicyKey, PolicyRows, precedence};
pub use service::{
    BackendId, Frontend, L4Address, L4AddressError, LookupScope, ServiceId, Transport,
};
pub use timestamp::Timestamp;
pub use tunnel::Tunnel;
