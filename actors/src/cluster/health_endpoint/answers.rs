//! What the owner of the health endpoint hears of its own questions, timers and ports.

use std::{net::IpAddr, sync::Arc};

use crate::{
    endpoints::{
        endpoint::{CreateError, EndpointView},
        ipam::{Allocated, IpamError},
        supervisor::DeleteError,
    },
    host::{AskError, Message},
    ports::{DiskError, Echo, HealthPlace, HealthPlaceError},
};

/// An answer of the port.
pub(super) type PlaceAnswer<T> = Result<Result<T, HealthPlaceError>, AskError>;

/// What the owner of the health endpoint hears.
pub enum HealthEndpointAnswer {
    /// Restored endpoints are programmed.
    Programmed(Result<bool, AskError>),
    /// Time to look.
    Look,
    /// What there is of its place.
    Looked(PlaceAnswer<Option<HealthPlace>>),
    /// Which health endpoints there are.
    Listed(Option<HealthPlace>, Result<Vec<Arc<EndpointView>>, AskError>),
    /// Whether somebody answers there.
    Answered(Result<Echo, AskError>),
    /// One of them is deleted, or is not.
    Deleted(Result<Result<u32, DeleteError>, AskError>),
    /// Nothing of a place is left.
    Removed(PlaceAnswer<()>),
    /// Whether it has that address again.
    Claimed(IpAddr, Result<Result<(), IpamError>, AskError>),
    /// It has another address.
    Allocated(Result<Result<Allocated, IpamError>, AskError>),
    /// There is a place.
    Made(PlaceAnswer<HealthPlace>),
    /// There is an endpoint.
    Created(Result<Result<Arc<EndpointView>, CreateError>, AskError>),
    /// Its addresses are kept for the next life.
    Kept(Result<Result<(), DiskError>, AskError>),
}

impl Message for HealthEndpointAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Programmed(_) => "Programmed",
            Self::Look => "Look",
            Self::Looked(_) => "Looked",
            Self::Listed(..) => "Listed",
            Self::Answered(_) => "Answered",
            Self::Deleted(_) => "Deleted",
            Self::Removed(_) => "Removed",
            Self::Claimed(..) => "Claimed",
            Self::Allocated(_) => "Allocated",
            Self::Made(_) => "Made",
            Self::Created(_) => "Created",
            Self::Kept(_) => "Kept",
        }
    }
}
