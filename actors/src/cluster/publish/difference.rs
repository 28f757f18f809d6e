//! JSON merge patches: from what the API server has to what it should have.

use serde_json::{Map, Value};

/// The JSON merge patch that brings `desired` into `have`, whatever else is in there; `None` if it
/// is there.
pub(super) fn lacking(have: &Value, desired: &Value) -> Option<Value> {
    let Some(members) = desired.as_object() else {
        return (have != desired).then(|| desired.clone());
    };
    let differing = members.iter().filter_map(|(name, value)| {
        let patch = lacking(have.get(name).unwrap_or(&Value::Null), value)?;
        Some((name.clone(), patch))
    });
    let patch: Map<String, Value> = differing.collect();
    // A member that is to be empty must be there at least.
    (!patch.is_empty() || !have.is_object()).then_some(Value::Object(patch))
}

/// The same, but nothing else may be in there.
pub(super) fn differing(have: &Value, desired: &Value) -> Option<Value> {
    let (Some(had), Some(members)) = (have.as_object(), desired.as_object()) else {
        return (have != desired).then(|| desired.clone());
    };
    let surplus = had.keys().filter(|name| !members.contains_key(*name));
    let mut patch: Map<String, Value> = surplus.map(|name| (name.clone(), Value::Null)).collect();
    patch.extend(members.iter().filter_map(|(name, value)| {
        let patch = differing(had.get(name).unwrap_or(&Value::Null), value)?;
        Some((name.clone(), patch))
    }));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_not_there_is_in_the_patch() {
        let have = json!({ "a": 1, "b": { "c": [1], "other": 2 }, "more": 3 });
        assert_eq!(lacking(&have, &json!({ "a": 1, "b": { "c": [1] } })), None);
        let patch = lacking(&have, &json!({ "a": 1, "b": { "c": [2], "d": {} } }));
        assert_eq!(patch, Some(json!({ "b": { "c": [2], "d": {} } })));
        assert_eq!(
            lacking(&Value::Null, &json!({ "a": { "b": 1 } })),
            Some(json!({ "a": { "b": 1 } }))
        );
    }

    #[test]
    fn what_is_too_much_is_taken_out_where_nothing_else_may_be() {
        let have = json!({ "a": 1, "b": { "c": 1, "old": 2 } });
        let patch = differing(&have, &json!({ "a": 1, "b": { "c": 3 } }));
        assert_eq!(patch, Some(json!({ "b": { "c": 3, "old": null } })));
        assert_eq!(differing(&have, &have), None);
        assert_eq!(differing(&Value::Null, &json!({ "a": 1 })), Some(json!({ "a": 1 })));
    }
}
