//! One request by HTTP, for who serves on TCP in the lab.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result};

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What answers there at a path: the head, and the body.
pub fn http_get(to: SocketAddr, path: &str) -> Result<(String, String)> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    Ok((head.to_owned(), body.to_owned()))
}
