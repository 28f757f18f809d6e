//! Who tells the cluster of endpoints, and what each of them hears.

use std::sync::Arc;

use crate::{
    endpoints::endpoint::{Announcement, EndpointView},
    host::Outlet,
    model::EndpointId,
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

/// Who tells the cluster of endpoints.
pub enum Announcer {
    /// The owner of the store's addresses: hears whose an endpoint's addresses are, when that changes.
    Addresses(Outlet<EndpointChange<Announcement>>),
    /// Who keeps what the API server has of this node: hears of each change.
    Views(Outlet<EndpointChange<Arc<EndpointView>>>),
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
        }
    }

    /// An endpoint is gone.
    pub(super) fn gone(&self, id: EndpointId) {
        match self {
            Self::Addresses(outlet) => say(outlet, EndpointChange::Gone(id)),
            Self::Views(outlet) => say(outlet, EndpointChange::Gone(id)),
        };
    }
}

fn say<T>(outlet: &Outlet<EndpointChange<T>>, change: EndpointChange<T>) -> bool {
    let said = outlet.say(change);
    if let Err(refused) = &said {
        tracing::error!(%refused, "the cluster does not hear how an endpoint is");
    }
    said.is_ok()
}
