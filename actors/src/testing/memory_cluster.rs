//! An API server in memory: lists in pages, watches and writes.
//! What actors ask of it, what is defined there, and what can go wrong with it, is in its submodules.

mod defined;
mod faults;
mod port;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use serde_json::{Value, json};

use self::defined::DefinedKinds;
use super::patches;
use crate::{
    cluster::resources::{definitions, further, resources},
    host::Reply,
    model::ApiObject,
    ports::{ClusterError, Object, ObjectChange, ObjectKey, ObjectWrite, Page, Resource, Verb},
};

/// Objects by kind.
type Objects = BTreeMap<String, BTreeMap<ObjectKey, Value>>;
type WatchReply = Result<Vec<ObjectChange>, ClusterError>;

/// Objects on one page.
const PAGE: usize = 2;
/// The namespace by whose UID a cluster is told from another one.
const KUBE_SYSTEM: &str = "kube-system";

/// An API server in memory. Clones are the same one.
#[derive(Clone, Default)]
pub struct MemoryCluster(Rc<RefCell<Server>>);

#[derive(Default)]
struct Server {
    /// By kind.
    objects: Objects,
    /// Another number after it was replaced.
    cluster: u64,
    /// What it goes back to, and the version of that.
    backup: Option<(u64, Objects)>,
    /// What happened, and to which kind.
    history: Vec<(u64, String, ServerChange)>,
    version: u64,
    /// What happened up to here is forgotten.
    compacted: u64,
    /// Objects say of which version they are.
    stamps: bool,
    /// Definitions that are there.
    defined: DefinedKinds,
    faults: Faults,
    /// What was written, in order.
    writes: Vec<ObjectWrite>,
    watches: BTreeMap<u64, ObjectWatcher>,
    opened: u64,
    /// Connections that were broken, and made anew.
    connections: u64,
    lists: u64,
    /// The same by kind.
    listed: BTreeMap<String, u64>,
    /// Lists of which pages may be asked for, each of one version.
    listings: BTreeMap<u64, (u64, Vec<(ObjectKey, Value)>)>,
    /// What it was asked while it hung.
    unanswered: Vec<Box<dyn std::any::Any>>,
    /// What is on its way, if so.
    late: Vec<Delivery>,
}

/// What is wrong with the server.
#[derive(Default)]
struct Faults {
    /// Paths that it does not serve although they are defined.
    unserved: BTreeSet<String>,
    /// Kinds about which it fails, and how.
    failing: BTreeMap<String, ClusterError>,
    /// The same about those who write.
    unwritable: BTreeMap<String, ClusterError>,
    /// It takes requests and says nothing.
    hung: bool,
    /// It answers requests, and watches hear nothing.
    mute: bool,
    /// What takes its time.
    delay: Delay,
}

/// What waits for a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Delay {
    #[default]
    None,
    /// What the server says.
    Words,
    /// That, and what it is told to write.
    Writes,
}

/// What happened to an object.
#[derive(Clone)]
enum ServerChange {
    Applied(ObjectKey, Value),
    Deleted(ObjectKey),
}

impl ServerChange {
    /// The same as it is told to who follows that resource.
    fn told(&self, resource: &Resource) -> ObjectChange {
        match self.clone() {
            Self::Applied(key, value) => ObjectChange::Applied(served(resource, key, value)),
            Self::Deleted(key) => ObjectChange::Deleted(key),
        }
    }
}

/// An object as who asks for that resource reads it.
fn served(resource: &Resource, key: ObjectKey, value: Value) -> Object {
    let Resource { kind, api_version, .. } = resource;
    let read = ApiObject::of_server(kind, api_version, &value.to_string(), resource.readership());
    Object { key, value: read.unwrap_or(ApiObject::Json(value)) }
}

struct ObjectWatcher {
    resource: Resource,
    seen: u64,
    reported: bool,
    waiting: Option<Reply<WatchReply>>,
    /// Something for it is on its way.
    due: bool,
    /// Nobody is at its other end any more.
    deaf: bool,
}

