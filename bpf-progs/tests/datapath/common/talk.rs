//! Sockets that speak with each other.

use super::Namespace;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(10);

pub fn udp_socket(at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(at).expect("the address is this namespace's");
    socket.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
    socket
}

/// Receives; a wait with a limit may be interrupted by anything that stops the process for a moment.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8], what: &str) -> (usize, SocketAddr) {
    loop {
        match socket.recv_from(buffer) {
            Ok(received) => return received,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{what} does not arrive: {error}"),
        }
    }
}

/// Asks at a service and hears its answer; who asked, as whom the answering socket saw it.
pub fn ask(asking: &UdpSocket, service: SocketAddr, answering: &UdpSocket, bytes: usize) -> IpAddr {
    let (question, mut buffer) = (vec![7; bytes], vec![0; bytes + 1]);
    asking.send_to(&question, service).expect("the route exists");
    let (length, from) = receive(answering, &mut buffer, "the question");
    assert_eq!(&buffer[..length], question);
    answering.send_to(&question, from).expect("the way back exists");
    let (length, answered) = receive(asking, &mut buffer, "the answer");
    assert_eq!((length, answered.ip(), answered.port()), (bytes, service.ip(), service.port()));
    from.ip()
}

/// Sends a megabyte each way.
pub fn stream(client: &Namespace, service: SocketAddr, listener: TcpListener) -> IpAddr {
    let sent: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
    let expected = sent.clone();
    let server = std::thread::spawn(move || {
        let (mut stream, from) = listener.accept().expect("somebody connects");
        let mut got = vec![0; expected.len()];
        stream.read_exact(&mut got).expect("the client writes");
        assert!(got == expected);
        stream.write_all(&got).expect("the client reads");
        from.ip()
    });
    client.run(move || {
        let mut stream = TcpStream::connect_timeout(&service, PATIENCE).expect("it is served");
        stream.write_all(&sent).expect("the server reads");
        let mut got = Vec::new();
        stream.read_to_end(&mut got).expect("the stream ends");
        assert!(got == sent);
    });
    server.join().expect("the server does not panic")
}
