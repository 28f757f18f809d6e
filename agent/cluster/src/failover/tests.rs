//! Connections to several API servers, which are small HTTP servers of this process.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Barrier, Mutex, mpsc},
    thread,
    time::Duration,
};

use serde_json::json;
use tokio::time::timeout;
use volvox_actors::ports::{ClusterError, Object, ObjectChange, ObjectKey};

use crate::{Access, Connection, access::remedy_of, tests::pods};

/// Nobody listens there.
const NOBODY: &str = "http://127.0.0.1:1";
/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);
const LIFETIME: Duration = Duration::from_secs(20);

/// A server that was started, and what it was asked.
struct Fake {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// Answers each request as `answer` does, which gets its head.
    fn start(answer: impl Fn(&str, TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, heads) = (Arc::new(answer), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, heads) = (Arc::clone(&answer), Arc::clone(&heads));
                thread::spawn(move || {
                    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let lines = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
                    let head = lines.collect::<Vec<_>>().join("\n");
                    heads.lock().unwrap().push(head.clone());
                    answer(&head, stream);
                });
            }
        });
        Self { url, asked }
    }

    /// Answers each request with that status and that body.
    fn saying(status: &'static str, body: String) -> Self {
        Self::start(move |_, stream| say(stream, status, &body))
    }

    /// Has no pods.
    fn empty() -> Self {
        Self::saying("200 OK", list())
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn list() -> String {
    json!({ "metadata": { "resourceVersion": "7" }, "items": [] }).to_string()
}

fn say(mut stream: TcpStream, status: &str, body: &str) {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    // Whoever asked may be gone.
    let _ = stream.write_all((head + body).as_bytes());
}

fn named(urls: &[&str]) -> Access {
    Access { kubeconfig: None, servers: urls.join(",").parse().unwrap() }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(LONG, test).await.expect("it ends") })
}

async fn listed(connection: &Connection) -> Result<String, String> {
    let page = connection.list(&pods(), None).await;
    page.map(|page| page.version).map_err(|error| error.to_string())
}

#[test]
fn the_second_is_asked_if_the_first_one_refuses() {
    let second = Fake::empty();
    let connection = Connection::new(named(&[NOBODY, &second.url]));
    run(async {
        let error = listed(&connection).await.unwrap_err();
        let begin = format!("the API server does not answer: cannot reach {NOBODY}: ");
        assert!(error.starts_with(&begin) && error.contains("refused"), "{error}");
        assert!(error.ends_with(&format!("; next is {}", second.url)), "{error}");
        assert_eq!(connection.address().as_deref(), Some(NOBODY));
        for _ in 0..2 {
            assert_eq!(listed(&connection).await, Ok("7".to_owned()));
        }
        assert_eq!(connection.address(), Some(second.url.clone()));
    });
    assert_eq!(second.asked().len(), 2);
}

#[test]
fn it_goes_round_and_writes_go_the_same_way() {
    let last = Fake::empty();
    let connection = Connection::new(named(&[NOBODY, "http://127.0.0.1:2", &last.url]));
    let key = ObjectKey { namespace: "shop".to_owned(), name: "web".to_owned() };
    let verb = volvox_actors::ports::Verb::Merge(json!({}));
    let write = volvox_actors::ports::ObjectWrite { resource: pods(), key, verb };
    run(async {
        let error = listed(&connection).await.unwrap_err();
        assert!(error.ends_with("; next is http://127.0.0.1:2"), "{error}");
        let error = connection.write(&write).await.unwrap_err().to_string();
        assert!(error.contains("cannot reach http://127.0.0.1:2: "), "{error}");
        assert_eq!(connection.write(&write).await, Ok(()));
        let error = connection.give_up(Duration::from_secs(2)).await.to_string();
        assert!(error.contains(&format!("cannot reach {}: nothing came for 2 s", last.url)));
        assert!(error.ends_with(&format!("; next is {NOBODY}")), "{error}");
    });
    assert!(last.asked()[0].starts_with("PATCH /api/v1/namespaces/shop/pods/web "));
}

#[test]
fn a_watch_whose_server_dies_has_the_next_one_asked() {
    let (die, dies) = mpsc::channel::<()>();
    let dies = Mutex::new(dies);
    let first = Fake::start(move |_, mut stream| {
        let object = json!({ "metadata": { "name": "web", "namespace": "shop", "uid": "1" } });
        let event = format!("{}\n", json!({ "type": "ADDED", "object": object }));
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = format!("{head}{:x}\r\n{event}\r\n", event.len());
        stream.write_all(chunk.as_bytes()).unwrap();
        // It ends in the middle of its answer.
        let _ = dies.lock().unwrap().recv();
    });
    let second = Fake::empty();
    let connection = Connection::new(named(&[&first.url, &second.url]));
    let (events, mut seen) = tokio::sync::mpsc::channel(4);
    run(async {
        let resource = pods();
        let watch = connection.watch(&resource, "6", LIFETIME, events);
        let look = async {
            assert_eq!(seen.recv().await, Some(Ok(Vec::new())), "it began");
            let changes = seen.recv().await.unwrap().unwrap();
            assert!(matches!(&changes[0], ObjectChange::Applied(Object { key, .. })
                if key.to_string() == "shop/web"));
            drop(die);
            seen.recv().await.unwrap().unwrap_err().to_string()
        };
        let ((), error) = tokio::join!(watch, look);
        assert!(error.contains(&format!("cannot reach {}: ", first.url)), "{error}");
        assert!(error.ends_with(&format!("; next is {}", second.url)), "{error}");
        assert_eq!(listed(&connection).await, Ok("7".to_owned()));
    });
    assert_eq!(first.asked().len(), 1);
}

