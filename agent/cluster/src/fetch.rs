//! Requests to the API server: lists, watches and writes, each with bounds on time and size.
//! Failures are told as what the actors know; whether to try again is left to them.

use std::{convert::Infallible, fmt::Write, time::Duration};

use http_body_util::BodyExt;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Bytes,
    header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER},
};
use kube::client::Body;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use tokio::{sync::mpsc, time::timeout};
use volvox_actors::{
    cluster::resources::definitions,
    ports::{ClusterError, Definition, Object, ObjectKey, ObjectWrite, Page, Resource, Verb},
};
use volvox_system::causes::reported;

use super::{
    Access, Seen,
    access::Asked,
    connections::Connections,
    events::Lines,
    failover::Failover,
    trim::{object, one_of_many},
};

/// Objects on a page.
const PAGE: usize = 250;
/// Longest page that is read, bytes.
const PAGE_BYTES_MAX: usize = 512 << 20;
/// Longest answer to what is handed in, bytes.
const SUBMITTED_BYTES_MAX: usize = 1 << 20;
/// Longest answer that explains a failure, bytes.
const FAILURE_BYTES_MAX: usize = 64 << 10;
/// A server from which nothing comes for so long does not answer. One that is slow does.
const SILENCE: Duration = Duration::from_secs(30);
/// What proxies say in place of a server that is not there. Of several servers the next one is asked.
const NOT_THERE: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
/// How long a server is left alone that is busy and does not say how long.
const BUSY: Duration = Duration::from_secs(1);
/// The longest that a server may ask to be left alone.
const BUSY_MAX: Duration = Duration::from_secs(300);

/// The way to the servers. What failed is forgotten: the next request reads anew how to get there.
pub struct Connection {
    failover: Failover,
    connections: Connections,
    /// A server from which nothing comes for so long does not answer.
    silence: Duration,
}

/// What a server begins to say.
struct Answer {
    response: Response<Body>,
    /// Who says it.
    asked: Asked,
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMeta,
    /// Null in the list of a server that has none. Each is read by itself.
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

impl Connection {
    /// A way by which nothing was asked yet.
    pub fn new(access: Access) -> Self {
        let (failover, connections) = (Failover::new(access), Connections::default());
        Self { failover, connections, silence: SILENCE }
    }

    /// The same with less patience.
    #[cfg(test)]
    pub(super) fn hasty(access: Access, silence: Duration) -> Self {
        Self { silence, ..Self::new(access) }
    }

    /// Whoever asked waits no longer. That counts as a failure of the server: the next request goes to
    /// the next one, over another connection.
    pub async fn give_up(&self, waited: Duration) -> ClusterError {
        self.failover.give_up(&silent(waited)).await
    }

    /// The server that is asked, if one was.
    pub(super) fn address(&self) -> Option<String> {
        self.failover.address()
    }

    /// How many connections were made so far.
    pub(super) fn made(&self) -> u64 {
        self.connections.made()
    }

    /// One page of a list.
    pub async fn list(
        &self,
        resource: &Resource,
        next: Option<&str>,
    ) -> Result<Page, ClusterError> {
        let mut path = path(resource);
        // Writing to a text never fails.
        let _ = write!(path, "limit={PAGE}");
        if let Some(next) = next {
            let _ = write!(path, "&continue={}", volvox_rest::escape(next));
        }
        let answer = self.get(path).await?;
        let bytes = self.collect(answer, PAGE_BYTES_MAX).await?;
        page(resource, &bytes)
    }

    /// One object.
    pub async fn one(&self, resource: &Resource, key: &ObjectKey) -> Result<Object, ClusterError> {
        let path = format!("{}/{}", resource.path_in(&key.namespace), key.name);
        let bytes = self.collect(self.get(path).await?, PAGE_BYTES_MAX).await?;
        single(resource, key, &bytes)
    }

    /// The definition of that name, if there is one.
    pub(super) async fn definition(&self, name: &str) -> Result<Option<Definition>, ClusterError> {
        let answer = match self.get(format!("{}/{name}", definitions().path)).await {
            Err(ClusterError::NotFound(_)) => return Ok(None),
            answer => answer?,
        };
        let bytes = self.collect(answer, PAGE_BYTES_MAX).await?;
        let key = ObjectKey { namespace: String::new(), name: name.to_owned() };
        let object = single(&definitions(), &key, &bytes)?.value;
        Definition::of(&object).map(Some).map_err(ClusterError::Failed)
    }

