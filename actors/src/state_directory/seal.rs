//! Seals state files with a version, a generation and a checksum, and verifies them when read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

use super::StateError;

/// Version of our files. A reader accepts later ones: fields are added, never given a new meaning.
const VERSION: u32 = 1;

/// Our own key in a file; other readers ignore it.
const KEY: &str = "Volvox";

/// What we add to a file: which version wrote it, which writing it was, and a checksum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// Version of the format.
    pub(super) version: u32,
    /// Counts the writings of this file.
    pub(super) generation: u32,
    /// `crc32:` and eight hexadecimal digits, over the canonical JSON (keys sorted, no spaces) of
    /// everything in the file but this.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    checksum: String,
}

/// Writes a stamped file.
pub(super) fn seal(body: &impl Serialize, generation: u32) -> Vec<u8> {
    let mut document = serde_json::to_value(body).expect("our records have only text as keys");
    let stamp = Stamp { version: VERSION, generation, checksum: String::new() };
    set_stamp(&mut document, &stamp);
    let checksum = if has_fractions(&document) {
        // Reading back what a reader will read: not every fraction survives being written.
        let read = serde_json::from_slice(&to_bytes(&document)).expect("JSON just written");
        checksum(&read)
    } else {
        checksum(&document)
    };
    set_stamp(&mut document, &Stamp { checksum, ..stamp });
    to_bytes(&document)
}

/// The same for what is written with its keys sorted, all of them behind ours, and without
/// fractions: a table may be long, and need not be taken apart for that.
pub(super) fn seal_sorted(body: &impl Serialize, generation: u32) -> Vec<u8> {
    let body_bytes = serde_json::to_vec(body).expect("our tables have only text as keys");
    let stamp = format!("\"generation\":{generation},\"version\":{VERSION}}},");
    let rest = &body_bytes[1..];
    let begin = format!("{{\"{KEY}\":{{");
    let mut crc = crc32fast::Hasher::new();
    [begin.as_bytes(), stamp.as_bytes(), rest].into_iter().for_each(|part| crc.update(part));
    let checksum = format!("\"checksum\":\"crc32:{:08x}\",", crc.finalize());
    let sealed = [begin.as_bytes(), checksum.as_bytes(), stamp.as_bytes(), rest].concat();
    debug_assert_eq!(
        String::from_utf8_lossy(&sealed),
        String::from_utf8_lossy(&seal(body, generation)),
        "its keys are not sorted"
    );
    sealed
}

fn has_fractions(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(values) => values.iter().any(has_fractions),
        Value::Object(map) => map.values().any(has_fractions),
        _ => false,
    }
}

/// Reads a file: its record, and the stamp if there is one and it holds. Our key may still be among
/// the fields of a record that keeps those it does not know: it is for [`drop_stamp`].
///
/// Absent and `null` are the same, as they are to the Go programs that write such files.
pub(super) fn open<T: for<'de> Deserialize<'de>>(
    file: &str,
    bytes: &[u8],
) -> Result<(T, Option<Stamp>), StateError> {
    if let Some(stamp) = untouched(bytes)
        && let Ok(record) = serde_json::from_slice(bytes)
    {
        return Ok((record, Some(stamp)));
    }
    let (map, stamp) = verified(file, bytes)?;
    Ok((read(file, map)?, stamp))
}

/// Takes our key out of the fields that a record does not know.
pub(super) fn drop_stamp(foreign: &mut BTreeMap<String, Value>) {
    foreign.remove(KEY);
}

/// The stamp of a file that is to the byte as it was written. What [`seal`] writes is canonical but
/// for the checksum, so most files need not be taken apart and written anew to be verified.
fn untouched(bytes: &[u8]) -> Option<Stamp> {
    const MARK: &str = "\"checksum\":\"crc32:";
    let text = std::str::from_utf8(bytes).ok()?;
    // Within a text quotes have backslashes: this is a key.
    let at = text.rfind(&format!("\"{KEY}\":{{{MARK}"))? + KEY.len() + 4;
    let written = text.get(at + MARK.len()..at + MARK.len() + 8)?;
    let rest = text[at + MARK.len() + 8..].strip_prefix("\",")?;
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..at]);
    crc.update(rest.as_bytes());
    // Only the careful reading knows what `null` means.
    let holds = format!("{:08x}", crc.finalize()) == written && !text.contains(":null");
    let stamp = &text[at - 1..];
    let mut stamp = serde_json::Deserializer::from_str(stamp).into_iter();
    holds.then(|| stamp.next()?.ok()).flatten()
}

/// Reads a file: its content without our key, and the stamp if there is one and it holds.
fn verified(file: &str, bytes: &[u8]) -> Result<(Map<String, Value>, Option<Stamp>), StateError> {
    let syntax = |cause: String| StateError::Syntax { file: file.to_owned(), cause };
    let mut document: Value =
        serde_json::from_slice(bytes).map_err(|error| syntax(error.to_string()))?;
    let written = match document.get_mut(KEY) {
        Some(Value::Object(stamp)) => stamp.remove("checksum"),
        Some(_) => return Err(syntax(format!("{KEY} is no object"))),
        None => None,
    };
    let Some(written) = written else {
        return match document {
            Value::Object(map) if !map.contains_key(KEY) => Ok((map, None)),
            Value::Object(_) => Err(syntax(format!("{KEY} has no checksum"))),
            _ => Err(syntax("a JSON object is expected".to_owned())),
        };
    };
    let computed = checksum(&document);
    if written != computed.as_str() {
        let written = written.as_str().map_or_else(|| written.to_string(), str::to_owned);
        return Err(StateError::Checksum { file: file.to_owned(), written, computed });
    }
    let Value::Object(mut map) = document else {
        return Err(syntax("a JSON object is expected".to_owned()));
    };
    let stamp = map.remove(KEY).map(serde_json::from_value::<Stamp>).transpose();
    let stamp = stamp.map_err(|error| syntax(format!("{KEY}: {error}")))?;
    Ok((map, stamp))
}

