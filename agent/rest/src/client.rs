//! Client of the agent's REST API on its unix socket.
//!
//! It runs on the caller's tokio runtime, which may have one thread. An agent that was restarted between
//! two requests is simply the next one to answer: each has a connection of its own, or one that is tried
//! anew where it turns out to be closed.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::{
    net::UnixStream,
    time::{Instant, sleep, timeout, timeout_at},
};

/// Where the agent listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/var/run/cilium/cilium.sock";
/// How long a client waits for an agent that does not listen yet.
pub const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
/// How long a client waits for an answer.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// The largest answer read, bytes: `/debuginfo` of a full node is some ten million.
const ANSWER_LIMIT: usize = 256 << 20;
/// First and longest pause between two attempts to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// Why a request failed, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum RestError {
    /// Nobody listens on the socket.
    #[error(
        "connect to the agent at {socket}: {source}; see that volvox-agent runs and that --socket-path names its socket"
    )]
    Unreachable {
        /// The socket.
        socket: String,
        /// The system's error.
        source: io::Error,
    },
    /// The agent took the request, but its answer did not come in time.
    #[error("{request}: no answer after {after:?}; see `volvox why` and the agent's log")]
    TimedOut {
        /// Method and path.
        request: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The connection broke: whether the agent did what was asked is not known.
    #[error("{request}: connection lost: {cause}; the agent may have been restarted: try again")]
    Broken {
        /// Method and path.
        request: String,
        /// What broke it.
        cause: String,
    },
    /// The agent refused.
    #[error("{request}: {status}: {message}")]
    Refused {
        /// Method and path.
        request: String,
        /// Its HTTP status code.
        status: u16,
        /// Its own words.
        message: String,
    },
    /// The answer is not of the shape expected.
    #[error(
        "{request}: the answer cannot be read: {cause}; see that client and agent are of one version"
    )]
    Garbled {
        /// Method and path.
        request: String,
        /// What is wrong with it.
        cause: String,
    },
}

impl RestError {
    /// The HTTP status code, if the agent answered with one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the agent may have done what was asked although no answer came.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Broken { .. } | Self::Garbled { .. })
    }
}

/// An answer of success.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Method and path of the request.
    pub request: String,
    /// HTTP status code, 200 to 299.
    pub status: u16,
    /// The body; empty if there is none.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON of some shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, RestError> {
        serde_json::from_slice(&self.body).map_err(|error| RestError::Garbled {
            request: self.request.clone(),
            cause: error.to_string(),
        })
    }
}

/// A connection to the agent.
type Connection = http1::SendRequest<Full<Bytes>>;

/// A client of one agent.
#[derive(Clone, Debug)]
pub struct RestClient {
    socket: PathBuf,
    patience: Duration,
    deadline: Duration,
    /// What paths begin with.
    base: &'static str,
    /// Connections that are free, where they are kept.
    kept: Option<Arc<Mutex<Vec<Connection>>>>,
}

