//! What an operator does with kubectl.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use http_body_util::BodyExt;
use hyper::{
    Method, Request,
    header::{ACCEPT, CONTENT_TYPE},
};
use kube::{
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;

/// A client that blocks.
pub struct ApiClient {
    kubeconfig: PathBuf,
    runtime: tokio::runtime::Runtime,
}

impl ApiClient {
    pub(super) fn new(kubeconfig: PathBuf) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { kubeconfig, runtime })
    }

    /// Reads an object.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, None)
    }

    /// Makes an object.
    pub fn create(&self, path: &str, object: &Value) -> Result<()> {
        self.send(Method::POST, path, Some(object)).map(drop)
    }

    /// Asks for something that is answered with more than it was asked with, such as a token.
    pub fn ask(&self, path: &str, object: &Value) -> Result<Value> {
        self.send(Method::POST, path, Some(object))
    }

    /// Changes an object.
    pub fn patch(&self, path: &str, change: &Value) -> Result<()> {
        self.send(Method::PATCH, path, Some(change)).map(drop)
    }

    /// Makes an object at its own path below `path`, or puts it in the place of the one that is there; as the
    /// server has it then.
    pub fn put(&self, path: &str, object: &Value) -> Result<Value> {
        let name = object["metadata"]["name"].as_str().context("an object without a name")?;
        let at = format!("{path}/{name}");
        let Ok(there) = self.get(&at) else { return self.send(Method::POST, path, Some(object)) };
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
        self.send(Method::PUT, &at, Some(&object))
    }

    /// Removes an object at once.
    pub fn delete(&self, path: &str) -> Result<()> {
        self.send(Method::DELETE, &format!("{path}?gracePeriodSeconds=0"), None).map(drop)
    }

    /// Makes many objects over one connection.
    pub fn create_all(&self, objects: &[(String, Value)]) -> Result<()> {
        self.runtime.block_on(async {
            let client = self.connect().await?;
            for (path, object) in objects {
                send(&client, &Method::POST, path, Some(object)).await?;
            }
            Ok(())
        })
    }

    /// A connection of its own each time: the server is killed between two of them.
    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let answer = async { send(&self.connect().await?, &method, path, body).await };
        self.runtime.block_on(answer)
    }

    async fn connect(&self) -> Result<kube::Client> {
        let read = Kubeconfig::read_from(&self.kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(read, &options).await?;
        Ok(kube::Client::try_from(config)?)
    }
}

async fn send(
    client: &kube::Client,
    method: &Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value> {
    let kind = match *method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let text = body.map(Value::to_string).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, kind)
        .body(Body::from(text.into_bytes()))?;
    let answer = client.send(request).await.with_context(|| format!("{method} {path}"))?;
    let status = answer.status();
    let bytes = answer.into_body().collect().await?.to_bytes();
    let text = String::from_utf8_lossy(&bytes);
    ensure!(status.is_success(), "{method} {path}: {status}: {text}");
    Ok(serde_json::from_slice(&bytes)?)
}
