//! Who hears of endpoints, to tell the cluster or to lead nobody there any more, and what each hears.

use std::sync::Arc;

use crate::{
    endpoints::endpoint::{Announcement, EndpointState, EndpointView},
    host::Outlet,
    model::{Addresses, EndpointId},
};

/// What is said of an endpoint.
pub enum EndpointChange<T> {
    /// It is so now.
    Is(T),
    /// It is gone.
    Gone(EndpointId),
}

impl<T> EndpointChange<T> {
    /// Its name, for traces.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Is(_) => "Endpoint",
            Self::Gone(_) => "Gone",
        }
    }
}

/// An endpoint of this node comes, or ends: whether somebody answers at its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointAddresses {
    /// The addresses.
    pub addresses: Addresses,
    /// Whether it comes.
    pub answers: bool,
}

/// Who hears of endpoints.
pub enum Announcer {
    /// The owner of the store's addresses: hears whose an endpoint's addresses are, when that changes.
    Addresses(Outlet<EndpointChange<Announcement>>),
    /// Who keeps what the API server has of this node: hears of each change.
    Views(Outlet<EndpointChange<Arc<EndpointView>>>),
    /// Who leads connections to addresses: hears that an endpoint has some, or is about to have none.
    Users(Outlet<EndpointAddresses>),
}

impl Announcer {
    /// An endpoint is so now; `announced` is what was said last of whose its addresses are.
    pub(super) fn changed(&self, view: &Arc<EndpointView>, announced: &mut Option<Announcement>) {
        match self {
            Self::Views(outlet) => {
                say(outlet, EndpointChange::Is(Arc::clone(view)));
            }
            Self::Addresses(outlet) => {
                let announcement = view.announcement();
                // Until it is ready, its addresses are what they were; a policy, say, changes none.
                let is_known = announced.as_ref().is_some_and(|said| said.is(&announcement));
                if view.state.leads_to_ready() || is_known {
                    return;
                }
                let hears = say(outlet, EndpointChange::Is(announcement.clone()));
                *announced = hears.then_some(announcement);
            }
            Self::Users(outlet) => {
                if view.state == EndpointState::Disconnecting {
                    let addresses = view.spec.addresses;
                    say(outlet, EndpointAddresses { addresses, answers: false });
                }
            }
        }
    }

    /// An endpoint of this life comes: nobody else has its addresses.
    pub(super) fn comes(&self, view: &EndpointView) {
        if let Self::Users(outlet) = self {
            say(outlet, EndpointAddresses { addresses: view.spec.addresses, answers: true });
        }
    }

    /// An endpoint is gone.
    pub(super) fn gone(&self, id: EndpointId) {
        match self {
            Self::Addresses(outlet) => say(outlet, EndpointChange::Gone(id)),
            Self::Views(outlet) => say(outlet, EndpointChange::Gone(id)),
            // It heard when the end began.
            Self::Users(_) => true,
        };
    }
}

fn say<T>(outlet: &Outlet<T>, change: T) -> bool {
    let said = outlet.say(change);
    if let Err(refused) = &said {
        tracing::error!(%refused, "it is not heard how an endpoint is");
    }
    said.is_ok()
}
