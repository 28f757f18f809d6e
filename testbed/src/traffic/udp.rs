//! Numbered datagrams, echoed.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::atomic::Ordering,
    thread,
};

use anyhow::{Context, Result};

use super::{
    Plan,
    exchange::{LARGEST, exchange, number},
    sockets,
    stream::{ServerSide, Shared, Threads},
    tally::Tally,
};

pub(super) fn start(plan: &Plan, shared: &Shared) -> Result<Threads> {
    let target = plan.target;
    let local = SocketAddr::new(sockets::any(target.ip()), target.port());
    let server = plan.to.run(move || sockets::udp(local).context("cannot bind the server"))?;
    let receiver = shared.clone();
    let server = Some(thread::spawn(move || echo(&server, &receiver)));
    Ok(Threads { server, ..ask(plan, shared)? })
}

/// Only the side that asks.
pub(super) fn ask(plan: &Plan, shared: &Shared) -> Result<Threads> {
    let target = plan.target;
    let client = plan.from.run(move || {
        let socket = sockets::udp(SocketAddr::new(sockets::any(target.ip()), 0))?;
        socket.connect(target)?;
        Ok(socket)
    })?;
    let (plan, sender) = (plan.clone(), shared.clone());
    Ok(Threads {
        client: thread::spawn(move || exchange(&client, &[], &plan, &sender)),
        server: None,
    })
}

fn echo(socket: &UdpSocket, shared: &Shared) -> Result<ServerSide> {
    let mut tally = Tally::default();
    let mut buffer = [0; LARGEST];
    let mut sent = 0;
    while !shared.close.load(Ordering::Relaxed) {
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                if let Some(number) = number(&buffer[..length]) {
                    tally.arrived(number);
                    sent += u64::from(socket.send_to(&buffer[..length], from).is_ok());
                }
            }
            Err(error) if sockets::is_timeout(&error) => {}
            Err(error) => return Err(error).context("the server cannot receive"),
        }
    }
    Ok(ServerSide { sent, reordered: tally.reordered, duplicates: tally.duplicates })
}
