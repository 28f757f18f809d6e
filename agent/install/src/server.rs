//! Requests to the API server.

use hyper::{
    Method, Request,
    header::{ACCEPT, CONTENT_TYPE},
};
use kube::Client;
use serde_json::Value;
use volvox_packaging::{MANAGED_BY, MANAGER, NAME, PART_OF};
use volvox_system::causes::reported;

use crate::{
    InstallError,
    kinds::{Kind, named, path},
};

/// The API server.
pub(crate) struct Server {
    client: Client,
    /// Its address, and who names it.
    name: String,
}

/// How an object is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct How {
    /// Fields that others wrote are taken over.
    pub(crate) force: bool,
    /// The server only says what would become of it.
    pub(crate) rehearse: bool,
}

/// Why an object is not applied.
pub(crate) enum Refusal {
    /// Others wrote these fields.
    Conflict(Vec<String>),
    /// Anything else.
    Error(InstallError),
}

impl Server {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self { client, name }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Its address, and who names it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reads what is at a path; `None` if there is nothing.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, InstallError> {
        match self.send(Method::GET, path, None).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            answer => answer.map(Some).map_err(|error| self.told(&format!("read {path}"), error)),
        }
    }

    /// The items of a list; none if the server does not have the kind.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>, InstallError> {
        let list = self.get(path).await?.unwrap_or_default();
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// All objects of a kind that `volvox install` made, each with its kind.
    pub(crate) async fn ours(&self, kind: Kind) -> Result<Vec<Value>, InstallError> {
        let labels = format!("{MANAGED_BY}%3D{MANAGER},{PART_OF}%3D{NAME}");
        let mut all = self.list(&format!("{}?labelSelector={labels}", kind.everywhere())).await?;
        // Items of a list do not name their kind.
        all.iter_mut().for_each(|it| it["kind"] = kind.name.into());
        Ok(all)
    }

    /// Has the server apply an object.
    pub(crate) async fn apply(&self, object: &Value, how: How) -> Result<Value, Refusal> {
        let doing = format!("apply {}", named(object));
        let path = path(object).ok_or_else(|| {
            Refusal::Error(InstallError::Refused(format!("{doing}: no installation has that kind")))
        })?;
        let dry = if how.rehearse { "&dryRun=All" } else { "" };
        let path = format!("{path}?fieldManager={MANAGER}&force={}{dry}", how.force);
        match self.send(Method::PATCH, &path, Some(object)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let causes = status.details.iter().flat_map(|it| &it.causes);
                let field = |it: &kube::core::response::StatusCause| {
                    format!("{} ({})", it.field.trim_start_matches('.'), it.message)
                };
                let fields: Vec<_> = causes.map(field).collect();
                let told = if fields.is_empty() { vec![status.message.clone()] } else { fields };
                Err(Refusal::Conflict(told))
            }
            answer => answer.map_err(|error| Refusal::Error(self.told(&doing, error))),
        }
    }

    /// Removes an object; what belongs to it goes after it.
    pub(crate) async fn delete(&self, object: &Value) -> Result<(), InstallError> {
        let Some(path) = path(object) else { return Ok(()) };
        let path = format!("{path}?propagationPolicy=Background");
        match self.send(Method::DELETE, &path, None).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => answer
                .map(drop)
                .map_err(|error| self.told(&format!("remove {}", named(object)), error)),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        // JSON is YAML, and the only form of which every server knows what is meant.
        let kind = match method {
            Method::PATCH => "application/apply-patch+yaml",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, kind)
            .body(body.map(Value::to_string).unwrap_or_default().into_bytes())
            .map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    fn told(&self, doing: &str, error: kube::Error) -> InstallError {
        match error {
            kube::Error::Api(status) => InstallError::Server {
                doing: doing.to_owned(),
                cause: status.message.clone(),
                code: status.code,
            },
            error => {
                InstallError::Unreachable { server: self.name.clone(), cause: reported(&error) }
            }
        }
    }
}
