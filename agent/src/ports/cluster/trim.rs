use serde_json::{Map, Value};
use volvox_actors::ports::{Object, ObjectKey, Resource};

/// What somebody reads of an object,
const PARTS: [&str; 3] = ["metadata", "spec", "specs"];
/// of what every object has,
const METADATA: [&str; 4] = ["labels", "name", "namespace", "uid"];
/// of a pod,
const POD: [&str; 3] = ["containers", "initContainers", "serviceAccountName"];
/// and of its containers.
const CONTAINER: [&str; 3] = ["name", "ports", "restartPolicy"];

/// Which object it is; `None` if it does not say so.
pub(super) fn key(value: &Value) -> Option<ObjectKey> {
    let text = |name| value.get("metadata")?.get(name)?.as_str();
    let name = text("name").filter(|name| !name.is_empty())?.to_owned();
    Some(ObjectKey { namespace: text("namespace").unwrap_or_default().to_owned(), name })
}

/// As much of an object as is read. Objects of a list do not say of what kind they are.
pub(super) fn object(resource: &Resource, mut value: Value) -> Option<Object> {
    let Some(key) = key(&value) else {
        tracing::warn!(resource = resource.name, "an object without a name is left out");
        return None;
    };
    let object = value.as_object_mut()?;
    keep(object, &PARTS);
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        keep(metadata, &METADATA);
    }
    match resource.kind {
        "Namespace" => drop(object.remove("spec")),
        "Pod" => {
            if let Some(Value::Object(spec)) = object.get_mut("spec") {
                keep(spec, &POD);
                let lists = spec.values_mut().filter_map(Value::as_array_mut);
                lists
                    .flatten()
                    .filter_map(Value::as_object_mut)
                    .for_each(|it| keep(it, &CONTAINER));
            }
        }
        _ => {}
    }
    object.insert("apiVersion".to_owned(), resource.api_version.into());
    object.insert("kind".to_owned(), resource.kind.into());
    Some(Object { key, value })
}

fn keep(map: &mut Map<String, Value>, names: &[&str]) {
    map.retain(|name, _| names.contains(&name.as_str()));
}
