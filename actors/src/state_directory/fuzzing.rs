//! For the fuzzer: files of the state directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    EndpointRecord, IdentityChanges, IdentityTable, NodeCopy, NodeState, Slots, StateFiles, scan,
    seal,
};
use crate::ports::FsOp;

/// Reads a record in both forms, and one that is sealed as ours are. What is taken is written and
/// read as it was.
pub(crate) fn record(data: &[u8]) {
    let file = "442/ep_config.json";
    let sealed = serde_json::from_slice::<Value>(data).ok().filter(Value::is_object);
    let sealed = sealed.map(|value| seal::seal(&value, 7)).unwrap_or_default();
    let read = [
        EndpointRecord::from_json(file, data),
        EndpointRecord::from_json(file, &sealed),
        EndpointRecord::from_header(file, data),
    ];
    for record in read {
        match record {
            Err(error) => assert!(error.to_string().starts_with(file), "{error}"),
            Ok(record) => {
                let json = record.to_json();
                let again = EndpointRecord::from_json(file, &json).expect("it was just written");
                let header = record.to_header(&json);
                let header = EndpointRecord::from_header(file, &header).expect("written, too");
                // Not every fraction survives being written; nobody but another agent has one.
                if !has_fractions(&json) {
                    assert_eq!((&again, &header), (&record, &record));
                }
            }
        }
    }
}

fn has_fractions(json: &[u8]) -> bool {
    let text = String::from_utf8_lossy(json);
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = text.as_bytes();
    bytes
        .iter()
        .enumerate()
        .any(|(at, byte)| b".eE".contains(byte) && at > 0 && is_digit(bytes.get(at - 1)))
}

/// Files of a directory, out of one text: a line `=== path` begins each.
#[derive(Default)]
struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    fn new(data: &[u8]) -> Self {
        let mut files = Self::default();
        let mut path = None;
        for line in data.split_inclusive(|byte| *byte == b'\n') {
            match line.strip_prefix(b"=== ") {
                Some(name) => {
                    let name = String::from_utf8_lossy(name).trim().to_owned();
                    files.0.insert(name.clone(), Vec::new());
                    path = Some(name);
                }
                None => {
                    let content = path.as_ref().and_then(|path| files.0.get_mut(path));
                    content.into_iter().for_each(|content| content.extend(line));
                }
            }
        }
        files
    }
}

impl StateFiles for Files {
    fn directories(&self, path: &str) -> Result<Vec<String>, String> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let names = self.0.keys().filter_map(|file| file.strip_prefix(&prefix)?.split_once('/'));
        Ok(names.map(|(name, _)| name.to_owned()).collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.0.get(path).cloned())
    }
}

/// Reads all of a state directory.
pub(crate) fn directory(data: &[u8]) {
    let files = Files::new(data);
    let found = scan(&files);
    let mut ids = BTreeSet::new();
    for record in &found.records {
        assert!(ids.insert(record.record.id), "{} has two records", record.record.id);
    }
    for bad in &found.quarantined {
        assert!(!bad.reason.to_string().is_empty());
    }
    doubled(&NodeState::SLOTS, &files);
    doubled(&NodeCopy::SLOTS, &files);
    doubled(&IdentityTable::SLOTS, &files);
    doubled(&IdentityChanges::SLOTS, &files);
    let table = IdentityTable::load(&files).value.unwrap_or_default();
    table.ports_by_identity().count();
    let local = files.0.get(IdentityTable::CILIUM_LOCAL);
    local.into_iter().for_each(|bytes| drop(IdentityTable::local_from_cilium(bytes)));
}

/// Reads a double file as it is, and sealed as ours are.
fn doubled<T>(slots: &Slots<T>, files: &Files)
where
    T: Serialize + for<'de> Deserialize<'de> + PartialEq + Debug,
{
    let mut sealed = Files::default();
    for (nth, path) in slots.paths().into_iter().enumerate() {
        let value = files.0.get(&path).and_then(|bytes| serde_json::from_slice::<T>(bytes).ok());
        let bytes = value.map(|value| seal::seal(&value, nth as u32));
        sealed.0.extend(bytes.map(|bytes| (path, bytes)));
    }
    for files in [files, &sealed] {
        let Some(value) = slots.load(files).value else { continue };
        let FsOp::Write { path, bytes } = slots.save(&value, 6) else { continue };
        let path = path.to_string_lossy().into_owned();
        let written = Files([(path, bytes)].into());
        assert_eq!(slots.load(&written).value, Some(value));
    }
}
