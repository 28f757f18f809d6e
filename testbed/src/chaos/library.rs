//! Histories that come with the program, and files that somebody wrote.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::suggest;

/// A history's name and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// As it is asked for, or the path of its file.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A file below `testbed/histories`, by its name.
macro_rules! histories {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../histories/", $name, ".yaml")))),*]
    };
}

/// All that come with the program.
const ALL: &[(&str, &str)] = histories![
    "api-server-answers-rubbish",
    "api-server-in-trouble",
    "backends-change-while-killed",
    "clock-steps",
    "containerd-away",
    "descriptors-and-threads",
    "dies-at-a-message",
    "dies-before-every-tenth-call",
    "disk-fails",
    "disk-full",
    "disk-slow",
    "etcd-away",
    "etcd-in-trouble",
    "etcd-restored",
    "flags-change",
    "interface-removed",
    "kill-under-traffic",
    "killed-amid-a-commit",
    "labels-change-as-it-dies",
    "leases-end-while-cut-off",
    "links-removed",
    "log-full",
    "making-given-up",
    "memory-too-small",
    "pod-created-as-it-dies",
    "pod-created-while-restoring",
    "pod-deleted-while-dead",
    "pods-churn",
    "policy-changes-while-dead",
    "power-cut",
    "program-in-front",
    "record-torn",
    "recording-truncated",
    "restores-in-any-order",
    "routes-removed",
    "row-of-nobody",
    "rows-removed",
    "rules-removed",
    "same-name-another-pod",
    "stands-still",
    "state-directory-lost",
    "state-lost-while-api-server-away",
    "stopped-for-long",
    "supervisor-crashes",
    "unchanged-restart",
    "upgrade-and-back",
];

/// All that come with the program.
pub fn all() -> impl Iterator<Item = Source> {
    ALL.iter().map(|(name, text)| Source { name: (*name).into(), text: (*text).into() })
}

/// The one of that name, or the file there.
pub fn find(name: &str) -> Result<Source> {
    let is_file = name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml");
    if !is_file {
        if let Some(found) = all().find(|source| source.name == name) {
            return Ok(found);
        }
        if !Path::new(name).exists() {
            let remedy = match suggest::nearest(name, ALL.iter().map(|(name, _)| *name)) {
                Some(near) => format!("did you mean {near}?"),
                None => "testbed chaos list names them, and ./FILE is a file".to_owned(),
            };
            anyhow::bail!("there is no history {name}: {remedy}");
        }
    }
    let text =
        fs::read_to_string(name).with_context(|| format!("cannot read the history {name}"))?;
    Ok(Source { name: name.into(), text })
}