/// Something that the server says.
enum Delivery {
    /// An answer.
    Answer(Box<dyn FnOnce()>),
    /// What the watch of that number has not seen yet.
    Look(u64),
    /// A write arrives.
    Write(Box<ObjectWrite>, Reply<Result<(), ClusterError>>),
}

impl MemoryCluster {
    /// A server at which Cilium's policies are defined.
    pub fn new() -> Self {
        let server = Self::default();
        let known = resources("").into_iter().chain(further(""));
        for resource in known.flat_map(|(_, forms)| forms) {
            resource.definition.iter().for_each(|definition| server.define(definition, true));
        }
        server
    }

    /// An object is so from now on.
    pub fn apply(&self, mut object: Value) {
        let (kind, key) = place(&object);
        let mut server = self.0.borrow_mut();
        if server.stamps {
            object["metadata"]["resourceVersion"] = (server.version + 1).to_string().into();
        }
        server.objects.entry(kind.clone()).or_default().insert(key.clone(), object.clone());
        server.happened(kind, ServerChange::Applied(key, object));
    }

    /// An object is gone from now on.
    pub fn delete(&self, object: &Value) {
        let (kind, key) = place(object);
        let mut server = self.0.borrow_mut();
        server.objects.entry(kind.clone()).or_default().remove(&key);
        server.happened(kind, ServerChange::Deleted(key));
    }

    /// Objects say from now on of which version they are, as operators read it.
    pub fn stamp(&self) {
        self.0.borrow_mut().stamps = true;
    }

    /// What agents wrote since this was asked last, whether it was taken or not.
    pub fn take_writes(&self) -> Vec<ObjectWrite> {
        std::mem::take(&mut self.0.borrow_mut().writes)
    }

