//! `volvox get`: the same lists and things by kubectl's word.

use clap::Subcommand;

use super::{
    BackendCommand, Command, EndpointCommand, EndpointName, IdentityCommand, NodeCommand,
    PolicyCommand, ServiceCommand,
};
use crate::output::{Listing, Watch};

#[derive(Debug, Subcommand)]
pub(crate) enum GetCommand {
    /// Endpoints, or one
    #[command(visible_aliases = ["endpoint", "ep"])]
    Endpoints {
        /// One, however it is called
        #[arg(value_name = "ENDPOINT")]
        id: Option<String>,
        #[command(flatten)]
        listing: Listing,
    },
    /// Services, or one
    #[command(visible_aliases = ["service", "svc"])]
    Services {
        /// One, by its number
        id: Option<u16>,
        #[command(flatten)]
        listing: Listing,
    },
    /// Backends of services
    #[command(visible_alias = "backend")]
    Backends(Watch),
    /// Identities, or one
    #[command(visible_aliases = ["identity", "id"])]
    Identities {
        /// One, by its number
        id: Option<u32>,
        #[command(flatten)]
        listing: Listing,
    },
    /// This node and those that it knows
    #[command(visible_aliases = ["node", "no"])]
    Nodes(Watch),
    /// Policies, and how each stands
    #[command(visible_aliases = ["policy", "cnp", "netpol"])]
    Policies(Listing),
}

impl From<GetCommand> for Command {
    fn from(command: GetCommand) -> Self {
        match command {
            GetCommand::Endpoints { id: Some(id), .. } => {
                Self::Endpoint(EndpointCommand::Get { endpoint: EndpointName { id } })
            }
            GetCommand::Endpoints { id: None, listing } => {
                Self::Endpoint(EndpointCommand::List { listing, labels: Vec::new() })
            }
            GetCommand::Services { id: Some(id), .. } => Self::Service(ServiceCommand::Get { id }),
            GetCommand::Services { id: None, listing } => {
                Self::Service(ServiceCommand::List(listing))
            }
            GetCommand::Backends(watch) => Self::Backend(BackendCommand::List(watch)),
            GetCommand::Identities { id: Some(id), .. } => {
                Self::Identity(IdentityCommand::Get { id })
            }
            GetCommand::Identities { id: None, listing } => {
                Self::Identity(IdentityCommand::List { listing, labels: Vec::new() })
            }
            GetCommand::Nodes(watch) => Self::Node(NodeCommand::List { watch }),
            GetCommand::Policies(listing) => Self::Policy(PolicyCommand::Status(listing)),
        }
    }
}
