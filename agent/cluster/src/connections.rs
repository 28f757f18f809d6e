//! Counts the connections to API servers that answers came by. A new one may lead to another server
//! although nothing failed: a load balancer stands between, or the server asked for it.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use hyper::http::Extensions;
use hyper_util::client::legacy::connect::HttpInfo;

/// As many connections are told apart. More are never open at once: one for each watch, and a few.
const KNOWN_MAX: usize = 128;

/// The connections that answers came by.
#[derive(Default)]
pub(super) struct Connections {
    made: AtomicU64,
    /// Both ends of each, newest first.
    known: Mutex<VecDeque<(SocketAddr, SocketAddr)>>,
}

impl Connections {
    /// How many there were.
    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Takes in by which one an answer came. One that does not tell counts as a new one.
    pub(super) fn note(&self, answer: &Extensions) {
        let ends = answer.get::<HttpInfo>().map(|info| (info.local_addr(), info.remote_addr()));
        if !ends.is_some_and(|ends| self.is_known(ends)) {
            self.made.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether an answer came by that one before.
    fn is_known(&self, ends: (SocketAddr, SocketAddr)) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.iter().position(|it| *it == ends).and_then(|at| known.remove(at));
        known.push_front(ends);
        known.truncate(KNOWN_MAX);
        before.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        net::TcpListener,
        thread,
    };

    use volvox_actors::ports::Page;

    use crate::{Access, Connection, tests::pods};

    /// Answers a connection's requests with an empty list each, until that many were answered.
    fn serve(listener: TcpListener, answers: usize) {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for answered in 1..=answers {
                let head = lines.by_ref().map_while(Result::ok);
                if head.take_while(|line| !line.is_empty()).count() == 0 {
                    break;
                }
                let body = r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#;
                let close = if answered == answers { "connection: close\r\n" } else { "" };
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\n{close}content-length: {length}\r\n\r\n");
                (&stream).write_all((head + body).as_bytes()).unwrap();
            }
        }
    }

    #[test]
    fn a_connection_counts_once_however_much_comes_by_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let servers = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        thread::spawn(move || serve(listener, 3));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connection = Connection::new(Access { kubeconfig: None, servers });
        let made = || {
            let page: Page = runtime.block_on(connection.list(&pods(), None)).unwrap();
            assert_eq!(page.version, "7");
            connection.made()
        };
        // The server ends each connection after three answers, which is no failure.
        assert_eq!([made(), made(), made(), made(), made()], [1, 1, 1, 2, 2]);
    }
}
