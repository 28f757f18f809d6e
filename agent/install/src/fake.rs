//! An API server for tests: keeps objects by their paths, and applies them as wholes.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, body::Bytes};
use kube::client::Body;
use serde_json::{Value, json};

use crate::{Cluster, kinds};

/// Last words of paths that are lists.
const LISTS: [&str; 12] = [
    "clusterrolebindings",
    "clusterroles",
    "configmaps",
    "customresourcedefinitions",
    "daemonsets",
    "deployments",
    "events",
    "nodes",
    "pods",
    "rolebindings",
    "roles",
    "serviceaccounts",
];

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    /// Paths of objects of which others wrote a field.
    conflicts: BTreeMap<String, (&'static str, &'static str)>,
    /// Paths of objects that stay when they are removed, and for how many reads.
    kept: BTreeMap<String, usize>,
    /// Changes so far.
    version: u64,
    /// Paths in the order in which they were applied.
    applied: Vec<String>,
}

/// A server of one version.
#[derive(Clone)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    minor: &'static str,
}

impl Fake {
    /// A server with the namespace that is installed into.
    pub(crate) fn new(minor: &'static str) -> Self {
        let fake = Self { state: Arc::default(), minor };
        fake.put("/api/v1/namespaces/kube-system", json!({ "kind": "Namespace" }));
        fake
    }

    /// A cluster whose server this is; its address is one that pods reach.
    pub(crate) fn cluster(&self) -> Cluster {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.map(|it| it.to_bytes()).unwrap_or_default();
                let uri = parts.uri.to_string();
                let (path, query) = uri.split_once('?').unwrap_or((&uri, ""));
                let (code, answer) = fake.answer(&parts.method, path, query, &body);
                let body = Full::new(Bytes::from(answer.to_string()));
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Cluster::of(kube::Client::new(service, "default"), "192.0.2.1", 6443)
    }

    /// Puts an object where it is read.
    pub(crate) fn put(&self, path: &str, object: Value) {
        let mut state = self.state.lock().unwrap();
        state.version += 1;
        let mut object = object;
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.objects.insert(path.to_owned(), object);
    }

    /// Takes an object away.
    pub(crate) fn take(&self, path: &str) {
        self.state.lock().unwrap().objects.remove(path);
    }

    /// Somebody else wrote a field of an object.
    pub(crate) fn conflict(&self, path: &str, field: &'static str, manager: &'static str) {
        self.state.lock().unwrap().conflicts.insert(path.to_owned(), (field, manager));
    }

    /// The object there has a finalizer: once removed, it is still found that often.
    pub(crate) fn keep(&self, path: &str, reads: usize) {
        self.state.lock().unwrap().kept.insert(path.to_owned(), reads);
    }

    /// What is at a path.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state.lock().unwrap().objects.get(path).cloned()
    }

    /// Paths of all objects, with their versions.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let state = self.state.lock().unwrap();
        let version = |it: &Value| it["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        state.objects.iter().map(|(path, it)| (path.clone(), version(it))).collect()
    }

    /// Paths in the order in which they were applied.
    pub(crate) fn applied(&self) -> Vec<String> {
        self.state.lock().unwrap().applied.clone()
    }

    fn answer(&self, method: &Method, path: &str, query: &str, body: &[u8]) -> (u16, Value) {
        if path == "/version" {
            let major = if self.minor.is_empty() { "" } else { "1" };
            return (200, json!({ "major": major, "minor": self.minor }));
        }
        match *method {
            Method::GET => self.read(path, query),
            Method::PATCH => self.apply(path, query, body),
            Method::DELETE => self.delete(path),
            _ => (405, status(405, "it is not done here", &[])),
        }
    }

    fn delete(&self, path: &str) -> (u16, Value) {
        let mut state = self.state.lock().unwrap();
        if state.kept.contains_key(path)
            && let Some(object) = state.objects.get_mut(path)
        {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            object["status"]["conditions"] = json!([{
                "type": "Terminating", "status": "True", "message": "a node of it remains",
            }]);
            return (200, object.clone());
        }
        match state.objects.remove(path) {
            Some(object) => (200, object),
            None => (404, status(404, "it is not there", &[])),
        }
    }

    fn read(&self, path: &str, query: &str) -> (u16, Value) {
        let mut state = self.state.lock().unwrap();
        let ends = state
            .objects
            .get(path)
            .is_some_and(|it| it["metadata"]["deletionTimestamp"].is_string());
        if let (true, Some(reads)) = (ends, state.kept.get_mut(path)) {
            *reads = reads.saturating_sub(1);
            if *reads == 0 {
                state.kept.remove(path);
                state.objects.remove(path);
            }
        }
        if let Some(object) = state.objects.get(path) {
            return (200, object.clone());
        }
        let (group, plural) = path.rsplit_once('/').unwrap_or_default();
        if !LISTS.contains(&plural) {
            return (404, status(404, "it is not there", &[]));
        }
        let labels = query.strip_prefix("labelSelector=").unwrap_or_default();
        let wanted: Vec<_> = labels.split(',').filter_map(|it| it.split_once("%3D")).collect();
        let inside = |at: &str| {
            let Some(rest) = at.strip_prefix(group) else { return false };
            let words: Vec<_> = rest.split('/').collect();
            matches!(&words[..], ["", it, _] | ["", "namespaces", _, it, _] if *it == plural)
        };
        let items: Vec<_> = state
            .objects
            .iter()
            .filter(|(at, it)| {
                let labels = &it["metadata"]["labels"];
                inside(at) && wanted.iter().all(|(key, value)| labels[*key] == *value)
            })
            .map(|(_, it)| {
                let mut item = it.clone();
                // Items of a list do not name their kind.
                item.as_object_mut().unwrap().remove("kind");
                item
            })
            .collect();
        (200, json!({ "kind": "List", "metadata": {}, "items": items }))
    }

    fn apply(&self, path: &str, query: &str, body: &[u8]) -> (u16, Value) {
        assert!(query.starts_with("fieldManager=volvox&force="), "{query}");
        let mut object: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(kinds::path(&object).as_deref(), Some(path));
        let mut state = self.state.lock().unwrap();
        let rehearsed = query.ends_with("&dryRun=All");
        if !rehearsed {
            state.applied.push(path.to_owned());
        }
        let limits = &object["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"];
        if limits["memory"] == "much" {
            return (422, status(422, "memory is no quantity", &[]));
        }
        if query.contains("force=true") {
            if !rehearsed {
                state.conflicts.remove(path);
            }
        } else if let Some((field, manager)) = state.conflicts.get(path) {
            let message = format!("conflict with \"{manager}\"");
            return (409, status(409, "Apply failed", &[(field, &message)]));
        }
        if object["kind"] == "CustomResourceDefinition" {
            object["status"] =
                json!({ "conditions": [{ "type": "Established", "status": "True" }] });
        }
        let before = state.objects.get(path).cloned().unwrap_or_default();
        if object["status"].is_null() && !before["status"].is_null() {
            object["status"] = before["status"].clone();
        }
        object["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        if object != before && !rehearsed {
            state.version += 1;
            object["metadata"]["resourceVersion"] = state.version.to_string().into();
            state.objects.insert(path.to_owned(), object.clone());
        }
        (200, object)
    }
}

fn status(code: u16, message: &str, causes: &[(&str, &str)]) -> Value {
    let cause = |(field, message): &(&str, &str)| json!({ "reason": "FieldManagerConflict", "field": field, "message": message });
    let causes: Vec<_> = causes.iter().map(cause).collect();
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code,
        "reason": "Failed", "details": { "causes": causes },
    })
}
