//! The file of the embedded store: keys with values and leases, the leases, the revision.

use std::{
    fs, io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use redb::{
    Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
    backends::FileBackend,
};
use volvox_actors::{
    host::Time,
    ports::{Change, Keyspace, KvError, LeaseId, Listing, Pair, Revision, Transaction},
};

use crate::guarded::guarded;

/// A key's lease, 0 if it has none, and its value.
const KEYS: TableDefinition<&str, (i64, &[u8])> = TableDefinition::new("keys");
/// Milliseconds that a lease lasts.
const LEASES: TableDefinition<i64, u64> = TableDefinition::new("leases");
/// The revision, below its name.
const STATE: TableDefinition<&str, i64> = TableDefinition::new("state");
const REVISION: &str = "revision";
/// No store counts so far, and beyond it counting on would end.
const COUNTED_MAX: i64 = 1 << 60;
/// The file's rights.
const MODE: u32 = 0o600;
/// How the name of a file ends that could not be read.
const DAMAGED: &str = "damaged";

/// What is to be done.
pub(super) enum Job {
    List(String),
    Commit(Transaction),
    Grant(Duration),
    KeepAlive(LeaseId),
    /// Ends leases that ran out.
    Expire,
}

/// What came of it.
pub(super) struct Done {
    pub(super) answer: Result<Answer, KvError>,
    /// The revision behind it.
    pub(super) revision: Revision,
    /// What changed with that revision.
    pub(super) changes: Vec<Change>,
    /// Whether the file was read anew: changes before may be missing.
    pub(super) reset: bool,
}

pub(super) enum Answer {
    Listing(Listing),
    Held(bool),
    Lease(LeaseId),
    Nothing,
}

/// The file, and what it holds.
pub(super) struct File {
    path: PathBuf,
    /// None after a failure, until it is opened again.
    database: Option<Database>,
    keyspace: Keyspace,
    /// How many writes in a row failed over damage that nobody finds who opens it.
    spoilt: u8,
    begun: Instant,
}

impl File {
    /// It is opened, or made, with the first job.
    pub(super) fn new(path: &Path) -> Self {
        let (path, begun) = (path.to_owned(), Instant::now());
        Self { path, database: None, keyspace: Keyspace::default(), spoilt: 0, begun }
    }

    fn revision(&self) -> Revision {
        self.keyspace.revision()
    }

    /// Does a job. What it writes is on disk then, or it is not done.
    pub(super) fn work(&mut self, job: Job) -> Done {
        let reset = match self.open() {
            Ok(reset) => reset,
            Err(cause) => {
                let answer = Err(self.error("open", "the store".to_owned(), &cause));
                return Done {
                    answer,
                    revision: self.revision(),
                    changes: Vec::new(),
                    reset: false,
                };
            }
        };
        let now = self.now();
        let mut changes = Vec::new();
        let answer = match job {
            Job::List(prefix) => Ok(Answer::Listing(self.keyspace.list(&prefix))),
            Job::Commit(transaction) => self.commit(transaction, &mut changes),
            Job::Grant(ttl) => self.grant(ttl, now),
            Job::KeepAlive(lease) => Ok(Answer::Held(self.keyspace.keep_alive(lease, now))),
            Job::Expire => self.expire(now, &mut changes),
        };
        Done { answer, revision: self.revision(), changes, reset }
    }

    fn commit(
        &mut self,
        transaction: Transaction,
        changes: &mut Vec<Change>,
    ) -> Result<Answer, KvError> {
        let lost = |error: volvox_actors::ports::LeaseLost| KvError {
            op: "write",
            about: error.key.clone(),
            cause: error.to_string(),
            remedy: "a new one is asked for",
        };
        if !self.keyspace.allows(&transaction).map_err(lost)? {
            return Ok(Answer::Held(false));
        }
        let Transaction { puts, deletes, .. } = transaction;
        let first = puts.iter().map(|put| &put.key).chain(&deletes).next().cloned();
        let gone = deletes.iter().any(|key| self.keyspace.get(key).is_some());
        if !puts.is_empty() || gone {
            let revision = self.revision().0 + 1;
            self.write("write", first.unwrap_or_default(), |file| {
                let mut keys = file.open_table(KEYS)?;
                for put in &puts {
                    let lease = put.lease.map_or(0, |lease| lease.0);
                    keys.insert(put.key.as_str(), (lease, put.value.as_slice()))?;
                }
                for key in &deletes {
                    keys.remove(key.as_str())?;
                }
                file.open_table(STATE)?.insert(REVISION, revision)?;
                Ok(())
            })?;
            *changes = self.keyspace.write(puts, deletes);
        }
        Ok(Answer::Held(true))
    }

    fn grant(&mut self, ttl: Duration, now: Time) -> Result<Answer, KvError> {
        let id = self.keyspace.grant(ttl, now);
        let retained = self.write("grant", "a lease".to_owned(), |file| {
            let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
            file.open_table(LEASES)?.insert(id.0, millis)?;
            Ok(())
        });
        if let Err(error) = retained {
            self.keyspace.revoke(id);
            return Err(error);
        }
        Ok(Answer::Lease(id))
    }

    fn expire(&mut self, now: Time, changes: &mut Vec<Change>) -> Result<Answer, KvError> {
        let (over, bound) = self.keyspace.over(now);
        if over.is_empty() {
            return Ok(Answer::Nothing);
        }
        let revision = self.revision().0 + i64::from(!bound.is_empty());
        self.write("end", "leases that ran out".to_owned(), |file| {
            let mut keys = file.open_table(KEYS)?;
            for key in &bound {
                keys.remove(key.as_str())?;
            }
            let mut leases = file.open_table(LEASES)?;
            for lease in &over {
                leases.remove(lease.0)?;
            }
            file.open_table(STATE)?.insert(REVISION, revision)?;
            Ok(())
        })?;
        over.into_iter().for_each(|lease| self.keyspace.revoke(lease));
        *changes = self.keyspace.write(Vec::new(), bound);
        Ok(Answer::Nothing)
    }

    /// Has it on disk. After a failure nobody knows what is there: the file is opened again.
    fn write(
        &mut self,
        op: &'static str,
        about: String,
        work: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), KvError> {
        let Some(database) = &self.database else { return Ok(()) };
        let done = checked(|| {
            let transaction = database.begin_write()?;
            work(&transaction)?;
            Ok(transaction.commit()?)
        });
        self.spoilt = match &done {
            Err(cause) if is_damage(cause) => self.spoilt.saturating_add(1),
            Err(_) => self.spoilt,
            Ok(()) => 0,
        };
        done.map_err(|cause| {
            if let Some(database) = self.database.take() {
                close(database);
            }
            self.error(op, about, &cause)
        })
    }

    /// Opens it at first, and after a failure; whether that was needed. A file that cannot be read, or
    /// is opened anew and can still not be written, is put aside: what this node uses is written anew.
    fn open(&mut self) -> Result<bool, redb::Error> {
        if self.database.is_some() {
            return Ok(false);
        }
        let (path, begun) = (&self.path, self.begun);
        let found = match self.spoilt {
            0 | 1 => read(path, begun),
            _ => Err(redb::Error::Corrupted("it cannot be written".to_owned())),
        };
        let (database, keyspace) = found.or_else(|cause| {
            if !is_damage(&cause) {
                return Err(cause);
            }
            let aside = path.with_extension(DAMAGED);
            tracing::error!(
                path = %path.display(), aside = %aside.display(), %cause,
                "the store cannot be read and is put aside; it begins empty"
            );
            fs::rename(path, aside)?;
            read(path, begun)
        })?;
        (self.database, self.keyspace, self.spoilt) =
            (Some(database), keyspace, self.spoilt.min(1));
        Ok(true)
    }

    fn now(&self) -> Time {
        Time::default() + self.begun.elapsed()
    }

    fn error(&self, op: &'static str, about: String, cause: &redb::Error) -> KvError {
        let remedy = match cause {
            redb::Error::DatabaseAlreadyOpen => {
                "end the other agent, or give this one a directory of its own (--lib-dir)"
            }
            _ => "make room on its disk, or its directory writable; it is tried again",
        };
        KvError { op, about, cause: format!("{}: {cause}", self.path.display()), remedy }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(database) = self.database.take() {
            close(database);
        }
    }
}

/// Reads all of it.
fn read(path: &Path, begun: Instant) -> Result<(Database, Keyspace), redb::Error> {
    let mut database = checked(|| {
        Ok(Database::builder().create_with_backend(FileBackend::new(open_file(path)?)?)?)
    })?;
    // Whatever comes of it, the database is not dropped while a panic passes: a second one would end
    // the process.
    let sound = checked(|| {
        // Damage that nobody reads is found by who opens it after the next write: that would be lost.
        if !database.check_integrity()? {
            tracing::warn!(path = %path.display(), "the store was damaged, and is repaired");
        }
        content(&database, begun)
    });
    match sound {
        Ok(keyspace) => Ok((database, keyspace)),
        Err(cause) => {
            close(database);
            Err(cause)
        }
    }
}

/// What is in it is nobody else's to read, also where an earlier version left it to all.
fn open_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(MODE).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(MODE))?;
    Ok(file)
}

