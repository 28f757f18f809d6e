//! What an Ingress says, as far as no proxy is needed for it.

use super::object::{ServicePort, number};
use crate::model::{
    Transport,
    field::{Fault, Field, Mapping},
};

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
pub(super) fn ingress<'a>(root: &Mapping<'a>) -> Result<Option<(&'a str, IngressBackend)>, Fault> {
    let metadata = root.need("metadata")?.any_mapping()?;
    let annotations = metadata.get("annotations").map(|field| field.any_mapping()).transpose()?;
    let Some(spec) = root.get("spec") else { return Ok(None) };
    let spec = spec.any_mapping()?;
    let has = |name| spec.list(name).map(|all| all.is_some_and(|all| !all.is_empty()));
    let is_classed = annotations.is_some_and(|all| all.get(CLASS).is_some())
        || spec.get("ingressClassName").is_some();
    if is_classed || has("rules")? || has("tls")? {
        return Ok(None);
    }
    if let Some(backend) = spec.get("defaultBackend") {
        let Some(service) = backend.any_mapping()?.get("service") else { return Ok(None) };
        let service = service.any_mapping()?;
        let port = service.need("port")?;
        let of = port.any_mapping()?;
        let port = match (of.get("number"), of.get("name")) {
            (Some(field), _) => PortOf::Number(number(&field)?),
            (None, Some(field)) => PortOf::Name(field.text()?.into()),
            (None, None) => return Err(port.fault("no port is named", "add number or name")),
        };
        return Ok(Some((service.need("name")?.text()?, IngressBackend { port })));
    }
    let Some(backend) = spec.get("backend") else { return Ok(None) };
    let backend = backend.any_mapping()?;
    let Some(service) = backend.get("serviceName") else { return Ok(None) };
    let port = either(&backend.need("servicePort")?)?;
    Ok(Some((service.text()?, IngressBackend { port })))
}

/// A port as older versions have it: a number, or a text that is a name.
fn either(field: &Field<'_>) -> Result<PortOf, Fault> {
    match field.value.as_str() {
        Some(name) => Ok(PortOf::Name(name.into())),
        None => number(field).map(PortOf::Number),
    }
}
