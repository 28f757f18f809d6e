use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use serde_json::Value;

use crate::{
    cluster::resources,
    host::Reply,
    ports::{Cluster, ClusterError, Object, ObjectChange, ObjectKey, ObjectWatch, Page, Resource},
};

type Seen = Result<Vec<ObjectChange>, ClusterError>;

/// Objects on one page.
const PAGE: usize = 2;

/// An API server in memory. Clones are the same one.
#[derive(Clone, Default)]
pub struct MemoryCluster(Rc<RefCell<Server>>);

#[derive(Default)]
struct Server {
    /// By kind.
    objects: BTreeMap<String, BTreeMap<ObjectKey, Value>>,
    /// What happened, and to which kind.
    history: Vec<(u64, String, ObjectChange)>,
    version: u64,
    /// What happened up to here is forgotten.
    compacted: u64,
    /// Definitions that are there.
    defined: BTreeSet<String>,
    /// Paths that it does not serve although they are defined.
    unserved: BTreeSet<String>,
    /// Kinds about which it fails, and how.
    failing: BTreeMap<String, ClusterError>,
    /// It takes requests and says nothing.
    hung: bool,
    watches: BTreeMap<u64, Watcher>,
    opened: u64,
    lists: u64,
    /// What it was asked while it hung.
    unanswered: Vec<Box<dyn std::any::Any>>,
}

struct Watcher {
    kind: String,
    seen: u64,
    told: bool,
    waiting: Option<Reply<Seen>>,
}

impl MemoryCluster {
    /// A server at which Cilium's policies are defined.
    pub fn new() -> Self {
        let server = Self::default();
        for resource in resources("").iter().flat_map(|(_, forms)| forms) {
            resource.definition.iter().for_each(|definition| server.define(definition, true));
        }
        server
    }

    /// An object is so from now on.
    pub fn apply(&self, object: Value) {
        let (kind, key) = place(&object);
        let mut server = self.0.borrow_mut();
        server.objects.entry(kind.clone()).or_default().insert(key.clone(), object.clone());
        server.happened(kind, ObjectChange::Applied(Object { key, value: object }));
    }

    /// An object is gone from now on.
    pub fn delete(&self, object: &Value) {
        let (kind, key) = place(object);
        let mut server = self.0.borrow_mut();
        server.objects.entry(kind.clone()).or_default().remove(&key);
        server.happened(kind, ObjectChange::Deleted(key));
    }

    /// Whether there is that definition from now on.
    pub fn define(&self, definition: &str, there: bool) {
        let mut server = self.0.borrow_mut();
        match there {
            true => drop(server.defined.insert(definition.to_owned())),
            false => drop(server.defined.remove(definition)),
        }
    }

    /// It does not serve that path.
    pub fn unserve(&self, path: &str) {
        self.0.borrow_mut().unserved.insert(path.to_owned());
    }

    /// What it answers about that kind from now on, if it fails; watches of it end so.
    pub fn fail(&self, kind: &str, error: Option<ClusterError>) {
        let ended = {
            let mut server = self.0.borrow_mut();
            match error.clone() {
                Some(error) => drop(server.failing.insert(kind.to_owned(), error)),
                None => drop(server.failing.remove(kind)),
            }
            let of_kind = |watcher: &&mut Watcher| error.is_some() && watcher.kind == kind;
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
        for (_, forms) in resources("") {
            self.fail(forms[0].kind, error.clone());
        }
    }

    /// It takes what it is asked and says nothing, also to those who watch; or goes on with new
    /// connections.
    pub fn set_hung(&self, hung: bool) {
        self.0.borrow_mut().hung = hung;
    }

    /// Forgets all that happened until now.
    pub fn compact(&self) {
        let mut server = self.0.borrow_mut();
        server.compacted = server.version;
        server.history.clear();
    }

    /// How many pages were listed.
    pub fn lists(&self) -> u64 {
        self.0.borrow().lists
    }
}

fn place(object: &Value) -> (String, ObjectKey) {
    let text = |pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let key = ObjectKey { namespace: text("/metadata/namespace"), name: text("/metadata/name") };
    (text("/kind"), key)
}

impl Server {
    fn happened(&mut self, kind: String, change: ObjectChange) {
        self.version += 1;
        self.history.push((self.version, kind, change));
        if self.hung {
            return;
        }
        let (version, history) = (self.version, &self.history);
        for watcher in self.watches.values_mut() {
            if let Some(reply) = watcher.waiting.take() {
                match watcher.look(history, version) {
                    Some(seen) => reply.send(Ok(seen)),
                    None => watcher.waiting = Some(reply),
                }
            }
        }
    }

