//! The JSON Schema of histories, made from the grammar: editors know the words by it.

use serde_json::{Map, Value, json};

use super::grammar::{Field, HISTORY, Shape};

/// What the words of a step are called in the schema, which refers to itself.
const STEP: &str = "#/$defs/step";

/// The schema.
pub fn schema() -> Value {
    let mut schema = of(&HISTORY, false);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("A history of testbed chaos");
    schema["$defs"] = json!({ "step": of(&super::grammar::STEP, true) });
    schema
}

/// The schema of a shape; `is_step` says that a step is wanted itself, and not a reference to it.
fn of(shape: &Shape, is_step: bool) -> Value {
    match shape {
        Shape::Text => json!({ "type": ["string", "number", "boolean"] }),
        Shape::Pod => name("^[A-Za-z0-9.-]+(/[A-Za-z0-9.-]+)?$"),
        Shape::Target | Shape::Object => name("^[A-Za-z0-9.-]+(/[A-Za-z0-9.-]+){0,2}$"),
        Shape::Whole(from, to) => json!({ "type": "integer", "minimum": from, "maximum": to }),
        Shape::Time => name(r"^[0-9]+(\.[0-9]+)? *(ms|s|m|h)$"),
        Shape::Memory => name("^([1-9][0-9]{0,6} *(kB|MB)|well)$"),
        Shape::Limit => {
            json!({ "oneOf": [{ "type": "integer", "minimum": 0 }, { "const": "any" }] })
        }
        Shape::Labels => labels(),
        Shape::Pods => json!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9.-]+(/[A-Za-z0-9.-]+)?$" },
            "additionalProperties": { "oneOf": [labels(), { "type": "null" }] },
        }),
        Shape::Manifest => json!({
            "type": "object",
            "required": ["apiVersion", "kind", "metadata"],
            "properties": { "metadata": { "type": "object", "required": ["name"] } },
        }),
        Shape::Choice(choices) => {
            let each = choices.iter().map(|it| json!({ "const": it.0, "description": it.1 }));
            json!({ "oneOf": each.collect::<Vec<_>>() })
        }
        Shape::List(item) => json!({ "type": "array", "items": of(item, false) }),
        Shape::Many(item) => {
            let item = of(item, false);
            json!({ "anyOf": [item, { "type": "array", "items": item }] })
        }
        Shape::Fields(fields) => object(fields),
        Shape::Word(_) if !is_step && std::ptr::eq(shape, &super::grammar::STEP) => {
            json!({ "$ref": STEP })
        }
        Shape::Word(words) => word(words),
        Shape::Alone => json!({ "type": "null" }),
        Shape::MayBeAlone(shape) => json!({ "anyOf": [{ "type": "null" }, of(shape, false)] }),
        Shape::Either(value, fields) => json!({ "anyOf": [of(value, false), of(fields, false)] }),
    }
}

fn name(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

fn labels() -> Value {
    json!({
        "type": "object",
        "additionalProperties": { "type": ["string", "number", "boolean"] },
    })
}

fn properties(fields: &[Field]) -> Map<String, Value> {
    let each = fields.iter().map(|field| {
        let mut schema = of(&field.shape, false);
        schema["description"] = json!(field.about);
        (field.name.to_owned(), schema)
    });
    each.collect()
}

fn object(fields: &[Field]) -> Value {
    let must = fields.iter().filter(|field| field.must).map(|field| field.name);
    json!({
        "type": "object",
        "properties": properties(fields),
        "required": must.collect::<Vec<_>>(),
        "additionalProperties": false,
    })
}

/// One of these words: alone, or in front of its value.
fn word(words: &[Field]) -> Value {
    let is_alone = |field: &&Field| matches!(field.shape, Shape::Alone | Shape::MayBeAlone(_));
    let alone: Vec<_> = words.iter().filter(is_alone).map(|field| field.name).collect();
    let with_value = json!({
        "type": "object",
        "properties": properties(words),
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": false,
    });
    if alone.is_empty() { with_value } else { json!({ "anyOf": [{ "enum": alone }, with_value] }) }
}