    /// Watches until somebody ends it, and says why it ended.
    pub(super) async fn watch(
        &self,
        resource: &Resource,
        version: &str,
        lifetime: Duration,
        events: mpsc::Sender<Seen>,
    ) {
        tokio::select! {
            // Nobody looks any more.
            () = events.closed() => {}
            ended = self.follow(resource, version, lifetime, &events) => {
                let Err(why) = ended;
                drop(events.send(Err(why)).await);
            }
        }
    }

    async fn follow(
        &self,
        resource: &Resource,
        version: &str,
        lifetime: Duration,
        events: &mpsc::Sender<Seen>,
    ) -> Result<Infallible, ClusterError> {
        let mut path = path(resource);
        let _ = write!(
            path,
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
            lifetime.as_secs(),
            volvox_rest::escape(version)
        );
        let Answer { response, asked } = self.get(path).await?;
        let mut body = response.into_body();
        let mut lines = Lines::default();
        // It began.
        let mut changes = Vec::new();
        loop {
            let gone = |_| ClusterError::Ended;
            events.send(Ok(changes)).await.map_err(gone)?;
            changes = loop {
                let frame = body.frame().await.ok_or(ClusterError::Ended)?;
                let frame = match frame {
                    Ok(frame) => frame,
                    Err(error) => return Err(self.failover.lost(&asked, &reported(&error)).await),
                };
                let changes = lines.take(resource, frame.data_ref().map_or(&[], Bytes::as_ref))?;
                if !changes.is_empty() {
                    break changes;
                }
            };
        }
    }

    /// Does something with an object.
    pub async fn write(&self, write: &ObjectWrite) -> Result<(), ClusterError> {
        let ObjectWrite { resource, key, verb } = write;
        let all = resource.path_in(&key.namespace);
        let one = format!("{all}/{}", key.name);
        const JSON: &str = "application/json";
        let (method, path, kind, body) = match verb {
            Verb::Create(object) => (Method::POST, all, JSON, object.to_string()),
            Verb::Merge(patch) => {
                (Method::PATCH, one, "application/merge-patch+json", patch.to_string())
            }
            Verb::Patch(patch) => {
                (Method::PATCH, one, "application/json-patch+json", patch.to_string())
            }
            Verb::Status(patch) => {
                let kind = "application/strategic-merge-patch+json";
                (Method::PATCH, format!("{one}/status"), kind, patch.to_string())
            }
            Verb::MergeStatus(patch) => {
                let kind = "application/merge-patch+json";
                (Method::PATCH, format!("{one}/status"), kind, patch.to_string())
            }
            Verb::Delete { uid, version } => {
                let mut options = json!({
                    "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid },
                });
                if let Some(version) = version {
                    options["preconditions"]["resourceVersion"] = version.as_str().into();
                }
                (Method::DELETE, one, JSON, options.to_string())
            }
        };
        let answer = self.ask(method, path, Some((kind, body))).await?;
        self.collect(answer, PAGE_BYTES_MAX).await.map(drop)
    }

    /// Hands something in, and reads what becomes of it.
    pub(super) async fn submit<T: Serialize + DeserializeOwned>(
        &self,
        path: &str,
        object: &T,
    ) -> Result<T, ClusterError> {
        let failed = |error: serde_json::Error| ClusterError::Failed(error.to_string());
        let body = serde_json::to_string(object).map_err(failed)?;
        let content = Some(("application/json", body));
        let answer = self.ask(Method::POST, path.to_owned(), content).await?;
        serde_json::from_slice(&self.collect(answer, SUBMITTED_BYTES_MAX).await?).map_err(failed)
    }

    async fn get(&self, path: String) -> Result<Answer, ClusterError> {
        self.ask(Method::GET, path, None).await
    }

    async fn ask(
        &self,
        method: Method,
        path: String,
        content: Option<(&'static str, String)>,
    ) -> Result<Answer, ClusterError> {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(ACCEPT, "application/json");
        let request = match content {
            Some((kind, body)) => {
                request.header(CONTENT_TYPE, kind).body(Body::from(body.into_bytes()))
            }
            None => request.body(Body::empty()),
        };
        let request = request.map_err(|error| ClusterError::Failed(error.to_string()))?;
        let (client, asked) = self.failover.client().await?;
        let response = match timeout(self.silence, client.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(kube::Error::Service(error))) => {
                return Err(self.failover.lost(&asked, &reported(&*error)).await);
            }
            Ok(Err(error)) => return Err(self.failover.lost(&asked, &reported(&error)).await),
            Err(_) => return Err(self.failover.lost(&asked, &silent(self.silence)).await),
        };
        self.connections.note(response.extensions());
        let answer = Answer { response, asked };
        if answer.response.status().is_success() {
            Ok(answer)
        } else {
            Err(self.failure(answer).await)
        }
    }

