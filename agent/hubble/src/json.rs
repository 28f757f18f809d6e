//! Messages as JSON, as Hubble's tools write it and read it: members by their names in the API, numbers
//! of 64 bits as text, enumerations by name, moments as RFC 3339. What is not set is left out.

mod moment;

use serde_json::{Map, Number, Value};

pub use self::moment::{moment, parse_moment};
use crate::{
    messages::Timestamp,
    schema::{Field, Kind, Schema, name_of, number_of},
    wire::{Wire, members, put_bytes, put_number, varints},
};

/// How deep JSON may be that is read: as deep as messages are.
const DEPTH_MAX: usize = 8;

/// Why JSON is not the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct JsonError {
    path: String,
    problem: String,
}

/// The JSON of a message's bytes.
pub fn to_json(schema: &'static Schema, bytes: &[u8]) -> Value {
    let mut found: Map<String, Value> = Map::new();
    for (number, wire, _) in members(bytes) {
        let Some(field) = schema.numbered(number) else { continue };
        if !field.many {
            found.insert(field.name.to_owned(), value(&field.kind, wire));
            continue;
        }
        let list = found.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(list) = list else { continue };
        match (&field.kind, wire) {
            (Kind::Text | Kind::Message(_) | Kind::Timestamp | Kind::Wrapped(_), _) => {
                list.push(value(&field.kind, wire));
            }
            (kind, Wire::Bytes(packed)) => {
                list.extend(varints(packed).map(|it| value(kind, Wire::Varint(it))));
            }
            (kind, _) => list.push(value(kind, wire)),
        }
    }
    // In the API's order, whatever the order on the wire.
    let mut ordered = Map::new();
    for field in schema.fields {
        if let Some(value) = found.remove(field.name) {
            ordered.insert(field.name.to_owned(), value);
        }
    }
    Value::Object(ordered)
}

fn value(kind: &Kind, wire: Wire<'_>) -> Value {
    match (kind, wire) {
        (Kind::Bool, Wire::Varint(it)) => Value::Bool(it != 0),
        (Kind::U32, Wire::Varint(it)) => Value::from(it as u32),
        (Kind::I32, Wire::Varint(it)) => Value::from(it as i32),
        (Kind::U64, Wire::Varint(it)) => Value::String(it.to_string()),
        (Kind::I64, Wire::Varint(it)) => Value::String((it as i64).to_string()),
        (Kind::Double, Wire::Fixed64(it)) => {
            Number::from_f64(f64::from_bits(it)).map_or(Value::Null, Value::Number)
        }
        (Kind::Enum(names), Wire::Varint(it)) => {
            name_of(names, it as i32).map_or_else(|| Value::from(it as i32), Value::from)
        }
        (Kind::Text, Wire::Bytes(it)) => Value::String(String::from_utf8_lossy(it).into_owned()),
        (Kind::Message(schema), Wire::Bytes(it)) => to_json(schema, it),
        (Kind::Timestamp, Wire::Bytes(it)) => {
            let at = <Timestamp as prost::Message>::decode(it).unwrap_or_default();
            Value::String(moment(&at))
        }
        (Kind::Wrapped(inner), Wire::Bytes(it)) => {
            let found = members(it).find(|(number, ..)| *number == 1).map(|(_, wire, _)| wire);
            value(inner, found.unwrap_or(Wire::Varint(0)))
        }
        _ => Value::Null,
    }
}

/// The bytes of a message that JSON says.
pub fn from_json(schema: &'static Schema, json: &Value) -> Result<Vec<u8>, JsonError> {
    let mut bytes = Vec::new();
    put_object(&mut bytes, schema, json, "", DEPTH_MAX)?;
    Ok(bytes)
}

fn put_object(
    to: &mut Vec<u8>,
    schema: &'static Schema,
    json: &Value,
    path: &str,
    depth: usize,
) -> Result<(), JsonError> {
    let wrong = |path: &str, problem: &str| JsonError {
        path: if path.is_empty() { "JSON".to_owned() } else { path.to_owned() },
        problem: problem.to_owned(),
    };
    let Value::Object(object) = json else { return Err(wrong(path, "an object is wanted")) };
    if depth == 0 {
        return Err(wrong(path, "it is too deep"));
    }
    for (name, json) in object {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let camel = || schema.fields.iter().find(|field| camel_case(field.name) == *name);
        let field = schema.named(name).or_else(camel);
        let field = field.ok_or_else(|| wrong(&path, "there is no such member"))?;
        match (field.many, json) {
            (_, Value::Null) => {}
            (true, Value::Array(all)) => {
                for json in all {
                    put_value(to, field, json, &path, depth)?;
                }
            }
            (true, _) => return Err(wrong(&path, "a list is wanted")),
            (false, json) => put_value(to, field, json, &path, depth)?,
        }
    }
    Ok(())
}

