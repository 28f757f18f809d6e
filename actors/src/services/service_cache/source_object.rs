//! An object that says something of a service: from which source, of which kind, by which name.

use std::rc::Rc;

use super::host_port;

/// A service's namespace and name, as `namespace/name`.
pub(super) type Name = Rc<str>;

/// An object that says something of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServiceObjectKind {
    Service,
    EndpointSlice,
    Endpoints,
    Ingress,
    Pod,
}

/// An object: of which source it is, its kind, and its name as `namespace/name`.
pub(super) type SourceObject = (Rc<str>, ServiceObjectKind, Rc<str>);

/// The service that an object is of unless it names another.
pub(super) fn own_service((_, kind, name): &SourceObject) -> Name {
    match kind {
        ServiceObjectKind::Pod => host_port::service_of(name).into(),
        _ => Rc::clone(name),
    }
}
