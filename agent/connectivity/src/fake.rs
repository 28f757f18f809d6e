//! An API server for tests: keeps objects by their paths.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, body::Bytes};
use kube::client::Body;
use serde_json::{Value, json};

use crate::api::Api;

/// Last words of paths that are lists.
const LISTS: [&str; 7] = [
    "ciliumclusterwidenetworkpolicies",
    "ciliumnetworkpolicies",
    "daemonsets",
    "networkpolicies",
    "nodes",
    "pods",
    "services",
];

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    /// Parts of paths, and what is said to requests that make something there.
    refused: Vec<(String, u16, String)>,
}

/// The server.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
}

impl Fake {
    /// Asks it.
    pub(crate) fn api(&self) -> Api {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.map(|it| it.to_bytes()).unwrap_or_default();
                let (code, answer) = fake.answer(&parts.method, &parts.uri.to_string(), &body);
                let body = Full::new(Bytes::from(answer.to_string()));
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Api::new(kube::Client::new(service, "default"))
    }

    /// Puts an object where it is read.
    pub(crate) fn put(&self, path: &str, mut object: Value) {
        let mut state = self.state.lock().unwrap();
        state.version += 1;
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.objects.insert(path.to_owned(), object);
    }

    /// What is at a path.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state.lock().unwrap().objects.get(path).cloned()
    }

    /// Refuses to make objects in lists whose path has that part.
    pub(crate) fn refuse(&self, part: &str, code: u16, words: &str) {
        self.state.lock().unwrap().refused.push((part.to_owned(), code, words.to_owned()));
    }

    fn answer(&self, method: &Method, uri: &str, body: &[u8]) -> (u16, Value) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let mut state = self.state.lock().unwrap();
        let there = state.objects.get(path).cloned();
        match *method {
            Method::GET => match there {
                Some(object) => (200, object),
                None => list(&state, path, query),
            },
            Method::POST => {
                if let Some((_, code, words)) = state.refused.iter().find(|it| path.contains(&it.0))
                {
                    return (*code, status(*code, words));
                }
                let at = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
                if state.objects.contains_key(&at) {
                    return (409, status(409, "it is there"));
                }
                (201, keep(&mut state, &at, body))
            }
            Method::PUT => match there {
                Some(it)
                    if it["metadata"]["resourceVersion"] == body["metadata"]["resourceVersion"] =>
                {
                    (200, keep(&mut state, path, body))
                }
                Some(_) => (409, status(409, "it is another version")),
                None => (404, status(404, "it is not there")),
            },
            // All of a list.
            Method::DELETE if path.ends_with("/pods") => {
                let below = format!("{path}/");
                state.objects.retain(|at, _| !at.starts_with(&below));
                (200, json!({ "kind": "List", "items": [] }))
            }
            Method::DELETE => {
                let Some(it) = there else { return (404, status(404, "it is not there")) };
                let uid = &body["preconditions"]["uid"];
                if !uid.is_null() && it["metadata"]["uid"] != *uid {
                    return (409, status(409, "it is another one"));
                }
                // What is in a namespace goes with it.
                let below = path.replace("/api/v1/namespaces/", "/namespaces/") + "/";
                state.objects.retain(|at, _| at != path && !at.contains(&below));
                (200, it)
            }
            _ => (405, status(405, "it is not done here")),
        }
    }
}

fn keep(state: &mut State, at: &str, mut object: Value) -> Value {
    state.version += 1;
    let metadata = &mut object["metadata"];
    metadata["resourceVersion"] = state.version.to_string().into();
    if metadata["uid"].is_null() {
        metadata["uid"] = format!("uid-{}", state.version).into();
    }
    state.objects.insert(at.to_owned(), object.clone());
    object
}

fn list(state: &State, path: &str, query: &str) -> (u16, Value) {
    let label = query.strip_prefix("labelSelector=").and_then(|it| it.split_once("%3D"));
    let (group, plural) = path.rsplit_once('/').unwrap_or_default();
    let inside = |at: &str| {
        let Some(rest) = at.strip_prefix(group) else { return false };
        let words: Vec<_> = rest.split('/').collect();
        matches!(&words[..], ["", it, _] | ["", "namespaces", _, it, _] if *it == plural)
    };
    let has = |it: &Value| label.is_none_or(|(key, value)| it["metadata"]["labels"][key] == value);
    let items: Vec<_> =
        state.objects.iter().filter(|(at, it)| inside(at) && has(it)).map(|(_, it)| it).collect();
    match LISTS.contains(&plural) {
        true => (200, json!({ "kind": "List", "items": items })),
        false => (404, status(404, "it is not there")),
    }
}

fn status(code: u16, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code,
        "reason": "Failed",
    })
}
