//! Records on one long connection, each echoed.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

use super::{
    Plan, Report,
    gap::Gap,
    pace::Pace,
    sockets,
    stream::{ServerSide, Shared, Threads},
};

/// Bytes of a record.
const RECORD: usize = 256;

/// How long the connection may take to be made.
const CONNECT: Duration = Duration::from_secs(60);

pub(super) fn start(plan: &Plan, shared: &Shared) -> Result<Threads> {
    let target = plan.target;
    let local = SocketAddr::new(sockets::any(target.ip()), target.port());
    let listener =
        plan.to.run(move || sockets::listener(local).context("cannot bind the server"))?;
    let threads = ask(plan, shared)?;
    Ok(Threads { server: Some(thread::spawn(move || echo(&listener))), ..threads })
}

/// Only the side that asks.
pub(super) fn ask(plan: &Plan, shared: &Shared) -> Result<Threads> {
    let target = plan.target;
    let client = plan.from.run(move || Ok(TcpStream::connect_timeout(&target, CONNECT)?))?;
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(sockets::POLL))?;
    let (plan, sender) = (plan.clone(), shared.clone());
    Ok(Threads { client: thread::spawn(move || converse(client, &plan, &sender)), server: None })
}

/// Sends records and counts those that came back; the kernel's counters say what was lost.
fn converse(stream: TcpStream, plan: &Plan, shared: &Shared) -> Result<Report> {
    let mut report = Report::new(plan.kind, plan.target.ip());
    thread::scope(|scope| {
        let receiver = scope.spawn(|| collect(&stream, shared));
        let mut pace = Pace::new(plan.rate, &shared.stop);
        let mut failures = 0;
        while pace.tick() {
            if (&stream).write_all(&[0; RECORD]).is_err() {
                // Reset: nothing more can be sent.
                failures = 1;
                break;
            }
            report.sent += 1;
        }
        shared.drain(report.sent);
        // Ends the server, and the receiver when the server has answered everything.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        shared.close.store(true, Ordering::Relaxed);
        let (gap, reset) = receiver.join().expect("the receiver does not panic");
        let stalled = shared.answers.load(Ordering::Relaxed) < report.sent;
        report.failures = failures.max(u64::from(reset || stalled));
        gap.tell(&mut report);
        Ok(report)
    })
}

/// Reads until the end; true if it was not the one that was asked for.
fn collect(mut stream: &TcpStream, shared: &Shared) -> (Gap, bool) {
    let mut gap = Gap::default();
    let mut buffer = [0; RECORD * 64];
    let mut bytes = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (gap, !shared.stop.load(Ordering::Relaxed)),
            Ok(length) => {
                gap.mark();
                bytes += length;
                shared.answers.store((bytes / RECORD) as u64, Ordering::Relaxed);
            }
            Err(error) if sockets::is_timeout(&error) => {
                if shared.close.load(Ordering::Relaxed) {
                    return (gap, false);
                }
            }
            Err(_) => return (gap, true),
        }
    }
}

fn echo(listener: &TcpListener) -> Result<ServerSide> {
    let (mut stream, _) = listener.accept().context("the server cannot accept")?;
    stream.set_nodelay(true)?;
    let mut buffer = [0; RECORD * 64];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) if stream.write_all(&buffer[..length]).is_ok() => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Reset: the client tells.
            _ => break,
        }
    }
    Ok(ServerSide::default())
}