fn put_value(
    to: &mut Vec<u8>,
    field: &'static Field,
    json: &Value,
    path: &str,
    depth: usize,
) -> Result<(), JsonError> {
    let wrong =
        |wanted: &str| JsonError { path: path.to_owned(), problem: format!("{wanted} is wanted") };
    let unsigned = || json.as_u64().or_else(|| json.as_str()?.parse().ok());
    let signed = || json.as_i64().or_else(|| json.as_str()?.parse().ok());
    let number = match field.kind {
        Kind::Bool => json.as_bool().map(u64::from).ok_or_else(|| wrong("true or false"))?,
        Kind::U32 => unsigned()
            .filter(|it| *it <= u32::MAX.into())
            .ok_or_else(|| wrong("a number from 0 to 4294967295"))?,
        Kind::U64 => unsigned().ok_or_else(|| wrong("a number that is not negative"))?,
        Kind::I32 => signed()
            .filter(|it| i32::try_from(*it).is_ok())
            .ok_or_else(|| wrong("a whole number of 32 bits"))? as u64,
        Kind::I64 => signed().ok_or_else(|| wrong("a whole number"))? as u64,
        Kind::Enum(names) => {
            let named = json.as_str().and_then(|name| number_of(names, name)).map(i64::from);
            let numbered = json.as_i64().filter(|it| i32::try_from(*it).is_ok());
            let known: Vec<_> = names.iter().take(9).map(|(_, name)| *name).collect();
            named.or(numbered).ok_or_else(|| wrong(&known.join(" or ")))? as u64
        }
        Kind::Text => {
            let text = json.as_str().ok_or_else(|| wrong("text"))?;
            put_bytes(to, field.number, text.as_bytes());
            return Ok(());
        }
        Kind::Message(schema) => {
            let mut inner = Vec::new();
            put_object(&mut inner, schema, json, path, depth - 1)?;
            put_bytes(to, field.number, &inner);
            return Ok(());
        }
        Kind::Timestamp => {
            let at = json.as_str().and_then(parse_moment);
            let at = at.ok_or_else(|| wrong("a moment as 2026-11-28T09:30:00Z"))?;
            put_bytes(to, field.number, &prost::Message::encode_to_vec(&at));
            return Ok(());
        }
        Kind::Wrapped(kind) => {
            static_wrapped(to, field.number, kind, json).ok_or_else(|| wrong("another value"))?;
            return Ok(());
        }
        Kind::Double => {
            let value = json.as_f64().ok_or_else(|| wrong("a number"))?;
            crate::wire::put_varint(to, u64::from(field.number) << 3 | 1);
            to.extend(value.to_le_bytes());
            return Ok(());
        }
    };
    put_number(to, field.number, number);
    Ok(())
}

fn static_wrapped(to: &mut Vec<u8>, number: u32, kind: &Kind, json: &Value) -> Option<()> {
    let value = match kind {
        Kind::Bool => u64::from(json.as_bool()?),
        Kind::U32 => u64::from(u32::try_from(json.as_u64()?).ok()?),
        Kind::I32 => i64::from(i32::try_from(json.as_i64()?).ok()?) as u64,
        _ => return None,
    };
    let mut inner = Vec::new();
    if value != 0 {
        put_number(&mut inner, 1, value);
    }
    put_bytes(to, number, &inner);
    Some(())
}

/// `sourcePod` of `source_pod`: JSON of the API may have either.
fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut upper = false;
    for letter in name.chars() {
        match letter {
            '_' => upper = true,
            letter if std::mem::take(&mut upper) => camel.push(letter.to_ascii_uppercase()),
            letter => camel.push(letter),
        }
    }
    camel
}

#[cfg(test)]
mod tests;
