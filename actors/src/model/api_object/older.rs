//! Older versions of Kubernetes' objects, which have no types any more, are turned into those that have.

use serde_json::{Map, Value, json};

use crate::model::{field::Fault, place::Place};

/// What is version 1 of an EndpointSlice of version 1beta1.
pub(super) fn endpoint_slice(slice: &mut Value) {
    let endpoints = slice.get_mut("endpoints").and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(topology) = endpoint.remove("topology") {
            endpoint.insert("deprecatedTopology".to_owned(), topology);
        }
    }
}

/// What is version 1 of an Ingress of older versions, where a backend names its service itself.
pub(super) fn ingress(ingress: &mut Value) -> Result<(), Fault> {
    let Some(spec) = ingress.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    let Some(Value::Object(backend)) = spec.remove("backend") else { return Ok(()) };
    if !spec.get("defaultBackend").is_none_or(Value::is_null) {
        return Ok(());
    }
    spec.insert("defaultBackend".to_owned(), self::backend(&backend)?);
    Ok(())
}

fn backend(backend: &Map<String, Value>) -> Result<Value, Fault> {
    let place = Place::ROOT.key("spec");
    let place = place.key("backend");
    let name = match backend.get("serviceName") {
        None | Some(Value::Null) => return Ok(json!({})),
        Some(Value::String(name)) => name,
        Some(_) => return Err(place.key("serviceName").fault("it is no text", "write text")),
    };
    let port = match backend.get("servicePort") {
        None | Some(Value::Null) => return Err(place.missing("servicePort")),
        Some(Value::String(name)) => json!({ "name": name }),
        Some(number) if number.as_u64().is_some_and(|it| (1..=65_535).contains(&it)) => {
            json!({ "number": number })
        }
        Some(other) => {
            return Err(place
                .key("servicePort")
                .fault(format!("{other} is no port"), "write a number from 1 to 65535"));
        }
    };
    Ok(json!({ "service": { "name": name, "port": port } }))
}
