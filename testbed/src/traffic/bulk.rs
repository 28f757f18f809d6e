//! As much as goes through one connection.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::sockets;
use crate::lab::Netns;

/// Bytes of one call.
const CHUNK: usize = 256 * 1024;
/// How a sender finds out how much goes: by windows alone, as every kernel can. What paces itself by timers
/// says more of these.
const CONGESTION: &str = "reno";
/// Until windows have grown.
const WARM_UP: Duration = Duration::from_millis(200);
/// Nobody waits longer for the other end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends as much as there goes for that long; bytes a second that were received.
///
/// Each end has a CPU of its own, if there are two, and never sleeps: what a wake-up costs, and whether one is due for each
/// packet, says more of the machine than of the way between both.
pub fn bulk(from: &Netns, to: &Netns, target: SocketAddr, span: Duration) -> Result<f64> {
    let any: IpAddr = if target.is_ipv6() { "::".parse()? } else { "0.0.0.0".parse()? };
    let listener = to.run(|| Ok(TcpListener::bind((any, target.port()))?))?;
    let sender = from.run(|| Ok(sockets::client(target, CONGESTION, PATIENCE)?));
    let mut sender = sender.with_context(|| format!("cannot connect to {target}"))?;
    let (mut receiver, _) = listener.accept()?;
    sender.set_nonblocking(true)?;
    receiver.set_nonblocking(true)?;
    let [first, last] = ends_of_the_machine()?;
    thread::scope(|scope| {
        let receiving = scope.spawn(move || -> Result<f64> {
            stay_on(last)?;
            receive(&mut receiver, span)
        });
        let sending = scope.spawn(move || -> Result<()> {
            stay_on(first)?;
            let chunk = vec![0; CHUNK];
            loop {
                match spin(|| sender.write(&chunk)).map_err(|error| error.kind()) {
                    Ok(_) => {}
                    // The receiver hangs up when it has enough.
                    Err(ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => return Ok(()),
                    Err(kind) => bail!("nothing goes to {target}: {kind}"),
                }
            }
        });
        sending.join().expect("senders return")?;
        receiving.join().expect("receivers return")
    })
}

/// Bytes a second that are received for that long, once windows have grown.
fn receive(receiver: &mut TcpStream, span: Duration) -> Result<f64> {
    let mut chunk = vec![0; CHUNK];
    let begun = Instant::now();
    while begun.elapsed() < WARM_UP {
        spin(|| receiver.read(&mut chunk)).context("nothing comes")?;
    }
    let (begun, mut bytes) = (Instant::now(), 0);
    while begun.elapsed() < span {
        bytes += spin(|| receiver.read(&mut chunk)).context("nothing more comes")?;
    }
    Ok(bytes as f64 / begun.elapsed().as_secs_f64())
}

/// Tries until something goes, without sleep.
fn spin(mut work: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    let begun = Instant::now();
    loop {
        match work() {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            done => return done,
        }
        if begun.elapsed() > PATIENCE {
            return Err(ErrorKind::TimedOut.into());
        }
    }
}

/// The first and the last CPU that this process may use.
pub fn ends_of_the_machine() -> Result<[usize; 2]> {
    let allowed = sched_getaffinity(None)?;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let first = cpus.next().context("no CPU")?;
    Ok([first, cpus.next_back().unwrap_or(first)])
}

/// Keeps the calling thread on a CPU.
fn stay_on(cpu: usize) -> Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}