/// Leases of an earlier run last their whole time from now on.
fn content(database: &Database, begun: Instant) -> Result<Keyspace, redb::Error> {
    // So that there is a table of each kind.
    let made = database.begin_write()?;
    made.open_table(KEYS)?;
    made.open_table(LEASES)?;
    made.open_table(STATE)?;
    made.commit()?;
    let file = database.begin_read()?;
    let (mut keys, mut leases) = (Vec::new(), Vec::new());
    for row in file.open_table(KEYS)?.iter()? {
        let (key, row) = row?;
        let (lease, value) = row.value();
        let pair = Pair { key: key.value().to_owned(), value: value.to_vec() };
        keys.push((pair, (lease != 0).then_some(LeaseId(lease))));
    }
    for row in file.open_table(LEASES)?.iter()? {
        let (id, millis) = row?;
        leases.push((LeaseId(id.value()), Duration::from_millis(millis.value())));
    }
    let revision = file.open_table(STATE)?.get(REVISION)?.map_or(0, |revision| revision.value());
    let mut counted = leases.iter().map(|(id, _)| id.0).chain([revision]);
    if !counted.all(|number| (0..COUNTED_MAX).contains(&number)) {
        return Err(redb::Error::Corrupted("its numbers were never counted up to".to_owned()));
    }
    let mut keyspace = Keyspace::default();
    let now = Time::default() + begun.elapsed();
    keyspace.revive(Revision(revision), keys, leases, now);
    Ok(keyspace)
}

