//! Reads the state directory at start: which records are usable, which go to quarantine, and which
//! steps tidy up. It writes nothing itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    path::PathBuf,
};

use super::{
    EndpointRecord, StateError,
    plans::{self, HEADER_FILE, JSON_FILE, OLD_HEADER_FILE, QUARANTINE},
};
use crate::{
    model::{EndpointId, EndpointKind},
    mutants::{Mutant, mutated},
    ports::FsOp,
};

/// Read access to the state directory, for the time before any actor lives.
///
/// Paths are relative to it or, with `lib/` first, to the library directory.
pub trait StateFiles {
    /// Names of the directories in a directory, `""` being the state directory; none if it is
    /// absent. The error is the system's words.
    fn directories(&self, path: &str) -> Result<Vec<String>, String>;

    /// A file's content, `None` if there is no such file. What is no file, or longer than any of
    /// ours, is damage: it has no content. The error is the system's words: of what stands there
    /// nothing is known.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String>;
}

/// The file that a record came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `ep_config.json`.
    Json,
    /// `ep_config.h`.
    Header,
    /// `lxc_config.h`.
    OldHeader,
}

/// What the state directory held.
#[derive(Clone, Debug, Default)]
pub struct ScannedDirectory {
    /// Endpoints to be restored, by number.
    pub records: Vec<FoundRecord>,
    /// What could not be used. Where the endpoint is known and no record took its place, it is to
    /// be rebuilt from the kernel.
    pub quarantined: Vec<Quarantined>,
    /// Builds that never finished, of endpoints that have a record.
    pub incomplete: Vec<String>,
    /// Directories of health endpoints that another agent made, which were gone with it.
    pub health: Vec<String>,
    /// Names in quarantine, those that the steps put there among them.
    pub in_quarantine: BTreeSet<String>,
    /// What could not be read, and why. It is neither put aside nor written over: what stands there
    /// may be whole, and what the kernel says instead is less.
    pub unread: BTreeMap<EndpointId, StateError>,
    /// Why the directory could not be listed, if so: any number may have a record.
    pub unlisted: Option<StateError>,
    /// The node whose directory it is, if that is another one.
    pub of_another: Option<String>,
    /// Steps that bring each endpoint's directories in order. A crash before or among them leads to
    /// the same finding, and done again they change nothing. Before they are done, none of these
    /// directories may be written: what is put aside would be lost.
    pub tidying: BTreeMap<EndpointId, Vec<FsOp>>,
}

/// A record that can be used.
#[derive(Clone, Debug)]
pub struct FoundRecord {
    /// The record.
    pub record: EndpointRecord,
    /// The directory it was in.
    pub dir: String,
    /// The file it came from.
    pub form: Form,
    /// What was wrong with the files that are preferred to that one.
    pub passed_over: Vec<StateError>,
}

/// A directory that is put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The directory.
    pub dir: String,
    /// The endpoint that it belonged to by its name.
    pub id: EndpointId,
    /// What is wrong with it.
    pub reason: StateError,
}

/// Reads the state directory.
///
/// A directory counts if it is named `<id>`, `<id>_next` or `<id>_next_fail`. The first of these
/// that holds a usable record is the endpoint's.
pub fn scan(files: &impl StateFiles) -> ScannedDirectory {
    let unlisted =
        |error| ScannedDirectory { unlisted: Some(error), ..ScannedDirectory::default() };
    let (in_quarantine, names) = match (list(files, QUARANTINE), list(files, "")) {
        (Ok(in_quarantine), Ok(names)) => (in_quarantine, names),
        (Err(error), _) | (_, Err(error)) => return unlisted(error),
    };
    let mut scan =
        Scan { files, found: ScannedDirectory { in_quarantine, ..ScannedDirectory::default() } };
    let mut groups: BTreeMap<EndpointId, BTreeSet<DirectoryStage>> = BTreeMap::new();
    for name in names {
        if let Some((id, stage)) = parse_name(&name) {
            groups.entry(id).or_default().insert(stage);
        }
    }
    for (id, stages) in groups {
        let plan = scan.endpoint(id, stages);
        if !plan.is_empty() {
            scan.found.tidying.insert(id, plan);
        }
    }
    scan.found
}

/// How far a directory's build came; the first that there is is preferred.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DirectoryStage {
    Done,
    Next,
    Failed,
}

impl DirectoryStage {
    fn dir(self, id: EndpointId) -> String {
        match self {
            Self::Done => format!("{id}"),
            Self::Next => format!("{id}_next"),
            Self::Failed => format!("{id}_next_fail"),
        }
    }
}

struct Scan<'a, F> {
    files: &'a F,
    found: ScannedDirectory,
}

