//! A blocking client of the agent's REST API, one connection a request: what is measured through
//! it contains no runtime of its own.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::PATIENCE;

/// The API behind a unix socket.
#[derive(Clone, Debug)]
pub struct Rest {
    socket: PathBuf,
}

/// What the API answered.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body, whole.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body of a success.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        let text = String::from_utf8_lossy(&self.body);
        ensure!((200..300).contains(&self.status), "the API answered {}: {text}", self.status);
        serde_json::from_slice(&self.body).with_context(|| format!("the API answered {text}"))
    }
}

impl Rest {
    /// The API at `socket`.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.into() }
    }

    /// Sends one request to `/v1` + `path` and reads the answer, whatever its status.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        self.send(method, &format!("/v1{path}"), body)
            .with_context(|| format!("{method} {path} at {}", self.socket.display()))
    }

    /// Reads `target`, which need not be below `/v1`.
    pub fn fetch(&self, target: &str) -> Result<Answer> {
        let answer = self.send("GET", target, None)?;
        ensure!(answer.status == 200, "GET {target}: {}", answer.status);
        Ok(answer)
    }

    /// Reads `path`, below `/v1`.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.request("GET", path, None)?.json().with_context(|| format!("GET {path}"))
    }

    /// Whether the API answers at all, in any way.
    pub fn answers(&self) -> bool {
        self.send("GET", "/v1/healthz", None).is_ok_and(|answer| answer.status == 200)
    }

    fn send(&self, method: &str, target: &str, body: Option<&Value>) -> Result<Answer> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        parse(&answer)
    }
}

/// Splits an answer that was read to its end.
fn parse(answer: &[u8]) -> Result<Answer> {
    let split = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    let head = std::str::from_utf8(&answer[..split]).context("the head is not text")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = &answer[split + 4..];
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok(Answer {
        status: status.with_context(|| format!("no status in {head:?}"))?,
        body: if chunked { unchunk(body)? } else { body.into() },
    })
}

fn unchunk(mut body: &[u8]) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let Some(end) = body.windows(2).position(|window| window == b"\r\n") else {
            bail!("the body ends within a chunk");
        };
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end])?, 16)?;
        if size == 0 {
            return Ok(whole);
        }
        let chunk = body.get(end + 2..end + 2 + size).context("a chunk is cut short")?;
        whole.extend(chunk);
        body = &body[(end + 4 + size).min(body.len())..];
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_whole_and_chunked_bodies() {
        let whole = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        assert_eq!((whole.status, &whole.body[..]), (200, &b"{}"[..]));
        let chunked = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n\
                        3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n";
        let chunked = parse(chunked).unwrap();
        assert_eq!((chunked.status, &chunked.body[..]), (404, &b"[1,2]"[..]));
        assert!(parse(b"HTTP/1.1 200").is_err());
    }
}