/// Turns a file's content into a record; an error names the field.
fn read<T: for<'de> Deserialize<'de>>(
    file: &str,
    mut map: Map<String, Value>,
) -> Result<T, StateError> {
    map.retain(|_, value| !value.is_null());
    let document = Value::Object(map);
    // Keeping track of the path costs several times the reading, so only where it is desired.
    T::deserialize(&document).or_else(|_| {
        serde_path_to_error::deserialize(&document).map_err(|error| StateError::Field {
            file: file.to_owned(),
            field: error.path().to_string(),
            cause: error.into_inner().to_string(),
        })
    })
}

fn set_stamp(document: &mut Value, stamp: &Stamp) {
    let stamp = serde_json::to_value(stamp).expect("a stamp is plain data");
    document.as_object_mut().expect("our records are structs").insert(KEY.to_owned(), stamp);
}

fn to_bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a JSON value can be written")
}

fn checksum(value: &Value) -> String {
    let text = serde_json::to_vec(&Canonical(value)).expect("a JSON value can be written");
    format!("crc32:{:08x}", crc32fast::hash(&text))
}

/// Writes objects with their keys sorted, whichever order the JSON library keeps.
struct Canonical<'a>(&'a Value);

impl Serialize for Canonical<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => {
                let mut object = serializer.serialize_map(Some(map.len()))?;
                if map.keys().is_sorted() {
                    for (key, value) in map {
                        object.serialize_entry(key, &Canonical(value))?;
                    }
                    return object.end();
                }
                for (key, value) in map.iter().collect::<BTreeMap<_, _>>() {
                    object.serialize_entry(key, &Canonical(value))?;
                }
                object.end()
            }
            Value::Array(values) => serializer.collect_seq(values.iter().map(Canonical)),
            plain => plain.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Opened = Result<(Map<String, Value>, Option<Stamp>), StateError>;

    fn opened(bytes: &[u8]) -> Opened {
        let (mut map, stamp): (Map<String, Value>, _) = open("f", bytes)?;
        map.remove(KEY);
        Ok((map, stamp))
    }

    #[test]
    fn what_is_sealed_opens() {
        for (body, as_written) in [
            (json!({"b": [1, {"z": 0.1, "a": "x"}], "a": 1.0e-7}), true),
            (json!({"b": [1, {"z": 0.1, "a": null}], "a": 1.0e-7}), false),
            (json!({"A": {KEY: {"checksum": "crc32:00000000", "generation": 1}}}), true),
            (json!({"z": {KEY: {"checksum": "crc32:00000000", "generation": 1}}}), false),
        ] {
            let sealed = seal(&body, 7);
            assert_eq!(untouched(&sealed).is_some(), as_written, "{body}");
            for (map, stamp) in [opened(&sealed).unwrap(), verified("f", &sealed).unwrap()] {
                assert_eq!(Value::Object(map), body);
                let stamp = stamp.unwrap();
                assert_eq!((stamp.version, stamp.generation), (VERSION, 7));
            }
        }
    }

    #[test]
    fn order_and_spaces_do_not_matter_but_content_does() {
        let text = String::from_utf8(seal(&json!({"a": 1, "b": "x"}), 1)).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let spaced = serde_json::to_string_pretty(&value).unwrap();
        assert!(opened(spaced.as_bytes()).is_ok());
        for (from, to) in [("\"x\"", "\"y\""), ("\"generation\":1", "\"generation\":2")] {
            assert!(text.contains(from), "{text}");
            let error = opened(text.replace(from, to).as_bytes()).unwrap_err();
            assert!(matches!(error, StateError::Checksum { .. }), "{error}");
        }
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_noticed() {
        let sealed = seal(&json!({"ID": 442, "name": "web", "list": [1, 2.5, null]}), 3);
        let (whole, _) = opened(&sealed).unwrap();
        for at in 0..sealed.len() {
            assert!(opened(&sealed[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut flipped = sealed.clone();
                flipped[at] ^= 1 << bit;
                // A flip in our key's name makes the file a stranger's; elsewhere it is an error.
                if let Ok((map, stamp)) = opened(&flipped) {
                    assert!(stamp.is_none() || map == whole, "flip of bit {bit} at {at}");
                }
            }
        }
    }

    #[test]
    fn a_file_without_our_key_is_somebody_elses() {
        let (map, stamp) = opened(br#"{"ID": 1}"#).unwrap();
        assert_eq!((map.len(), stamp), (1, None));
    }

    #[test]
    fn a_later_version_is_read() {
        let text = String::from_utf8(seal(&json!({"a": 1}), 1)).unwrap();
        let mut value: Value = serde_json::from_str(&text).unwrap();
        value[KEY] = json!({"version": 9, "generation": 1, "more": true});
        let sum = checksum(&value);
        value[KEY]["checksum"] = json!(sum);
        let (_, stamp) = opened(&to_bytes(&value)).unwrap();
        assert_eq!(stamp.unwrap().version, 9);
    }

    #[test]
    fn what_is_no_object_or_half_stamped_is_refused() {
        for text in ["", "[]", "7", "{\"Volvox\":1}", "{\"Volvox\":{\"version\":1}}", "{\"a\":"] {
            assert!(matches!(opened(text.as_bytes()), Err(StateError::Syntax { .. })), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(opened(deep.as_bytes()).is_err());
    }
}