    fn failure(&self, resource: &Resource) -> Option<ClusterError> {
        let undefined = resource.definition.is_some_and(|it| !self.defined.contains(it));
        let missing = undefined || self.unserved.contains(resource.path);
        let missing = missing.then(|| ClusterError::NotFound(resource.path.to_owned()));
        self.failing.get(resource.kind).cloned().or(missing)
    }
}

impl Watcher {
    /// What happened since it looked last. The first look says that the watch began.
    fn look(
        &mut self,
        history: &[(u64, String, ObjectChange)],
        version: u64,
    ) -> Option<Vec<ObjectChange>> {
        let new = history.iter().filter(|(at, kind, _)| *at > self.seen && *kind == self.kind);
        let mut changes: Vec<ObjectChange> = new.map(|(_, _, change)| change.clone()).collect();
        if changes.is_empty() && self.told {
            return None;
        }
        if !changes.is_empty() {
            changes.push(ObjectChange::Reached(version.to_string()));
        }
        (self.seen, self.told) = (version, true);
        Some(changes)
    }
}

impl Cluster for MemoryCluster {
    fn list(
        &self,
        resource: &Resource,
        next: Option<String>,
        reply: Reply<Result<Page, ClusterError>>,
    ) {
        let mut server = self.0.borrow_mut();
        server.lists += 1;
        if server.hung {
            return server.unanswered.push(Box::new(reply));
        }
        if let Some(error) = server.failure(resource) {
            return reply.send(Err(error));
        }
        let from: usize = next.and_then(|next| next.parse().ok()).unwrap_or_default();
        let all = server.objects.get(resource.kind);
        let objects: Vec<Object> = all
            .into_iter()
            .flatten()
            .map(|(key, value)| Object { key: key.clone(), value: value.clone() })
            .collect();
        let next = (from + PAGE < objects.len()).then(|| (from + PAGE).to_string());
        let objects = objects.into_iter().skip(from).take(PAGE).collect();
        reply.send(Ok(Page { objects, version: server.version.to_string(), next }));
    }

    fn is_defined(&self, definition: &str, reply: Reply<Result<bool, ClusterError>>) {
        let mut server = self.0.borrow_mut();
        match server.hung {
            true => server.unanswered.push(Box::new(reply)),
            false => reply.send(Ok(server.defined.contains(definition))),
        }
    }

    fn watch(&self, resource: &Resource, version: &str, _: Duration) -> Box<dyn ObjectWatch> {
        let mut server = self.0.borrow_mut();
        server.opened += 1;
        let number = server.opened;
        let seen = version.parse().unwrap_or_default();
        let watcher = Watcher { kind: resource.kind.to_owned(), seen, told: false, waiting: None };
        let error = server.failure(resource).or_else(|| {
            let expired = seen < server.compacted;
            expired.then(|| ClusterError::Expired("too old resource version".to_owned()))
        });
        server.watches.insert(number, watcher);
        Box::new(MemoryWatch { cluster: self.clone(), number, error })
    }
}

struct MemoryWatch {
    cluster: MemoryCluster,
    number: u64,
    error: Option<ClusterError>,
}

impl ObjectWatch for MemoryWatch {
    fn next(&mut self, reply: Reply<Seen>) {
        if let Some(error) = self.error.take() {
            return reply.send(Err(error));
        }
        let server = &mut *self.cluster.0.borrow_mut();
        let Some(watcher) = server.watches.get_mut(&self.number) else { return };
        let seen = match server.hung {
            true => None,
            false => watcher.look(&server.history, server.version),
        };
        match seen {
            Some(seen) => reply.send(Ok(seen)),
            None => watcher.waiting = Some(reply),
        }
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        let watcher = self.cluster.0.borrow_mut().watches.remove(&self.number);
        drop(watcher);
    }
}
