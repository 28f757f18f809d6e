//! What an Ingress says, as far as no proxy is needed for it.

use k8s_openapi::api::networking::v1::Ingress;

use super::object::{ServicePort, number};
use crate::model::{Transport, field::Fault, place::Place};

/// Annotation of older Ingresses that says who serves them.
const CLASS: &str = "kubernetes.io/ingress.class";

/// Where an Ingress leads that names nothing but one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IngressBackend {
    port: PortOf,
}

/// A port of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PortOf {
    Number(u16),
    Name(Box<str>),
}

impl IngressBackend {
    /// Whether it leads to that port of its service.
    pub(super) fn means(&self, port: &ServicePort) -> bool {
        let by_tcp = port.transport == Transport::TCP || port.transport == Transport::ANY;
        let is_it = match &self.port {
            PortOf::Number(number) => *number == port.port,
            PortOf::Name(name) => *name == port.name,
        };
        by_tcp && is_it
    }

    /// The port as people write it.
    pub(super) fn port(&self) -> String {
        match &self.port {
            PortOf::Number(number) => number.to_string(),
            PortOf::Name(name) => format!("{name:?}"),
        }
    }
}

/// Reads an Ingress: the name of its service, and the port. `None` if there is more to it than one
/// service, which wants a proxy, or if somebody else is named who serves it.
pub(super) fn ingress(ingress: &Ingress) -> Result<Option<(&str, IngressBackend)>, Fault> {
    let Some(spec) = &ingress.spec else { return Ok(None) };
    let is_classed = spec.ingress_class_name.is_some()
        || ingress.metadata.annotations.iter().any(|all| all.contains_key(CLASS));
    let has_rules = spec.rules.as_ref().is_some_and(|all| !all.is_empty());
    let has_tls = spec.tls.as_ref().is_some_and(|all| !all.is_empty());
    if is_classed || has_rules || has_tls {
        return Ok(None);
    }
    let backend = spec.default_backend.as_ref();
    let Some(service) = backend.and_then(|backend| backend.service.as_ref()) else {
        return Ok(None);
    };
    let at = Place::ROOT.key("spec");
    let at = at.key("defaultBackend");
    let at = at.key("service");
    let Some(port) = &service.port else { return Err(at.missing("port")) };
    let place = at.key("port");
    let port = match (port.number, &port.name) {
        (Some(said), _) => PortOf::Number(number(&place.key("number"), said)?),
        (None, Some(name)) => PortOf::Name(name.as_str().into()),
        (None, None) => return Err(place.fault("no port is named", "add number or name")),
    };
    Ok(Some((at.need("name", &service.name)?, IngressBackend { port })))
}
