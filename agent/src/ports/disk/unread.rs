//! What could not be read is not absent: nothing is written over it.

use std::{
    collections::BTreeSet,
    io,
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use volvox_actors::ports::{DiskError, FsOp};

/// What the start could not read, and what may therefore not be written before another start can.
#[derive(Clone, Debug, Default)]
pub struct Unread(Arc<Mutex<Retained>>);

#[derive(Debug, Default)]
struct Retained {
    /// Names in the state directory, and below `lib/`, without what tells writings apart.
    names: BTreeSet<String>,
    /// Whether the state directory could not be listed: whatever stands there is unread.
    all: bool,
    /// What was written since, or proved absent.
    own: BTreeSet<String>,
}

impl Unread {
    /// That could not be read: an endpoint's number, or the beginning of a file's name.
    pub fn keep(&self, name: impl Into<String>) {
        self.with(|retained| retained.names.insert(name.into()));
    }

    /// The state directory could not be listed.
    pub fn keep_all(&self) {
        self.with(|retained| retained.all = true);
    }

    /// Refuses to write over it. To remove an endpoint that is gone is fine: that it is gone is
    /// known from elsewhere.
    pub(super) fn check(&self, state: &Path, ops: &[FsOp]) -> Result<(), DiskError> {
        let removes = ops.iter().all(|op| matches!(op, FsOp::Remove(_)));
        self.with(|retained| {
            for path in ops.iter().flat_map(targets) {
                let name = name_of(path);
                if removes {
                    retained.names.remove(&name);
                    retained.own.insert(name);
                } else if retained.is_unread(state, &name) {
                    return Err(refusal(path));
                } else if retained.all {
                    retained.own.insert(name);
                }
            }
            Ok(())
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Retained) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Retained {
    fn is_unread(&self, state: &Path, name: &str) -> bool {
        if self.names.contains(name) {
            return true;
        }
        let is_endpoint = name.parse::<u16>().is_ok();
        let is_absent = || match state.join(name).symlink_metadata() {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(_) => false,
        };
        self.all && is_endpoint && !self.own.contains(name) && !is_absent()
    }
}

/// What a wish writes, or takes away.
fn targets(op: &FsOp) -> Vec<&PathBuf> {
    match op {
        FsOp::MakeDir(path) | FsOp::Remove(path) => vec![path],
        FsOp::Write { path, .. } => vec![path],
        FsOp::LinkMissing { to, .. } => vec![to],
        FsOp::Exchange(one, other) | FsOp::Rename(one, other) => vec![one, other],
    }
}

/// An endpoint's number, whichever of its directories it is; of a file in two copies what they have
/// in common.
fn name_of(path: &Path) -> String {
    let mut parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    let first = parts.next().unwrap_or_default();
    if first == "lib" {
        return format!("lib/{}", stem(&parts.next().unwrap_or_default()));
    }
    let number = first.trim_end_matches("_fail").trim_end_matches("_next");
    if number.parse::<u16>().is_ok() { number.to_owned() } else { stem(&first).to_owned() }
}

/// `identities` of `identities.changes.1.json`.
fn stem(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

fn refusal(path: &Path) -> DiskError {
    DiskError {
        op: "write",
        path: path.to_owned(),
        cause: "what stands there could not be read at the start, and is not written over"
            .to_owned(),
        remedy: "check its rights and the disk, then restart the agent",
    }
}

#[cfg(test)]
mod tests {
    use volvox_actors::{
        model::EndpointId,
        state_directory::{EndpointRecord, IdentityTable, NodeState, commit_plan, remove_plan},
    };

    use super::*;

    fn record(id: u16) -> Vec<FsOp> {
        commit_plan(&EndpointRecord { id: EndpointId(id), ..EndpointRecord::default() })
    }

    #[test]
    fn a_record_that_was_not_read_stays_until_its_endpoint_goes() {
        let unread = Unread::default();
        unread.keep("7");
        let check = |ops: &[FsOp]| unread.check(Path::new("/none/such"), ops);
        let text = check(&record(7)).unwrap_err().to_string();
        assert!(text.contains("could not be read") && text.contains("restart"), "{text}");
        check(&record(77)).unwrap();
        check(&remove_plan(EndpointId(7))).unwrap();
        check(&record(7)).unwrap();
    }

    #[test]
    fn of_a_directory_that_was_not_listed_all_stays_that_was_there() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("7")).unwrap();
        let unread = Unread::default();
        unread.keep_all();
        assert!(unread.check(dir.path(), &record(7)).is_err());
        unread.check(dir.path(), &record(8)).unwrap();
        std::fs::create_dir(dir.path().join("8")).unwrap();
        unread.check(dir.path(), &record(8)).unwrap();
        unread.check(dir.path(), &[NodeState::SLOTS.save(&NodeState::default(), 1)]).unwrap();
        unread.check(dir.path(), &remove_plan(EndpointId(7))).unwrap();
        unread.check(dir.path(), &record(7)).unwrap();
    }

    #[test]
    fn neither_copy_of_a_file_is_written_over() {
        let unread = Unread::default();
        unread.keep("lib/identities");
        for generation in [1, 2] {
            let op = IdentityTable::SLOTS.save(&IdentityTable::default(), generation);
            assert!(unread.check(Path::new("/"), &[op]).is_err());
            let op = NodeState::SLOTS.save(&NodeState::default(), generation);
            unread.check(Path::new("/"), &[op]).unwrap();
        }
    }
}
