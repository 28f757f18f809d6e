//! A new connection each time, used for one byte.

use std::{
    fs,
    io::{Read, Write},
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

/// When a connection counts as failed; several times what the kernel waits to send a SYN again.
const PATIENCE: Duration = Duration::from_secs(8);

/// Lets a thousand connections a second find a port although closed ones linger.
const SYSCTLS: [(&str, &str); 2] = [
    ("/proc/sys/net/ipv4/ip_local_port_range", "1024 65000"),
    ("/proc/sys/net/ipv4/tcp_tw_reuse", "1"),
];

pub(super) fn start(plan: &Plan, shared: &Shared) -> Result<Threads> {
    let local = SocketAddr::new(sockets::any(plan.target.ip()), plan.target.port());
    let listener =
        plan.to.run(move || sockets::listener(local).context("cannot bind the server"))?;
    listener.set_nonblocking(true)?;
    let receiver = shared.clone();
    let server = Some(thread::spawn(move || serve(&listener, &receiver)));
    Ok(Threads { server, ..ask(plan, shared)? })
}

/// Only the side that asks.
pub(super) fn ask(plan: &Plan, shared: &Shared) -> Result<Threads> {
    let (copy, sender) = (plan.clone(), shared.clone());
    let client = plan.from.spawn("connect", move || {
        for (file, value) in SYSCTLS {
            fs::write(file, value).with_context(|| format!("cannot write {file}"))?;
        }
        Ok(call(&copy, &sender))
    })?;
    Ok(Threads { client, server: None })
}

fn call(plan: &Plan, shared: &Shared) -> Report {
    let mut report = Report::new(plan.kind, plan.target.ip());
    let mut pace = Pace::new(plan.rate, &shared.stop);
    let mut gap = Gap::default();
    while pace.tick() {
        report.sent += 1;
        if converse(&plan.target).is_ok() {
            gap.mark();
            shared.answers.fetch_add(1, Ordering::Relaxed);
        } else {
            report.failures += 1;
        }
    }
    gap.tell(&mut report);
    report
}

/// The client closes first: its side lingers, where ports may be used again.
fn converse(target: &SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(target, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&[1])?;
    stream.read_exact(&mut [0])
}

fn serve(listener: &TcpListener, shared: &Shared) -> Result<ServerSide> {
    while !shared.close.load(Ordering::Relaxed) {
        match listener.accept() {
            // Whatever goes wrong from here on, the client sees it and counts it.
            Ok((stream, _)) => drop(answer(stream)),
            Err(error) if sockets::is_timeout(&error) => wait(listener)?,
            Err(error) => return Err(error).context("the server cannot accept"),
        }
    }
    Ok(ServerSide::default())
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    stream.write_all(&byte)?;
    // Until the client has closed.
    stream.read(&mut byte).map(drop)
}

/// Waits for the next connection, but not longer than the stop flag may.
pub(super) fn wait(listener: &TcpListener) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(sockets::POLL.subsec_nanos()) };
    poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&limit))?;
    Ok(())
}