impl RestClient {
    /// A client of the agent behind a socket. It waits [`CONNECT_PATIENCE`] for the agent to
    /// listen, and [`DEADLINE`] for each answer.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        let socket = socket.into();
        Self { socket, patience: CONNECT_PATIENCE, deadline: DEADLINE, base: "/v1", kept: None }
    }

    /// Keeps connections for further requests of this client and of its clones. All of them are to be made on
    /// one runtime.
    #[must_use]
    pub fn keep_connections(mut self) -> Self {
        self.kept = Some(Arc::default());
        self
    }

    /// Has paths begin after something else than `/v1`.
    #[must_use]
    pub fn below(mut self, base: &'static str) -> Self {
        self.base = base;
        self
    }

    /// Sets how long to wait for an agent that does not listen yet; zero is one attempt.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets how long to wait for an answer.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The agent's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks for something; `path` begins after `/v1`, as `/healthz`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, RestError> {
        self.send(Method::GET, path, &[], None::<&Value>).await?.json()
    }

    /// Sends a request, with headers and a JSON body if there is one. `path` begins after `/v1`;
    /// what of it comes from outside is to be [`escape`]d.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<Answer, RestError> {
        let base = self.base;
        let name = format!("{method} {base}{path}");
        let garbled = |cause: String| RestError::Garbled { request: name.clone(), cause };
        let bytes = match body {
            Some(body) => serde_json::to_vec(body).map_err(|error| garbled(error.to_string()))?,
            None => Vec::new(),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{base}{path}"))
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json");
        for (header, value) in headers {
            request = request.header(*header, *value);
        }
        let request = request
            .body(Full::new(Bytes::from(bytes)))
            .map_err(|error| garbled(error.to_string()))?;
        let (connection, kept) = self.connection().await?;
        let exchange = async {
            let (answer, free) = self.exchange((connection, kept), request, &name).await?;
            self.keep(free);
            answer
        };
        timeout(self.deadline, exchange)
            .await
            .unwrap_or(Err(RestError::TimedOut { request: name.clone(), after: self.deadline }))
    }

    /// Waits until the agent listens, no longer than patience lasts.
    pub async fn reach(&self) -> Result<(), RestError> {
        let (connection, _) = self.connection().await?;
        self.keep(connection);
        Ok(())
    }

    /// A connection: one that is free, or a new one; whether it was kept.
    async fn connection(&self) -> Result<(Connection, bool), RestError> {
        loop {
            let free = self
                .kept
                .as_ref()
                .and_then(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner).pop());
            let Some(mut free) = free else { return Ok((self.connect().await?, false)) };
            if free.ready().await.is_ok() {
                return Ok((free, true));
            }
        }
    }

    fn keep(&self, free: Connection) {
        if let Some(kept) = &self.kept {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(free);
        }
    }

    /// Connects, trying again while nobody listens and patience lasts.
    async fn connect(&self) -> Result<Connection, RestError> {
        let end = Instant::now() + self.patience;
        let mut pause = PAUSES.0;
        loop {
            let source = match connected(&self.socket).await {
                Ok(connection) => return Ok(connection),
                Err(source) => source,
            };
            if !may_come(&source) || timeout_at(end, sleep(pause)).await.is_err() {
                let socket = self.socket.display().to_string();
                return Err(RestError::Unreachable { socket, source });
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Sends a request and reads the answer; the connection is free then. One that the agent closed before
    /// it took the request costs another; so does one that was kept and closes without an answer, if it was
    /// only asked for something: nobody can tell whether the agent closed it before.
    async fn exchange(
        &self,
        (mut connection, kept): (Connection, bool),
        request: Request<Full<Bytes>>,
        name: &str,
    ) -> Result<(Result<Answer, RestError>, Connection), RestError> {
        let broken = |error: hyper::Error| {
            let (request, cause) = (name.to_owned(), error.to_string());
            RestError::Broken { request, cause }
        };
        let again = (kept && request.method() == Method::GET).then(|| request.clone());
        let response = match connection.try_send_request(request).await {
            Ok(response) => response,
            Err(mut error) => {
                let unsent = error.take_message().or(again);
                let request = unsent.ok_or_else(|| broken(error.into_error()))?;
                connection = self.connect().await?;
                connection.send_request(request).await.map_err(broken)?
            }
        };
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
        let body = body.map_err(|error| {
            let (request, cause) = (name.to_owned(), error.to_string());
            RestError::Broken { request, cause }
        })?;
        let (request, body) = (name.to_owned(), body.to_bytes());
        let answer = if status.is_success() {
            Ok(Answer { request, status: status.as_u16(), body })
        } else {
            let message = words(status, &body);
            Err(RestError::Refused { request, status: status.as_u16(), message })
        };
        Ok((answer, connection))
    }
}

/// Connects once.
async fn connected(socket: &Path) -> io::Result<Connection> {
    let stream = UnixStream::connect(socket).await?;
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // It ends with the last answer, or with `sender`.
    tokio::spawn(connection);
    Ok(sender)
}

/// Whether an agent that is starting can look like this, or one that ends: who waits in the queue of a socket
/// that closes is reset.
fn may_come(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound, WouldBlock};
    matches!(error.kind(), NotFound | ConnectionRefused | ConnectionReset | WouldBlock)
}

/// The agent's words: a bare JSON string, an object with a message, or plain text.
fn words(status: StatusCode, body: &[u8]) -> String {
    let text = match serde_json::from_slice::<Value>(body) {
        Ok(Value::String(text)) => text,
        Ok(Value::Object(object)) => match object.get("message") {
            Some(Value::String(text)) => text.clone(),
            _ => Value::Object(object).to_string(),
        },
        _ => String::from_utf8_lossy(body).trim().to_owned(),
    };
    if text.is_empty() {
        status.canonical_reason().unwrap_or("no reason given").to_owned()
    } else {
        text
    }
}

/// Writes a text so that it is one segment of a path or one value of a query (RFC 3986).
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