#[test]
fn one_that_takes_requests_and_never_answers_is_left() {
    let (_never, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let first = Fake::start(move |_, _stream| {
        let _ = waits.lock().unwrap().recv();
    });
    let second = Fake::empty();
    let access = named(&[&first.url, &second.url]);
    let connection = Connection::hasty(access, Duration::from_millis(500));
    run(async {
        let error = listed(&connection).await.unwrap_err();
        assert!(error.contains(&format!("cannot reach {}: nothing came for", first.url)));
        assert!(error.ends_with(&format!("; next is {}", second.url)), "{error}");
        // The second one may be slow on a busy machine: then it is its turn again later.
        while listed(&connection).await.is_err() {}
    });
    assert!(!second.asked().is_empty());
}

#[test]
fn many_that_fail_together_move_once() {
    const MANY: usize = 5;
    let all = Barrier::new(MANY);
    // All have asked before the first one fails.
    let first = Fake::start(move |_, _stream| {
        all.wait();
    });
    let (second, third) = (Fake::empty(), Fake::empty());
    let connection = Connection::new(named(&[&first.url, &second.url, &third.url]));
    run(async {
        let (a, b, c, d, e) = tokio::join!(
            listed(&connection),
            listed(&connection),
            listed(&connection),
            listed(&connection),
            listed(&connection),
        );
        for error in [a, b, c, d, e].map(Result::unwrap_err) {
            assert!(error.contains(&format!("cannot reach {}: ", first.url)), "{error}");
            assert!(error.ends_with(&format!("; next is {}", second.url)), "{error}");
        }
        assert_eq!(listed(&connection).await, Ok("7".to_owned()));
    });
    let asked = [first, second, third].map(|server| server.asked().len());
    assert_eq!(asked, [MANY, 1, 0]);
}

#[test]
fn who_answers_stays_whatever_the_answer() {
    let status = json!({ "kind": "Status", "message": "no" }).to_string();
    for (code, stays) in [
        ("401 Unauthorized", true),
        ("403 Forbidden", true),
        ("404 Not Found", true),
        ("409 Conflict", true),
        ("410 Gone", true),
        ("429 Too Many Requests", true),
        ("500 Internal Server Error", true),
        ("502 Bad Gateway", false),
        ("503 Service Unavailable", false),
        ("504 Gateway Timeout", false),
    ] {
        let (first, second) = (Fake::saying(code, status.clone()), Fake::empty());
        let connection = Connection::new(named(&[&first.url, &second.url]));
        let (error, next) = run(async {
            let error = listed(&connection).await.unwrap_err();
            (error, listed(&connection).await)
        });
        assert_eq!(next.is_err(), stays, "{code}: {error}");
        let moves = format!("cannot reach {}: {code}: no; next is {}", first.url, second.url);
        assert_eq!(error.contains(&moves), !stays, "{code}: {error}");
        // One alone is what it says that it is.
        let connection = Connection::new(named(&[&first.url]));
        let alone = run(async { connection.list(&pods(), None).await.unwrap_err() });
        assert!(!matches!(alone, ClusterError::Unreachable(_)), "{code}: {alone}");
    }
}

#[test]
fn one_alone_is_named_and_asked_again() {
    let connection = Connection::new(named(&[NOBODY]));
    for _ in 0..2 {
        let error = run(listed(&connection)).unwrap_err();
        assert!(error.contains(&format!("cannot reach {NOBODY}: ")), "{error}");
        assert!(!error.contains("next is") && !error.contains("--k8s-api-server"), "{error}");
    }
}

#[test]
fn who_asks_and_which_server_is_meant_stay_those_of_the_kubeconfig() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{ "name": "lab", "cluster": { "server": NOBODY } }],
        "users": [{ "name": "lab", "user": { "token": "secret" } }],
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab" } }],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    let access = Access { kubeconfig: Some(path), ..Access::default() };
    let error = run(listed(&Connection::new(access.clone()))).unwrap_err();
    assert!(error.contains(&format!("cannot reach {NOBODY}: ")), "{error}");
    assert!(!error.contains("next is"), "{error}");

    let second = Fake::empty();
    let servers = named(&["http://127.0.0.1:2", &second.url]).servers;
    let connection = Connection::new(Access { servers, ..access });
    run(async {
        let error = listed(&connection).await.unwrap_err();
        assert!(error.contains("cannot reach http://127.0.0.1:2: "), "{error}");
        assert_eq!(listed(&connection).await, Ok("7".to_owned()));
    });
    let head = second.asked().remove(0).to_lowercase();
    assert!(head.contains("authorization: bearer secret"), "{head}");
}

#[test]
fn where_the_clusters_service_is_asked_the_remedy_is_named() {
    let remedy = |host: &'static str, url: Option<&'static str>| {
        remedy_of(move |name| match name {
            "KUBERNETES_SERVICE_HOST" => Some(host.to_owned()),
            "KUBERNETES_PORT" => url.map(str::to_owned),
            _ => None,
        })
    };
    for (host, url) in [
        ("10.96.0.1", Some("tcp://10.96.0.1:443")),
        ("fd00::1", Some("tcp://[fd00::1]:443")),
        ("10.96.0.1", None),
    ] {
        let remedy = remedy(host, url);
        assert!(remedy.contains("--k8s-api-server, because nobody serves"), "{host}: {remedy}");
    }
    // Somebody named another address.
    assert_eq!(remedy("192.0.2.1", Some("tcp://10.96.0.1:443")), "");
}