    /// An object as it is.
    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = ObjectKey { namespace: namespace.to_owned(), name: name.to_owned() };
        self.0.borrow().objects.get(kind)?.get(&key).cloned()
    }

    /// How many things that it said are on their way.
    pub fn jobs(&self) -> usize {
        self.0.borrow().late.len()
    }

    /// One of them arrives.
    pub fn step(&self, nth: usize) {
        let late = self.0.borrow_mut().late.remove(nth);
        match late {
            Delivery::Answer(answer) => answer(),
            Delivery::Look(number) => {
                let server = &mut *self.0.borrow_mut();
                server.look(number);
            }
            Delivery::Write(write, reply) => {
                let mut server = self.0.borrow_mut();
                let outcome = server.write(*write);
                server.answer(reply, outcome);
            }
        }
    }

    /// Whether of each kind somebody watches who has heard all that happened.
    pub fn is_heard(&self) -> bool {
        let server = self.0.borrow();
        resources("").iter().all(|(_, forms)| {
            server.watches.values().any(|watcher| {
                let kind = forms[0].kind;
                let hears =
                    watcher.resource.kind == kind && watcher.waiting.is_some() && !watcher.deaf;
                hears && !watcher.lacks(&server.history)
            })
        })
    }

    /// Whoever asked is gone.
    pub fn forget(&self) {
        let (late, unanswered) = {
            let mut server = self.0.borrow_mut();
            server.listings.clear();
            (std::mem::take(&mut server.late), std::mem::take(&mut server.unanswered))
        };
        drop((late, unanswered));
    }

    /// How many pages were listed.
    pub fn lists(&self) -> u64 {
        self.0.borrow().lists
    }

    /// How many pages of that kind were listed.
    pub fn lists_of(&self, kind: &str) -> u64 {
        self.0.borrow().listed.get(kind).copied().unwrap_or_default()
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
    fn happened(&mut self, kind: String, change: ServerChange) {
        self.version += 1;
        self.history.push((self.version, kind, change));
        let watches: Vec<u64> = self.watches.keys().copied().collect();
        watches.into_iter().for_each(|number| self.show(number));
    }

    /// A watch is told what it has not seen, now or when that arrives.
    fn show(&mut self, number: u64) {
        if self.faults.delay == Delay::None {
            return self.look(number);
        }
        let Some(watcher) = self.watches.get_mut(&number) else { return };
        if watcher.waiting.is_some() && !watcher.deaf && !watcher.due {
            watcher.due = true;
            self.late.push(Delivery::Look(number));
        }
    }

    /// A watch is told what it has not seen.
    fn look(&mut self, number: u64) {
        if self.faults.mute {
            return;
        }
        let (version, compacted, history) = (self.version, self.compacted, &self.history);
        let Some(watcher) = self.watches.get_mut(&number) else { return };
        watcher.due = false;
        let Some(reply) = watcher.waiting.take_if(|_| !watcher.deaf) else { return };
        if watcher.seen < compacted {
            return reply.send(Err(expired()));
        }
        match watcher.look(history, version) {
            Some(seen) => reply.send(Ok(seen)),
            None => watcher.waiting = Some(reply),
        }
    }

    /// Answers, now or when that arrives.
    fn answer<T>(&mut self, reply: Reply<T>, answer: T) {
        match self.faults.delay {
            Delay::None => reply.send(answer),
            Delay::Words | Delay::Writes => {
                self.late.push(Delivery::Answer(Box::new(move || reply.send(answer))));
            }
        }
    }

    /// A page of a list, which shows all as it was when the first one was asked for.
    fn page(&mut self, resource: &Resource, next: Option<&str>) -> Result<Page, ClusterError> {
        let kind = resource.kind;
        let name = named(resource);
        if (kind, name) == ("Namespace", Some(KUBE_SYSTEM)) {
            return Ok(self.identity(resource));
        }
        let (list, from) = match next.and_then(|next| next.split_once('/')) {
            Some((list, from)) => (list.parse().ok(), from.parse().ok()),
            None => {
                let all = self.objects.get(kind).into_iter().flatten();
                let all = all.filter(|(key, _)| name.is_none_or(|name| key.name == name));
                let object = |(key, value): (&ObjectKey, &Value)| (key.clone(), value.clone());
                let all = match kind == definitions().kind {
                    true => self.definitions(name),
                    false => all.map(object).collect(),
                };
                self.listings.insert(self.lists, (self.version, all));
                (Some(self.lists), Some(0))
            }
        };
        let listing = list.and_then(|list: u64| self.listings.get(&list));
        let (Some((version, objects)), Some(from)) = (listing, from) else {
            return Err(ClusterError::Failed("no such list".to_owned()));
        };
        if next.is_some() && *version < self.compacted {
            return Err(expired());
        }
        let to = objects.len().min(from + PAGE);
        Ok(Page {
            objects: objects[from..to]
                .iter()
                .map(|(key, value)| served(resource, key.clone(), value.clone()))
                .collect(),
            version: version.to_string(),
            next: list.filter(|_| to < objects.len()).map(|list| format!("{list}/{to}")),
        })
    }

    /// The namespace that every cluster has.
    fn identity(&self, resource: &Resource) -> Page {
        let key = ObjectKey { namespace: String::new(), name: KUBE_SYSTEM.to_owned() };
        let uid = format!("cluster-{}", self.cluster);
        let value = json!({ "kind": "Namespace", "metadata": { "name": KUBE_SYSTEM, "uid": uid } });
        let objects = vec![served(resource, key, value)];
        Page { objects, version: self.version.to_string(), next: None }
    }

    /// What is written happens at once, even if its answer takes its time or is never heard.
    fn write(&mut self, write: ObjectWrite) -> Result<(), ClusterError> {
        self.writes.push(write.clone());
        let ObjectWrite { resource, key, verb } = write;
        let refused =
            self.failure(&resource).or(self.faults.unwritable.get(resource.kind).cloned());
        refused.map_or(Ok(()), Err)?;
        if resource.kind == definitions().kind {
            return self.write_definition(&key.name, verb);
        }
        let before = self.objects.get(resource.kind).and_then(|all| all.get(&key)).cloned();
        let missing = || ClusterError::NotFound(key.to_string());
        let after = match (verb, before.clone()) {
            (Verb::Create(_), Some(_)) => {
                return Err(ClusterError::Conflict(format!("{key} already exists")));
            }
            (Verb::Create(mut object), None) => {
                if object.pointer("/metadata/name").and_then(Value::as_str) != Some(&key.name) {
                    return Err(ClusterError::Invalid(format!("{key} has another name")));
                }
                object["metadata"]["uid"] = format!("made-{}", self.version).into();
                Some(object)
            }
            (Verb::Delete { uid, version }, Some(object)) => {
                if object["metadata"]["uid"] != *uid {
                    return Err(ClusterError::Conflict(format!("{key} has another UID")));
                }
                is_of_version(&object, version.as_deref())?;
                None
            }
            (Verb::Merge(patch) | Verb::MergeStatus(patch), Some(object)) => {
                is_of_version(&object, patch["metadata"]["resourceVersion"].as_str())?;
                Some(patches::merge(object, &patch))
            }
            (Verb::Status(patch), Some(object)) => {
                is_of_version(&object, patch["metadata"]["resourceVersion"].as_str())?;
                Some(patches::strategic(object, &patch))
            }
            (Verb::Patch(patch), Some(object)) => {
                Some(patches::patch(object, &patch).map_err(ClusterError::Invalid)?)
            }
            (_, None) => return Err(missing()),
        };
        if after == before {
            return Ok(());
        }
        let all = self.objects.entry(resource.kind.to_owned()).or_default();
        let change = match after {
            Some(mut value) => {
                if self.stamps {
                    value["metadata"]["resourceVersion"] = (self.version + 1).to_string().into();
                }
                all.insert(key.clone(), value.clone());
                ServerChange::Applied(key, value)
            }
            None => {
                all.remove(&key);
                ServerChange::Deleted(key)
            }
        };
        self.happened(resource.kind.to_owned(), change);
        Ok(())
    }

    fn failure(&self, resource: &Resource) -> Option<ClusterError> {
        let undefined = resource.definition.is_some_and(|it| !self.defined.serves(it));
        let missing = undefined || self.faults.unserved.contains(resource.path);
        let missing = missing.then(|| ClusterError::NotFound(resource.path.to_owned()));
        self.faults.failing.get(resource.kind).cloned().or(missing)
    }
}

