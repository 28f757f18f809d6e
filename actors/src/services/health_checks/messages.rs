//! Messages of the owner of health checks, and what it shows of each service.

use std::rc::Rc;

use serde::Serialize;

use crate::host::{Lane, Message, Reply};

/// Where load balancers ask for a service, and what of it is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HealthCheck {
    /// The port.
    pub port: u16,
    /// Pods of this node that take new connections.
    pub local_endpoints: usize,
}

/// The same for people and for REST.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HealthCheckView {
    /// The service, as `namespace/name`.
    pub service: String,
    /// What of it is here, and where it is asked for.
    #[serde(flatten)]
    pub check: HealthCheck,
    /// Why nobody can ask for it, and what to do.
    pub problem: Option<String>,
}

/// A service, as `namespace/name`, and how it is asked for; nothing if it is not.
pub type HealthChange = (Rc<str>, Option<HealthCheck>);

/// What the owner of health checks can be told.
pub enum HealthChecksMsg {
    /// Services are asked for like that from now on.
    Set {
        /// No others are asked for.
        all: bool,
        /// Those that are asked for in another way than before.
        changes: Vec<HealthChange>,
        /// Told once it is taken in.
        reply: Reply<()>,
    },
    /// Show all.
    Show(Reply<Vec<HealthCheckView>>),
}

impl Message for HealthChecksMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Set { .. } => "Set",
            Self::Show(_) => "Show",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::Show(_) => Lane::Control,
            // In order: what was said last counts.
            _ => Lane::Request,
        }
    }
}