impl<F: StateFiles> Scan<'_, F> {
    /// Looks at an endpoint's directories; returns the steps that bring them in order.
    fn endpoint(&mut self, id: EndpointId, stages: BTreeSet<DirectoryStage>) -> Vec<FsOp> {
        let mut plan = Vec::new();
        let mut settled = false;
        let (records, incomplete) = (self.found.records.len(), self.found.incomplete.len());
        let quarantined = self.found.quarantined.len();
        if mutated(Mutant::IncompleteNextTrusted) && stages.contains(&DirectoryStage::Next) {
            let [done, next] =
                [DirectoryStage::Done, DirectoryStage::Next].map(|stage| stage.dir(id).into());
            return vec![FsOp::Remove(PathBuf::clone(&done)), FsOp::Rename(next, done)];
        }
        for stage in stages {
            let dir = stage.dir(id);
            if settled {
                plan.push(FsOp::Remove(dir.clone().into()));
                self.found.incomplete.push(dir);
                continue;
            }
            match read_record(self.files, id, &dir) {
                Ok(found) => {
                    settled = true;
                    self.accept(stage, found, &mut plan);
                }
                // A build that was killed before it wrote anything is no evidence of anything.
                Err(StateError::NoRecord { .. }) if stage != DirectoryStage::Done => {
                    plan.push(FsOp::Remove(dir.clone().into()));
                    self.found.incomplete.push(dir);
                }
                // Whatever else there is of it stays, too: it may be older.
                Err(reason) if reason.is_unread() => {
                    self.found.records.truncate(records);
                    self.found.incomplete.truncate(incomplete);
                    self.found.quarantined.truncate(quarantined);
                    self.found.unread.insert(id, reason);
                    return Vec::new();
                }
                Err(reason) if mutated(Mutant::QuarantinedRecordDeleted) => {
                    plan.push(FsOp::Remove(dir.clone().into()));
                    self.found.quarantined.push(Quarantined { dir, id, reason });
                }
                Err(reason) => {
                    plan.extend(self.found.put_aside(&dir, &reason.to_string()));
                    self.found.quarantined.push(Quarantined { dir, id, reason });
                }
            }
        }
        plan
    }

    fn accept(&mut self, stage: DirectoryStage, found: FoundRecord, plan: &mut Vec<FsOp>) {
        let record = &found.record;
        if record.kind() == EndpointKind::Health && record.generation == 0 {
            plan.push(FsOp::Remove(found.dir.clone().into()));
            self.found.health.push(found.dir);
        } else {
            if stage != DirectoryStage::Done {
                let home = DirectoryStage::Done.dir(found.record.id);
                plan.push(FsOp::Rename(found.dir.clone().into(), home.into()));
            }
            self.found.records.push(found);
        }
    }
}

impl ScannedDirectory {
    /// Takes the records of host endpoints out: their directories are left as they are. Answers
    /// their numbers.
    pub(crate) fn lay_host_down(&mut self) -> BTreeSet<EndpointId> {
        let laid_down = self.records.extract_if(.., |found| is_host(found));
        laid_down.map(|found| found.record.id).collect()
    }

    /// Whether there is a record of a host endpoint.
    pub(crate) fn has_host(&self) -> bool {
        self.records.iter().any(is_host)
    }

    /// It is another node's directory: its records are put aside.
    pub fn is_of_another(&mut self, node: &str) {
        for FoundRecord { record, dir, .. } in mem::take(&mut self.records) {
            let reason = StateError::AnotherNode { dir: dir.clone(), node: node.to_owned() };
            let steps = self.put_aside(&record.id.to_string(), &reason.to_string());
            self.tidying.entry(record.id).or_default().extend(steps);
            self.quarantined.push(Quarantined { dir, id: record.id, reason });
        }
        self.of_another = Some(node.to_owned());
    }

    /// Steps that put a directory aside.
    pub(crate) fn put_aside(&mut self, dir: &str, reason: &str) -> Vec<FsOp> {
        let number = (1..)
            .find(|number| self.in_quarantine.insert(format!("{dir}.{number}")))
            .expect("there are more numbers than names in a directory");
        plans::quarantine_plan(dir, number, reason)
    }
}

fn list(files: &impl StateFiles, path: &str) -> Result<BTreeSet<String>, StateError> {
    let unreadable = |cause| StateError::Unreadable {
        file: if path.is_empty() { "the state directory" } else { path }.to_owned(),
        cause,
    };
    Ok(files.directories(path).map_err(unreadable)?.into_iter().collect())
}

fn parse_name(name: &str) -> Option<(EndpointId, DirectoryStage)> {
    let (number, stage) = if let Some(number) = name.strip_suffix("_next_fail") {
        (number, DirectoryStage::Failed)
    } else if let Some(number) = name.strip_suffix("_next") {
        (number, DirectoryStage::Next)
    } else {
        (name, DirectoryStage::Done)
    };
    let id = EndpointId(number.parse().ok().filter(|id| *id != 0)?);
    // Other spellings of a number, such as 0442 and +442, are nobody's.
    (stage.dir(id) == name).then_some((id, stage))
}

fn is_host(found: &FoundRecord) -> bool {
    found.record.kind() == EndpointKind::Host
}

fn read_record(
    files: &impl StateFiles,
    id: EndpointId,
    dir: &str,
) -> Result<FoundRecord, StateError> {
    let mut passed_over = Vec::new();
    for (name, form) in
        [(JSON_FILE, Form::Json), (HEADER_FILE, Form::Header), (OLD_HEADER_FILE, Form::OldHeader)]
    {
        match read_form(files, &format!("{dir}/{name}"), form) {
            Ok(None) => {}
            Ok(Some(record)) if record.id != id => {
                return Err(StateError::Misplaced { dir: dir.to_owned(), id: record.id.0 });
            }
            Ok(Some(record)) => {
                return Ok(FoundRecord { record, dir: dir.to_owned(), form, passed_over });
            }
            // Another form may be of another time.
            Err(error) if error.is_unread() => return Err(error),
            Err(error) => passed_over.push(error),
        }
    }
    let first = passed_over.into_iter().next();
    Err(first.unwrap_or_else(|| StateError::NoRecord { dir: dir.to_owned() }))
}

fn read_form(
    files: &impl StateFiles,
    path: &str,
    form: Form,
) -> Result<Option<EndpointRecord>, StateError> {
    let unreadable = |cause| StateError::Unreadable { file: path.to_owned(), cause };
    let Some(bytes) = files.read(path).map_err(unreadable)? else { return Ok(None) };
    match form {
        Form::Json => EndpointRecord::from_json(path, &bytes),
        Form::Header | Form::OldHeader => EndpointRecord::from_header(path, &bytes),
    }
    .map(Some)
}
