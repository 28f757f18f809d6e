//! Manifests as text: YAML or JSON, taken apart into objects.

use serde::Deserialize;
use serde_json::Value;

/// Reads the objects of a text, YAML or JSON; lists are taken apart.
pub fn objects(text: &str) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    for document in serde_norway::Deserializer::from_str(text) {
        let value = Value::deserialize(document).map_err(|error| error.to_string())?;
        match value {
            // An empty document, such as what follows the last separator.
            Value::Null => {}
            Value::Object(mut list) if is_list(&list) => match list.remove("items") {
                Some(Value::Array(items)) => objects.extend(items),
                _ => return Err("a list without items".to_owned()),
            },
            object => objects.push(object),
        }
    }
    Ok(objects)
}

fn is_list(object: &serde_json::Map<String, Value>) -> bool {
    object.contains_key("items")
        && object.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_documents_and_takes_lists_apart() {
        let text = "kind: Pod\nmetadata: {name: a}\n---\nkind: List\nitems:\n- kind: Pod\n---\n";
        let kinds: Vec<Value> = objects(text).unwrap();
        assert_eq!(kinds.len(), 2);
        assert!(objects("{]").is_err());
        assert!(objects("kind: List\nitems: 3").is_err());
    }
}