    /// What a status other than success says.
    async fn failure(&self, answer: Answer) -> ClusterError {
        let (status, asked) = (answer.response.status(), answer.asked.clone());
        let after = answer.response.headers().get(RETRY_AFTER);
        let after = after.and_then(|value| value.to_str().ok());
        let after = after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        let body = self.collect(answer, FAILURE_BYTES_MAX).await.unwrap_or_default();
        let said = serde_json::from_slice::<Value>(&body).ok();
        let message = said.as_ref().and_then(|said| said.get("message")).and_then(Value::as_str);
        let said = message.map_or_else(|| status.to_string(), |text| format!("{status}: {text}"));
        if NOT_THERE.contains(&status) && self.failover.has_several() {
            return self.failover.lost(&asked, &said).await;
        }
        match status {
            StatusCode::UNAUTHORIZED => {
                self.failover.forget(&asked).await;
                ClusterError::Unknown(said)
            }
            StatusCode::FORBIDDEN => {
                self.failover.forget(&asked).await;
                ClusterError::Refused(said)
            }
            StatusCode::NOT_FOUND => ClusterError::NotFound(said),
            StatusCode::GONE => ClusterError::Expired(said),
            StatusCode::CONFLICT => ClusterError::Conflict(said),
            StatusCode::UNPROCESSABLE_ENTITY => ClusterError::Invalid(said),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                ClusterError::Busy { after: after.unwrap_or(BUSY).min(BUSY_MAX), said }
            }
            _ => ClusterError::Failed(said),
        }
    }

    /// A whole body.
    async fn collect(&self, answer: Answer, longest: usize) -> Result<Vec<u8>, ClusterError> {
        let Answer { response, asked } = answer;
        let mut body = response.into_body();
        let mut bytes = Vec::new();
        loop {
            let frame = match timeout(self.silence, body.frame()).await {
                Ok(None) => return Ok(bytes),
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    return Err(self.failover.lost(&asked, &reported(&error)).await);
                }
                Err(_) => return Err(self.failover.lost(&asked, &silent(self.silence)).await),
            };
            bytes.extend_from_slice(frame.data_ref().map_or(&[], Bytes::as_ref));
            if bytes.len() > longest {
                return Err(ClusterError::Failed(format!("an answer of over {longest} bytes")));
            }
        }
    }
}

/// A page of a list. One object that cannot be read spoils none of the others.
pub(super) fn page(resource: &Resource, bytes: &[u8]) -> Result<Page, ClusterError> {
    let list: List<'_> = serde_json::from_slice(bytes).map_err(|error| {
        ClusterError::Failed(format!("its list of {} is none: {error}", resource.name))
    })?;
    let items = list.items.unwrap_or_default().into_iter();
    let objects = items.filter_map(|item| one_of_many(resource, item.get())).collect();
    let next = Some(list.metadata.r#continue).filter(|next| !next.is_empty());
    Ok(Page { objects, version: list.metadata.resource_version, next })
}

/// An object that a server was asked for by its name.
fn single(resource: &Resource, key: &ObjectKey, bytes: &[u8]) -> Result<Object, ClusterError> {
    let is_none = |error: String| ClusterError::Failed(format!("{key} of it is none: {error}"));
    let text = str::from_utf8(bytes).map_err(|error| is_none(error.to_string()))?;
    object(resource, text)
        .map_err(|error| is_none(error.to_string()))?
        .ok_or_else(|| ClusterError::Failed(format!("{key} of it has no name")))
}

/// Where a resource is asked for; ends so that more can be said.
fn path(resource: &Resource) -> String {
    let mut path = format!("{}?", resource.path);
    if let Some(fields) = &resource.fields {
        let _ = write!(path, "fieldSelector={}&", volvox_rest::escape(fields));
    }
    if let Some(labels) = &resource.labels {
        let _ = write!(path, "labelSelector={}&", volvox_rest::escape(labels));
    }
    path
}

fn silent(waited: Duration) -> String {
    format!("nothing came for {} s", waited.as_secs_f64())
}
