//! Disk operations that commit, remove or quarantine an endpoint's record, and the names that they
//! use. A port does them.

use std::path::{Path, PathBuf};

use super::EndpointRecord;
use crate::{model::EndpointId, ports::FsOp};

/// The preferred form of a record.
pub(super) const JSON_FILE: &str = "ep_config.json";
/// The form of 1.9.
pub(super) const HEADER_FILE: &str = "ep_config.h";
/// The form of 1.5.
pub(super) const OLD_HEADER_FILE: &str = "lxc_config.h";

/// Where bad records are kept.
pub(super) const QUARANTINE: &str = "quarantine";

/// Steps that put a record in place. After a crash behind any of them `<id>` or, if there was none
/// before, `<id>_next` holds a whole record or nothing yet.
pub fn commit_plan(record: &EndpointRecord) -> Vec<FsOp> {
    let [current, next, failed] = directories(record.id);
    let json = record.to_json();
    let header = record.to_header(&json);
    vec![
        FsOp::Remove(next.clone()),
        FsOp::MakeDir(next.clone()),
        FsOp::Write { path: next.join(JSON_FILE), bytes: json },
        FsOp::Write { path: next.join(HEADER_FILE), bytes: header },
        FsOp::LinkMissing { from: current.clone(), to: next.clone() },
        FsOp::Exchange(next.clone(), current),
        FsOp::Remove(failed),
        FsOp::Remove(next),
    ]
}

/// Steps that remove an endpoint's record; what would be taken for it in its absence goes first.
pub fn remove_plan(id: EndpointId) -> Vec<FsOp> {
    let [current, next, failed] = directories(id);
    [failed, next, current].map(FsOp::Remove).into()
}

/// Steps that put a directory aside as evidence, with the reason beside it. `number` makes the
/// place free: nothing in quarantine is ever overwritten. Done twice, they are as if done once.
pub fn quarantine_plan(dir: &str, number: u32, reason: &str) -> Vec<FsOp> {
    let place = quarantine_place(dir, number);
    vec![
        FsOp::MakeDir(PathBuf::from(QUARANTINE)),
        FsOp::Rename(PathBuf::from(dir), place.clone()),
        FsOp::MakeDir(place.clone()),
        FsOp::Write { path: place.join("reason.txt"), bytes: format!("{reason}\n").into_bytes() },
    ]
}

pub(super) fn quarantine_place(dir: &str, number: u32) -> PathBuf {
    Path::new(QUARANTINE).join(format!("{dir}.{number}"))
}

/// An endpoint's directory, that of a build under way and that of a build that failed.
fn directories(id: EndpointId) -> [PathBuf; 3] {
    ["", "_next", "_next_fail"].map(|suffix| PathBuf::from(format!("{id}{suffix}")))
}