/// Whether an object is still of the version that somebody saw.
fn is_of_version(object: &Value, seen: Option<&str>) -> Result<(), ClusterError> {
    let version = object["metadata"]["resourceVersion"].as_str();
    match seen.is_none_or(|seen| version == Some(seen)) {
        true => Ok(()),
        false => Err(ClusterError::Conflict(format!("it is of version {version:?} by now"))),
    }
}

/// The name of the one object that is asked for, if it is one.
fn named(resource: &Resource) -> Option<&str> {
    resource.fields.as_ref().and_then(|it| it.strip_prefix("metadata.name="))
}

fn expired() -> ClusterError {
    ClusterError::Expired("too old resource version".to_owned())
}

impl ObjectWatcher {
    /// Whether something happened that it has not seen.
    fn lacks(&self, history: &[(u64, String, ServerChange)]) -> bool {
        history.iter().any(|happened| self.concerns(happened))
    }

    fn concerns(&self, (at, kind, change): &(u64, String, ServerChange)) -> bool {
        let (ServerChange::Applied(key, _) | ServerChange::Deleted(key)) = change;
        // Of definitions one is followed.
        let is_followed = *kind != definitions().kind
            || named(&self.resource).is_none_or(|name| name == key.name);
        *at > self.seen && *kind == self.resource.kind && is_followed
    }

    /// What happened since it looked last. The first look says that the watch began.
    fn look(
        &mut self,
        history: &[(u64, String, ServerChange)],
        version: u64,
    ) -> Option<Vec<ObjectChange>> {
        let new = history.iter().filter(|happened| self.concerns(happened));
        let mut changes: Vec<ObjectChange> =
            new.map(|(_, _, change)| change.told(&self.resource)).collect();
        if changes.is_empty() && self.reported {
            return None;
        }
        if !changes.is_empty() {
            changes.push(ObjectChange::Reached(version.to_string()));
        }
        (self.seen, self.reported) = (version, true);
        Some(changes)
    }
}
