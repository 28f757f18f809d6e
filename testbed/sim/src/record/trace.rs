//! What happened, as a hash that two runs of one seed share, and as lines for people.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    rc::Rc,
};

use anyhow::Result;

use volvox_actors_simulated::{
    host::{Outcome, Record, Recorder, Time, Whom},
    ports::{KernelOp, disk::FsStep},
};

use super::flights::Flights;

/// What the panics that are meant say.
const ON_PURPOSE: &str = "on purpose";

/// The message by which nobody waits any more for one that does not answer.
const OVERDUE: &str = "Overdue";

/// Keeps what happened. Clones share it.
#[derive(Clone, Default)]
pub struct Trace(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    hash: DefaultHasher,
    records: u64,
    /// Steps of kernel and disk that changed something.
    steps: u64,
    /// Lines, if anybody wants to read them.
    lines: Option<Vec<String>>,
    /// Records of each life, if anybody wants to read them.
    flights: Option<Flights>,
    names: BTreeMap<u32, String>,
    now: Time,
    /// A wait for others ended without an answer, or an actor crashed.
    late: bool,
    crashes: Vec<String>,
}

impl Trace {
    /// Keeps lines as well.
    pub fn in_words() -> Self {
        let trace = Self::default();
        trace.0.borrow_mut().lines = Some(Vec::new());
        trace
    }

    /// Keeps records as well, as the agent's flight recorder does.
    pub fn keep_flights(&self) {
        self.0.borrow_mut().flights = Some(Flights::default());
    }

    /// Whether it does.
    pub fn keeps_flights(&self) -> bool {
        self.0.borrow().flights.is_some()
    }

    /// Writes the records of the last life to that file, and of each before it to one beside it;
    /// the files, the last life's first.
    pub fn write_flights(&self, file: &Path) -> Result<Vec<PathBuf>> {
        self.0.borrow().flights.as_ref().map_or_else(|| Ok(Vec::new()), |all| all.write(file))
    }

    /// A recorder for a new life.
    pub fn recorder(&self) -> Box<dyn Recorder> {
        let mut inner = self.0.borrow_mut();
        inner.names.clear();
        if let Some(flights) = &mut inner.flights {
            flights.begin();
        }
        drop(inner);
        Box::new(self.clone())
    }

    /// Something that happens to the node.
    pub fn say(&self, what: impl FnOnce() -> String) {
        self.line(|_| format!("── {}", what()));
    }

    /// A step that the kernel took.
    pub fn kernel(&self, op: &KernelOp) {
        self.0.borrow_mut().stepped(op.name());
        self.line(|_| {
            let text = format!("{op:?}");
            format!("   kernel   {}", text.chars().take(160).collect::<String>())
        });
    }

    /// A step that the disk took.
    pub fn disk(&self, step: &FsStep) {
        self.0.borrow_mut().stepped(step.name());
        self.line(|_| match step {
            FsStep::WriteBeside { path, bytes } => {
                format!("   disk     WriteBeside({path:?}), {} bytes", bytes.len())
            }
            step => format!("   disk     {step:?}"),
        });
    }

    /// The hash of all that happened so far.
    pub fn hash(&self) -> u64 {
        self.0.borrow().hash.finish()
    }

    /// How many steps of kernel and disk there were that change something.
    pub fn steps(&self) -> u64 {
        self.0.borrow().steps
    }

    /// How many records there were.
    pub fn records(&self) -> u64 {
        self.0.borrow().records
    }

    /// The lines.
    pub fn lines(&self) -> Vec<String> {
        self.0.borrow().lines.clone().unwrap_or_default()
    }

    /// Whether somebody went on without an answer since this was asked last.
    pub fn take_late(&self) -> bool {
        std::mem::take(&mut self.0.borrow_mut().late)
    }

    /// Somebody will go on without an answer.
    pub fn was_late(&self, late: bool) {
        self.0.borrow_mut().late |= late;
    }

    /// Panics that nobody meant.
    pub fn take_crashes(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut().crashes)
    }

    fn line(&self, make: impl FnOnce(&Inner) -> String) {
        let mut inner = self.0.borrow_mut();
        if inner.lines.is_some() {
            let line = format!("{} {}", inner.now, make(&inner));
            inner.lines.iter_mut().for_each(|lines| lines.push(line.clone()));
        }
    }
}

impl Inner {
    fn name(&self, cell: u32) -> &str {
        self.names.get(&cell).map_or("?", String::as_str)
    }

    fn stepped(&mut self, name: &'static str) {
        self.steps += 1;
        name.hash(&mut self.hash);
    }

    fn hashed(&mut self, what: impl Hash) {
        self.records += 1;
        what.hash(&mut self.hash);
    }
}

impl Recorder for Trace {
    fn record(&mut self, record: Record<'_>) {
        let mut inner = self.0.borrow_mut();
        if let Some(flights) = &mut inner.flights {
            flights.record(record);
        }
        let mut line = None;
        let expected = inner.lines.is_some();
        match record {
            Record::Message { header, ended, outcome, .. } => {
                inner.now = ended;
                inner.hashed((header.id.0, header.kind, header.to.0, ended.0, outcome as u8));
                inner.late |= header.kind == OVERDUE;
                if expected {
                    let from = header.from.map_or("outside", |cell| inner.name(cell.0));
                    let outcome = if outcome == Outcome::Handled {
                        String::new()
                    } else {
                        format!(" [{outcome:?}]")
                    };
                    let to = inner.name(header.to.0);
                    line = Some(format!("   message  {from} → {to}: {}{outcome}", header.kind));
                }
            }
            Record::Spawned { cell, name, at, .. } => {
                inner.now = at;
                inner.hashed((cell.0, name));
                if expected {
                    inner.names.insert(cell.0, name.to_owned());
                    line = Some(format!("   spawned  {name}"));
                }
            }
            Record::Crash { cell, kind, cause, .. } => {
                inner.late = true;
                inner.hashed((cell.0, kind, cause));
                if cause != ON_PURPOSE {
                    inner.crashes.push(format!("an actor panicked over {kind}: {cause}"));
                }
                line = expected.then(|| format!("   crash    {} over {kind}", inner.name(cell.0)));
            }
            Record::State { cell, from, to, why, .. } => {
                inner.hashed((cell.0, from, to));
                line = expected
                    .then(|| format!("   state    {}: {from} → {to} ({why})", inner.name(cell.0)));
            }
            Record::WaitEnded { wait, answered, at } => {
                inner.now = at;
                inner.hashed((wait.id.0, answered));
                if !answered && matches!(wait.whom, Whom::Cell(_)) && wait.who.is_some() {
                    inner.late = true;
                }
                if expected && !answered {
                    line = Some(format!("   no answer: {}", wait.why));
                }
            }
            Record::Stopped { cell, .. } => {
                inner.hashed(cell.0);
                line = expected.then(|| format!("   stopped  {}", inner.name(cell.0)));
            }
            _ => {}
        }
        drop(inner);
        if let Some(line) = line {
            self.line(|_| line);
        }
    }
}
