//! What can happen to an API server in memory.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Delay, MemoryCluster, ObjectWatcher};
use crate::{
    cluster::resources::{definitions, further, resources},
    ports::{ClusterError, ObjectChange, ObjectKey},
};

impl MemoryCluster {
    /// It does not serve that path.
    pub fn unserve(&self, path: &str) {
        self.0.borrow_mut().faults.unserved.insert(path.to_owned());
    }

    /// It serves that path again.
    pub fn serve(&self, path: &str) {
        self.0.borrow_mut().faults.unserved.remove(path);
    }

    /// What it answers about that kind from now on, if it fails; watches of it end so.
    pub fn fail(&self, kind: &str, error: Option<ClusterError>) {
        let ended = {
            let mut server = self.0.borrow_mut();
            match error.clone() {
                Some(error) => drop(server.faults.failing.insert(kind.to_owned(), error)),
                None => drop(server.faults.failing.remove(kind)),
            }
            let of_kind =
                |watcher: &&mut ObjectWatcher| error.is_some() && watcher.resource.kind == kind;
            let watches = server.watches.values_mut().filter(of_kind);
            watches.filter_map(|watcher| watcher.waiting.take()).collect::<Vec<_>>()
        };
        for reply in ended {
            reply.send(Err(error.clone().unwrap_or(ClusterError::Ended)));
        }
    }

    /// It is down, or up again.
    pub fn set_down(&self, down: bool) {
        let error = down.then(|| ClusterError::Unreachable("connection refused".to_owned()));
        let all = resources("").into_iter().chain(further(""));
        for form in all.flat_map(|(_, forms)| forms) {
            self.fail(form.kind, error.clone());
        }
        self.fail(definitions().kind, error);
    }

    /// What it answers who writes objects of that kind from now on, if it does not let them.
    pub fn fail_writes(&self, kind: &str, error: Option<ClusterError>) {
        let unwritable = &mut self.0.borrow_mut().faults.unwritable;
        match error {
            Some(error) => drop(unwritable.insert(kind.to_owned(), error)),
            None => drop(unwritable.remove(kind)),
        }
    }

    /// It takes what it is asked and says nothing; or goes on with new connections, while those
    /// who watched before hear nothing ever again.
    pub fn set_hung(&self, hung: bool) {
        let mut server = self.0.borrow_mut();
        server.faults.hung = hung;
        server.connections += u64::from(hung);
        server.watches.values_mut().for_each(|watcher| watcher.deaf |= hung);
    }

    /// Those who watch hear nothing, while requests are answered; or they hear it then.
    pub fn set_mute(&self, mute: bool) {
        let mut server = self.0.borrow_mut();
        server.faults.mute = mute;
        let watches: Vec<u64> = server.watches.keys().copied().collect();
        watches.into_iter().for_each(|number| server.show(number));
    }

    /// Says to all who watch how far it is, as servers do now and then.
    pub fn send_bookmarks(&self) {
        let mut server = self.0.borrow_mut();
        let version = server.version;
        let heard = server.watches.values_mut().filter(|it| !it.deaf);
        let waiting: Vec<_> = heard.filter_map(|watcher| watcher.waiting.take()).collect();
        drop(server);
        let reached = || Ok(vec![ObjectChange::Reached(version.to_string())]);
        waiting.into_iter().for_each(|reply| reply.send(reached()));
    }

    /// Forgets all that happened until now.
    pub fn compact(&self) {
        let server = &mut *self.0.borrow_mut();
        let (version, history) = (server.version, &server.history);
        for watcher in server.watches.values_mut().filter(|watcher| !watcher.lacks(history)) {
            watcher.seen = version;
        }
        server.compacted = version;
        server.history.clear();
    }

    /// What there is now is what it can go back to.
    pub fn back_up(&self) {
        let mut server = self.0.borrow_mut();
        server.backup = Some((server.version, server.objects.clone()));
    }

    /// It is again as it was when it was backed up, version included; connections break.
    pub fn restore(&self) {
        let backup = self.0.borrow().backup.clone();
        if let Some((version, objects)) = backup {
            self.begin_anew(version, objects);
        }
    }

    /// It is as one that is back from a backup of now, which begins to count its versions again.
    pub fn rewind(&self) {
        let objects = self.0.borrow().objects.clone();
        self.begin_anew(1, objects);
    }

    /// Another cluster's server, which has these objects only, answers from now on.
    pub fn replace(&self, objects: impl IntoIterator<Item = Value>) {
        let version = self.another();
        self.begin_anew(version, BTreeMap::new());
        objects.into_iter().for_each(|object| self.apply(object));
    }

    /// The same, and those who watch are told nothing of it.
    pub fn replace_unnoticed(&self, objects: impl IntoIterator<Item = Value>) {
        let version = self.another();
        self.hold_only(version, BTreeMap::new());
        self.has_told();
        objects.into_iter().for_each(|object| self.apply(object));
        self.has_told();
    }

    /// It is another cluster's from now on; what its version is then.
    fn another(&self) -> u64 {
        let mut server = self.0.borrow_mut();
        server.cluster += 1;
        server.version + 1000
    }

    /// Those who watch hear nothing of what happened so far.
    fn has_told(&self) {
        let server = &mut *self.0.borrow_mut();
        let version = server.version;
        server.watches.values_mut().for_each(|watcher| watcher.seen = version);
    }

    /// A connection ends and is made anew, without any failure.
    pub fn reconnect(&self) {
        self.0.borrow_mut().connections += 1;
    }

    fn begin_anew(&self, version: u64, objects: BTreeMap<String, BTreeMap<ObjectKey, Value>>) {
        self.hold_only(version, objects);
        let mut server = self.0.borrow_mut();
        let watches = server.watches.values_mut();
        let ended: Vec<_> = watches.filter_map(|watcher| watcher.waiting.take()).collect();
        drop(server);
        let error = || ClusterError::Unreachable("connection closed".to_owned());
        ended.into_iter().for_each(|reply| reply.send(Err(error())));
    }

    /// Has these objects only, and knows nothing of what was before.
    fn hold_only(&self, version: u64, objects: BTreeMap<String, BTreeMap<ObjectKey, Value>>) {
        let mut server = self.0.borrow_mut();
        (server.version, server.objects, server.compacted) = (version, objects, 0);
        server.connections += 1;
        server.history.clear();
        server.listings.clear();
    }

    /// Says of every object once more that it is as it is.
    pub fn repeat(&self) {
        let objects = self.0.borrow().objects.clone();
        let all = objects.into_values().flat_map(BTreeMap::into_values);
        all.for_each(|object| self.apply(object));
    }

    /// What is written from now on waits for [`step`](Self::step), too, and happens then, whatever became
    /// of who wrote it.
    pub fn write_late(&self) {
        self.0.borrow_mut().faults.delay = Delay::Writes;
    }

    /// What it says from now on waits for [`step`](Self::step).
    pub fn be_slow(&self) {
        self.0.borrow_mut().faults.delay = Delay::Words;
    }
}