/// Over a damaged file the library panics in many places: that is damage, too.
fn checked<T>(work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    let damage = |panic| redb::Error::Corrupted(format!("the library panics over it: {panic}"));
    guarded(work).map_err(damage).flatten()
}

/// Lets go of the file.
fn close(database: Database) {
    // It writes what it still has in mind, which may fail over a damaged file; that is known by then.
    let _ = guarded(|| drop(database));
}

/// Whether it is the file's own fault.
fn is_damage(error: &redb::Error) -> bool {
    match error {
        redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => true,
        redb::Error::Io(error) => {
            matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
        }
        redb::Error::TableTypeMismatch { .. } | redb::Error::TypeDefinitionChanged { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use volvox_actors::ports::Put;

    use super::*;

    const PAIRS: usize = 200;

    fn put(file: &mut File, key: String) -> Result<Answer, KvError> {
        let put = Put { key, value: vec![7; 100], lease: None };
        file.work(Job::Commit(Transaction { puts: vec![put], ..Default::default() })).answer
    }

    fn keys(file: &mut File) -> usize {
        match file.work(Job::List(String::new())).answer {
            Ok(Answer::Listing(listing)) => listing.pairs.len(),
            Ok(_) => panic!("no list"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_file_whose_numbers_are_at_their_end_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        for (nth, (revision, lease)) in [(i64::MAX, 1), (-1, 1), (7, i64::MAX)].iter().enumerate() {
            let path = dir.path().join(format!("{nth}.redb"));
            let mut file = File::new(&path);
            put(&mut file, "a".to_owned()).unwrap();
            file.write("spoil", String::new(), |file| {
                file.open_table(STATE)?.insert(REVISION, revision)?;
                file.open_table(LEASES)?.insert(lease, 1000)?;
                Ok(())
            })
            .unwrap();
            drop(file);
            let mut file = File::new(&path);
            assert_eq!(keys(&mut file), 0, "{nth}");
            assert!(file.work(Job::Grant(Duration::from_secs(1))).answer.is_ok());
            put(&mut file, "b".to_owned()).unwrap();
            assert!(path.with_extension(DAMAGED).exists());
        }
    }

    /// It can be opened and read, and no write ever succeeds: nobody would have a number again.
    #[test]
    fn a_file_that_is_read_and_never_written_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        let mut file = File::new(&path);
        (0..40).for_each(|nth| drop(put(&mut file, format!("key/{nth}")).unwrap()));
        drop(file);
        let mut content = fs::read(&path).unwrap();
        content[0x4032..0x4036].copy_from_slice(&[0, 0, 0, 0xff]);
        content[0x7801..0x7805].copy_from_slice(&[0xfe, 0x14, 0, 1]);
        fs::write(&path, content).unwrap();
        let mut file = File::new(&path);
        keys(&mut file);
        let failures = (0..3).take_while(|_| put(&mut file, "more".to_owned()).is_err()).count();
        assert!(failures < 3, "it can never be written");
        assert!(keys(&mut file) > 0);
    }

    /// Whoever damages the file, and wherever: it is read, or put aside, and works on.
    #[test]
    fn no_damage_of_the_file_ends_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let whole = dir.path().join("whole.redb");
        let mut file = File::new(&whole);
        (0..PAIRS).for_each(|nth| drop(put(&mut file, format!("key/{nth}")).unwrap()));
        drop(file);
        assert_eq!(fs::metadata(&whole).unwrap().permissions().mode() & 0o777, MODE);
        let content = fs::read(&whole).unwrap();
        let length = content.len();

        let cut = (0..length)
            .step_by(7 * 4096)
            .chain([1, 100, length - 1])
            .map(|at| content[..at].to_vec());
        let spoilt = (0..60).map(|nth| {
            // Spread over the file by an odd number; within the part that is used as well.
            let within = if nth % 2 == 0 { length } else { length.min(1 << 16) };
            let at = nth * 7_368_787 % within;
            let mut spoilt = content.clone();
            spoilt[at..(at + 64).min(length)].fill(if nth % 3 == 0 { 0 } else { 0xff });
            spoilt
        });
        let mut aside = 0;
        for (nth, bytes) in cut.chain(spoilt).enumerate() {
            let path = dir.path().join(format!("{nth}.redb"));
            fs::write(&path, &bytes).unwrap();
            let mut file = File::new(&path);
            let found = keys(&mut file);
            assert!(found <= PAIRS, "{nth}: {found} keys");
            // What is only found when it is written puts the file aside then.
            if put(&mut file, "more".to_owned()).is_err() {
                put(&mut file, "more".to_owned()).unwrap();
            }
            drop(file);
            assert!(keys(&mut File::new(&path)) > 0, "{nth}: nothing was kept");
            aside += usize::from(path.with_extension(DAMAGED).exists());
        }
        assert!(aside > 8, "only {aside} were put aside: these are no damages");
    }
}
