//! Messages to the owner of the health endpoint, and what it shows.

use serde::Serialize;

use crate::{
    host::{Lane, Message, Reply},
    model::{Addresses, EndpointId},
};

/// How the health endpoint stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HealthEndpointView {
    /// Its number; none until it is there.
    pub endpoint: Option<EndpointId>,
    /// Its addresses, or those that it had.
    pub addresses: Addresses,
    /// How often it was made in this life of the agent.
    pub made: u64,
    /// Why it is not as it should be.
    pub error: Option<String>,
}

/// What the owner of the health endpoint can be told.
pub enum HealthEndpointMsg {
    /// Show how it stands.
    Show(Reply<HealthEndpointView>),
}

impl Message for HealthEndpointMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Show(_) => "Show",
        }
    }

    fn lane(&self) -> Lane {
        Lane::Control
    }
}
