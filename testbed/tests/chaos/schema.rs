//! Tests: the schema that is shipped is the one of the words, and takes what the reader takes.

use std::fs;

use serde_json::Value;
use volvox_testbed::chaos::{self, History};

use super::path;

/// Whether a value is as a schema has it: the keywords that ours uses, and no other one.
fn is_valid(root: &Value, schema: &Value, value: &Value) -> bool {
    let members = schema.as_object().expect("a schema has keywords");
    let any = |list: &Value| -> usize {
        let list = list.as_array().expect("a list");
        list.iter().filter(|schema| is_valid(root, schema, value)).count()
    };
    members.iter().all(|(keyword, rule)| match keyword.as_str() {
        "$schema" | "title" | "description" | "$defs" => true,
        "$ref" => {
            let name = rule.as_str().and_then(|it| it.strip_prefix("#/$defs/")).expect("ours");
            is_valid(root, &root["$defs"][name], value)
        }
        "type" => match rule {
            Value::Array(types) => types.iter().any(|it| is_of_type(it, value)),
            one => is_of_type(one, value),
        },
        "const" => rule == value,
        "enum" => rule.as_array().expect("a list").contains(value),
        "oneOf" => any(rule) == 1,
        "anyOf" => any(rule) > 0,
        "minimum" => value.as_i64().is_none_or(|it| it >= rule.as_i64().expect("a number")),
        "maximum" => value.as_i64().is_none_or(|it| it <= rule.as_i64().expect("a number")),
        "pattern" => value.as_str().is_none_or(|it| matches(rule, it)),
        "items" => value.as_array().is_none_or(|it| it.iter().all(|it| is_valid(root, rule, it))),
        "minProperties" => {
            value.as_object().is_none_or(|it| it.len() as u64 >= rule.as_u64().expect("a number"))
        }
        "maxProperties" => {
            value.as_object().is_none_or(|it| it.len() as u64 <= rule.as_u64().expect("a number"))
        }
        "required" => value.as_object().is_none_or(|it| {
            rule.as_array()
                .expect("a list")
                .iter()
                .all(|name| it.contains_key(name.as_str().expect("a text")))
        }),
        "propertyNames" => value
            .as_object()
            .is_none_or(|it| it.keys().all(|key| is_valid(root, rule, &key.as_str().into()))),
        "properties" => value.as_object().is_none_or(|it| {
            let rules = rule.as_object().expect("schemas");
            let known = it.iter().filter_map(|(key, value)| Some((rules.get(key)?, value)));
            known.into_iter().all(|(rule, value)| is_valid(root, rule, value))
        }),
        "additionalProperties" => value.as_object().is_none_or(|it| {
            let known = members.get("properties").and_then(Value::as_object);
            let others = it.iter().filter(|(key, _)| known.is_none_or(|it| !it.contains_key(*key)));
            others.into_iter().all(|(_, value)| match rule {
                Value::Bool(allowed) => *allowed,
                schema => is_valid(root, schema, value),
            })
        }),
        other => panic!("the test does not know the keyword {other}"),
    })
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("no type {other}"),
    }
}

fn matches(pattern: &Value, text: &str) -> bool {
    let pattern = pattern.as_str().expect("a pattern");
    regex_lite::Regex::new(pattern).expect("a right pattern").is_match(text)
}

#[test]
fn the_file_is_what_the_program_prints() {
    let file = path("histories/schema.json");
    let shipped = fs::read_to_string(&file).expect("it is shipped");
    let printed = serde_json::to_string_pretty(&chaos::schema()).unwrap() + "\n";
    assert_eq!(shipped, printed, "run: cargo testbed chaos schema > testbed/histories/schema.json");
}

#[test]
fn every_history_is_valid() {
    let schema = chaos::schema();
    for source in chaos::all() {
        let value: Value = serde_norway::from_str(&source.text).expect("it is YAML");
        assert!(is_valid(&schema, &schema, &value), "{}", source.name);
    }
}

#[test]
fn schema_and_reader_refuse_the_same() {
    let schema = chaos::schema();
    let bad = [
        "steps: []",
        "about: x",
        "about: x\nsteps: kill",
        "about: x\nsteps: [kil]",
        "about: x\nsteps: [create]",
        "about: x\nsteps: [{kill: {}, start: {}}]",
        "about: x\nsteps: [{stop: now}]",
        "about: x\nsteps: [{sleep: -1s}]",
        "about: x\nsteps: [{sleep: {within: soon}}]",
        "about: x\nsteps: [{wait: forever}]",
        "about: x\nsteps: [{repeat: {times: 2, steps: [nap]}}]",
        "about: x\nsteps: [{fault: {disk: wet}}]",
        "about: x\nsteps: [{fault: {memory: 3}}]",
        "about: x\nservers: [containerd]\nsteps: [{fault: {containerd: busy}}]",
        "about: x\nsteps: [{fault: {clock: 1h}}]",
        "about: x\nsteps: []\nexpect: {lost: few}",
        "about: x\nsteps: []\nexpect: {guarantees: [11]}",
        "about: x\nsteps: []\npods: {a: web}",
        "about: x\nsteps: []\ntraffic: [{from: a, to: b}]",
        "about: x\nsteps: []\nmanifests: [{kind: Service}]",
        "about: x\nsteps: []\nservers: [zookeeper]",
        "about: x\nsteps: []\nwords: 1",
    ];
    for text in bad {
        assert!(History::read("bad", text).is_err(), "the reader takes {text}");
        let value: Value = serde_norway::from_str(text).expect("it is YAML");
        assert!(!is_valid(&schema, &schema, &value), "the schema takes {text}");
    }
    let good = "about: x\nsteps: [kill, start, {restart: }, {kill: {after: 1.5 s}}]";
    assert!(History::read("good", good).is_ok());
    let value: Value = serde_norway::from_str(good).expect("it is YAML");
    assert!(is_valid(&schema, &schema, &value));
}
