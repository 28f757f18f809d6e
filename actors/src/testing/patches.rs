//! What an API server does with patches, as far as an agent sends them.

use serde_json::{Value, json};

/// RFC 7386.
pub(super) fn merge(object: Value, patch: &Value) -> Value {
    let Value::Object(members) = patch else { return patch.clone() };
    let mut merged = match object {
        Value::Object(object) => object,
        _ => Default::default(),
    };
    for (name, value) in members {
        let before = merged.remove(name).unwrap_or_default();
        if !value.is_null() {
            merged.insert(name.clone(), merge(before, value));
        }
    }
    Value::Object(merged)
}

/// The same, but conditions are told apart by their type.
pub(super) fn strategic(object: Value, patch: &Value) -> Value {
    let mut all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    for new in patch["status"]["conditions"].as_array().into_iter().flatten() {
        match all.iter_mut().find(|known| known["type"] == new["type"]) {
            Some(known) => *known = merge(known.take(), new),
            None => all.push(new.clone()),
        }
    }
    let mut merged = merge(object, patch);
    if !all.is_empty() {
        merged["status"]["conditions"] = json!(all);
    }
    merged
}

/// RFC 6902: tests and replacements.
pub(super) fn patch(mut object: Value, patch: &Value) -> Result<Value, String> {
    for step in patch.as_array().into_iter().flatten() {
        let path = step["path"].as_str().unwrap_or_default();
        let place = object.pointer_mut(path).ok_or(format!("there is no {path}"))?;
        match step["op"].as_str() {
            Some("test") if *place == step["value"] => {}
            Some("test") => return Err(format!("testing value {path} failed")),
            Some("replace") => *place = step["value"].clone(),
            other => return Err(format!("operation {other:?} is not understood")),
        }
    }
    Ok(object)
}
