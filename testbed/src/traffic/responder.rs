//! Somebody who answers at a port until he is dropped: a backend of a service, which has the packets of
//! whoever comes.

use std::{
    io::{Read, Write},
    net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

use super::{Kind, connect, exchange::LARGEST, sockets};
use crate::lab::Netns;

/// How long one who is connected may say nothing.
const SILENCE: Duration = Duration::from_secs(60);

/// Echoes datagrams, or what comes over connections.
#[derive(Debug)]
pub struct Responder {
    stop: Arc<AtomicBool>,
}

impl Responder {
    /// Answers at that port of every address, of both families.
    pub fn start(netns: &Netns, kind: Kind, port: u16) -> Result<Self> {
        let local = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        if kind == Kind::Udp {
            let socket = netns.run(move || Ok(sockets::udp(local)?)).context("cannot bind")?;
            thread::spawn(move || echo_datagrams(&socket, &told));
        } else {
            let listener = netns.run(move || Ok(sockets::listener(local)?));
            let listener = listener.context("cannot bind the server")?;
            listener.set_nonblocking(true)?;
            thread::spawn(move || accept(&listener, &told));
        }
        Ok(Self { stop })
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn echo_datagrams(socket: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = [0; LARGEST];
    while !stop.load(Ordering::Relaxed) {
        // Errors are time-outs, or of somebody who is gone.
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    }
}

fn accept(listener: &TcpListener, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // What goes wrong from here on, the client sees.
            Ok((stream, _)) => drop(thread::spawn(move || echo(stream))),
            Err(_) => {
                let _ = connect::wait(listener);
            }
        }
    }
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    let mut buffer = [0; LARGEST];
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..length])?;
    }
}
