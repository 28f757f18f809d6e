//! As much as goes through one connection.

use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::lab::Netns;

/// Bytes of one call.
const CHUNK: usize = 256 * 1024;
/// Until windows have grown.
const WARM_UP: Duration = Duration::from_millis(200);
/// Nobody waits longer for the other end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends as much as there goes for that long; bytes a second that were received.
pub fn bulk(from: &Netns, to: &Netns, target: SocketAddr, span: Duration) -> Result<f64> {
    let any: IpAddr = if target.is_ipv6() { "::".parse()? } else { "0.0.0.0".parse()? };
    let listener = to.run(|| Ok(TcpListener::bind((any, target.port()))?))?;
    let sender = from.run(|| Ok(TcpStream::connect_timeout(&target, PATIENCE)?));
    let mut sender = sender.with_context(|| format!("cannot connect to {target}"))?;
    let (mut receiver, _) = listener.accept()?;
    sender.set_write_timeout(Some(PATIENCE))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let receiving = thread::spawn(move || -> Result<f64> {
        let mut chunk = vec![0; CHUNK];
        let begun = Instant::now();
        while begun.elapsed() < WARM_UP {
            receiver.read(&mut chunk).context("nothing comes")?;
        }
        let (begun, mut bytes) = (Instant::now(), 0);
        while begun.elapsed() < span {
            bytes += receiver.read(&mut chunk).context("nothing more comes")?;
        }
        Ok(bytes as f64 / begun.elapsed().as_secs_f64())
    });
    let chunk = vec![0; CHUNK];
    while !receiving.is_finished() {
        // The receiver hangs up when it has enough.
        if sender.write_all(&chunk).is_err() {
            break;
        }
    }
    receiving.join().expect("receivers return")
}
