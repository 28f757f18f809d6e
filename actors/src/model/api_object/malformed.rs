//! An object of Kubernetes that is not what its type says: who it is, as far as that can be read, what is wrong
//! with it, and what to do about that.

use std::fmt;

use serde_json::Value;

use super::parts::{PathStep, Trail};
use crate::model::field::{Fault, Field};

/// An object that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct MalformedObject {
    /// Its kind.
    pub kind: &'static str,
    pub(crate) fault: Fault,
    /// As it was written.
    value: Value,
}

impl MalformedObject {
    pub(super) fn new(kind: &'static str, fault: Fault, value: Value) -> Self {
        Self { kind, fault, value }
    }

    /// The object as it was written.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }
}

impl fmt::Display for MalformedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        match name(&self.value) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}")?,
            (_, Some(name)) => write!(f, " {name}")?,
            _ => {}
        }
        let Fault { path, problem, remedy } = &self.fault;
        write!(f, ": {path}: {problem}: {remedy}")
    }
}

/// Namespace and name of an object, as far as they are text.
pub(super) fn name(object: &Value) -> (Option<&str>, Option<&str>) {
    let metadata = object.get("metadata");
    let text = |name| metadata?.get(name)?.as_str();
    (text("namespace"), text("name"))
}

/// What is wrong with an object that could not be read, and where.
pub(super) fn fault(trail: Trail, error: &serde_json::Error, object: &Value) -> Fault {
    let (steps, known) = trail.end();
    let steps: Vec<PathStep> = steps.collect();
    let mut at = Field::root(object);
    for step in &steps {
        at = match step {
            PathStep::Key(key) => at.inside(key),
            PathStep::Index(index) => at.member(*index),
        };
    }
    let error = error.to_string();
    // The text that was read is not the one that somebody wrote.
    let said = error.rsplit_once(" at line ").map_or(error.as_str(), |(said, _)| said);
    if let Some(known) = known {
        return at.fault(said, format!("remove it or correct its name; known here: {known}"));
    }
    let what =
        ["invalid type: ", "invalid value: "].into_iter().find_map(|it| said.strip_prefix(it));
    match what.and_then(|what| what.rsplit_once(", expected ")).map(|(_, wanted)| wanted) {
        Some("a string") => at.text().err().unwrap_or_else(|| at.wants("text")),
        Some("a boolean") => at.wants("true or false"),
        Some("a sequence") => at.wants("a list"),
        Some("i32" | "i64") => number(&at),
        Some("IntOrString") => at.wants("a number or text"),
        Some(shape) if shape == "a map" || shape.starts_with("struct ") || is_name(shape) => {
            at.wants("a mapping")
        }
        _ => at.fault(said, "correct it"),
    }
}

/// What is wrong with what should be a number.
fn number(at: &Field<'_>) -> Fault {
    match at.value {
        Value::Number(number) => at.fault(
            format!("{number} is no whole number of 32 bits"),
            "write a whole number, as in 80",
        ),
        Value::String(text) if text.parse::<i32>().is_ok() => {
            at.fault(format!("{text:?} is text"), format!("remove the quotes: {text}"))
        }
        _ => at.wants("a whole number"),
    }
}

/// Whether that is how a type is called.
fn is_name(shape: &str) -> bool {
    shape.starts_with(|letter: char| letter.is_ascii_uppercase())
        && shape.chars().all(|letter| letter.is_ascii_alphanumeric())
}
