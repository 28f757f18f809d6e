//! Commands in pods, through the API server.
//!
//! The API server passes them to the kubelet, and that to the runtime. Neither uses the network of
//! pods: they can be asked while it is broken, or closed by a policy.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::{
    Request, StatusCode,
    header::{
        CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
    },
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;
use volvox_system::causes::reported;

use crate::{
    ConnectivityError,
    api::Api,
    objects::CONTAINER,
    websocket::{WebSocket, random},
};

/// How the first byte of a message says what it is.
const PROTOCOL: &str = "v4.channel.k8s.io";
const INPUT: u8 = 0;
const OUTPUT: u8 = 1;
const COMPLAINT: u8 = 2;
const STATUS: u8 = 3;
/// How long a command may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command that runs.
pub(crate) struct Running {
    socket: WebSocket<TokioIo<Upgraded>>,
    pod: String,
    /// What it printed and was not read as lines yet.
    printed: Vec<u8>,
    complaint: String,
    status: Option<Value>,
}

/// Starts a command in the test's container of a pod, `namespace/name`.
pub(crate) async fn start(
    api: &Api,
    pod: &str,
    words: &[String],
    input: bool,
) -> Result<Running, ConnectivityError> {
    let failed = |cause: String| ConnectivityError::Exec { pod: pod.to_owned(), cause };
    let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
    let mut path = format!(
        "/api/v1/namespaces/{namespace}/pods/{name}/exec?container={CONTAINER}&stdout=true&stderr=true\
         &stdin={input}"
    );
    for word in words {
        path.push_str("&command=");
        path.push_str(&escaped(word));
    }
    let key = BASE64_STANDARD.encode([random(), random()].concat());
    let request = Request::builder()
        .uri(path)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, key)
        .header(SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
        .body(Body::empty())
        .map_err(|error| failed(error.to_string()))?;
    let doing = format!("run a command in pod {pod}");
    let response = match timeout(PATIENCE, api.client().send(request)).await {
        Ok(answer) => answer.map_err(|error| api.told(&doing, error))?,
        Err(_) => return Err(failed(format!("no answer in {} s", PATIENCE.as_secs()))),
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let status = response.status().as_u16();
        let body = response.into_body().collect_bytes().await.unwrap_or_default();
        let said = String::from_utf8_lossy(&body);
        let cause = serde_json::from_str::<Value>(&said)
            .ok()
            .and_then(|it| it["message"].as_str().map(str::to_owned))
            .unwrap_or_else(|| said.trim().to_owned());
        if status == 401 || status == 403 {
            return Err(ConnectivityError::Denied { doing, cause });
        }
        return Err(failed(format!("{cause} (status {status})")));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(|error| failed(reported(&error)))?;
    Ok(Running {
        socket: WebSocket::new(TokioIo::new(upgraded)),
        pod: pod.to_owned(),
        printed: Vec::new(),
        complaint: String::new(),
        status: None,
    })
}

impl Running {
    /// The next line that it prints; `None` when it has ended well.
    pub(crate) async fn line(&mut self) -> Result<Option<String>, ConnectivityError> {
        loop {
            if let Some(end) = self.printed.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.printed.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            if let Some(status) = &self.status {
                return match failure(status) {
                    None => Ok(None),
                    Some(cause) => Err(self.failed(&format!("{cause}: {}", self.complaint.trim()))),
                };
            }
            match self.socket.next().await {
                Ok(Some(message)) => self.take(&message),
                Ok(None) => return Err(self.failed("the connection ended before the command")),
                Err(error) => return Err(self.failed(&error.to_string())),
            }
        }
    }

    /// Gives it something to read.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectivityError> {
        let sent = self.socket.send(&[&[INPUT], bytes].concat()).await;
        sent.map_err(|error| self.failed(&error.to_string()))
    }

    fn take(&mut self, message: &[u8]) {
        let Some((channel, bytes)) = message.split_first() else { return };
        match *channel {
            OUTPUT => self.printed.extend(bytes),
            COMPLAINT => self.complaint.push_str(&String::from_utf8_lossy(bytes)),
            STATUS => self.status = serde_json::from_slice(bytes).ok().or(self.status.take()),
            _ => {}
        }
    }

    fn failed(&self, cause: &str) -> ConnectivityError {
        ConnectivityError::Exec {
            pod: self.pod.clone(),
            cause: cause.trim_end_matches(": ").to_owned(),
        }
    }
}

/// All lines that a command prints until it ends.
pub(crate) async fn lines(
    api: &Api,
    pod: &str,
    words: &[String],
    patience: Duration,
) -> Result<Vec<String>, ConnectivityError> {
    let all = async {
        let mut running = start(api, pod, words, false).await?;
        let mut lines = Vec::new();
        while let Some(line) = running.line().await? {
            lines.push(line);
        }
        Ok(lines)
    };
    timeout(patience, all).await.unwrap_or_else(|_| {
        let cause = format!("the command did not end in {} s", patience.as_secs());
        Err(ConnectivityError::Exec { pod: pod.to_owned(), cause })
    })
}

/// Why a command failed, as the status says.
fn failure(status: &Value) -> Option<String> {
    if status["status"] == "Success" {
        return None;
    }
    let message = status["message"].as_str().unwrap_or("it does not say why");
    Some(message.to_owned())
}

/// A word as a part of a query.
fn escaped(word: &str) -> String {
    let mut text = String::new();
    for byte in word.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_escaped() {
        assert_eq!(escaped("udp://[a]:1?size=2&x"), "udp%3A%2F%2F%5Ba%5D%3A1%3Fsize%3D2%26x");
    }

    #[test]
    fn a_command_that_failed_says_why() {
        assert_eq!(failure(&json!({ "status": "Success" })), None);
        let status =
            json!({ "status": "Failure", "message": "command terminated with exit code 2" });
        assert_eq!(failure(&status).unwrap(), "command terminated with exit code 2");
    }
}
