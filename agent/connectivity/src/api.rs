//! Requests to the API server.

use hyper::{
    Method, Request,
    header::{ACCEPT, CONTENT_TYPE},
};
use kube::Client;
use serde_json::Value;
use volvox_install::Cluster;
use volvox_system::causes::reported;

use crate::ConnectivityError;

/// The API server.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    name: String,
}

impl Api {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self { client: cluster.client().clone(), name: cluster.server_name().to_owned() }
    }

    /// Of a client that somebody else made.
    #[cfg(test)]
    pub(crate) fn new(client: Client) -> Self {
        Self { client, name: "the API server of the test".to_owned() }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// What is at a path; `None` if there is nothing.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, ConnectivityError> {
        self.unless_missing(Method::GET, path, "read", None).await
    }

    /// The items of a list; none if the server does not have the kind.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>, ConnectivityError> {
        let list = self.get(path).await?.unwrap_or_default();
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Makes an object in a list.
    pub(crate) async fn create(
        &self,
        path: &str,
        object: &Value,
    ) -> Result<Value, ConnectivityError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let doing = format!("make {} {name}", object["kind"].as_str().unwrap_or_default());
        self.send(Method::POST, path, Some(object)).await.map_err(|error| self.told(&doing, error))
    }

    /// Replaces an object. Its version has to be the one that it was read with.
    pub(crate) async fn replace(
        &self,
        path: &str,
        object: &Value,
    ) -> Result<Value, ConnectivityError> {
        self.send(Method::PUT, path, Some(object))
            .await
            .map_err(|error| self.told(&format!("change {path}"), error))
    }

    /// Removes an object, if it is still that one where options say so.
    pub(crate) async fn delete(
        &self,
        path: &str,
        options: &Value,
    ) -> Result<(), ConnectivityError> {
        self.unless_missing(Method::DELETE, path, "remove", Some(options)).await.map(drop)
    }

    async fn unless_missing(
        &self,
        method: Method,
        path: &str,
        doing: &str,
        body: Option<&Value>,
    ) -> Result<Option<Value>, ConnectivityError> {
        match self.send(method, path, body).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            answer => {
                answer.map(Some).map_err(|error| self.told(&format!("{doing} {path}"), error))
            }
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .body(body.map(Value::to_string).unwrap_or_default().into_bytes())
            .map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    pub(crate) fn told(&self, doing: &str, error: kube::Error) -> ConnectivityError {
        let doing = doing.to_owned();
        match error {
            kube::Error::Api(status) => {
                let (cause, code) = (status.message.clone(), status.code);
                // A quota and an admission webhook say 403, too.
                let rights = code == 401 || code == 403 && cause.contains("cannot");
                if rights {
                    return ConnectivityError::Denied { doing, cause };
                }
                ConnectivityError::Server { doing, cause, code }
            }
            error => ConnectivityError::Unreachable {
                server: self.name.clone(),
                cause: reported(&error),
            },
        }
    }
}
