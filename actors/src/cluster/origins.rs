//! Other clusters as those see them who keep what they say: which there are, what each says of itself,
//! and what it has reported so far.

mod config;
mod origin;
mod reported;

pub(crate) use config::ClusterConfig;
pub use config::{CLUSTER_CONFIG, ConfigError};
pub use origin::{ClusterOrigin, RemoteKind};
pub(crate) use reported::{Clusters, Reported};
