//! Tests: no secret that stands anywhere in what is collected is in the archive, and all else is.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixListener,
    path::Path,
    thread,
};

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tar::Archive;
use volvox_actors::host::{CellId, Clock, Record};
use volvox_inspect::flight::Recording;
use volvox_system::SystemClock;

use crate::{Arguments, execute};

/// Each place has its own, all with this beginning.
const MARK: &str = "S3CRET";

/// A text with each kind of secret, in this place.
fn text(place: &str) -> String {
    format!(
        "begin-{place} etcd at https://root:{MARK}-{place}-url@10.0.0.1:2379 refused\n\
         Authorization: Bearer {MARK}-{place}-header\n\
         curl -H 'Authorization: Basic {MARK}{place}basic' http://10.0.0.1\n\
         ETCD_PASSWORD={MARK}-{place}-environment\n\
         users:\n- name: admin\n  user:\n    token: {MARK}-{place}-kubeconfig\n    \
         client-key-data: LS0tLS1CRUdJTiBSU0Eg{MARK}{place}\n\
         -----BEGIN EC PRIVATE KEY-----\n{MARK}-{place}-key\n-----END EC PRIVATE KEY-----\n\
         info {{\"kind\":\"Secret\",\"data\":{{\"x\":\"{MARK}-{place}-line\"}}}}\n\
         eyJhbGciOiJI.eyJzdWIiOi{MARK}{place}.{MARK}{place}\n\
         end-{place}\n"
    )
}

fn value(place: &str) -> Value {
    json!({
        "text": text(place),
        "objects": [{
            "kind": "Secret", "metadata": {"name": format!("name-{place}")},
            "data": {"x": format!("{MARK}-{place}-data")},
            "stringData": {"y": format!("{MARK}-{place}-string")},
        }],
        "environment-variables": [format!("kvstore-opt-password:{MARK}-{place}-variable")],
        "kvstore": {"etcd.password": format!("{MARK}-{place}-option")},
        "headers": {"authorization": format!("Bearer {MARK}-{place}-member")},
        format!("https://u:{MARK}-{place}-name@10.0.0.1"): 1,
        "bearerToken": format!("{MARK}-{place}-token"),
    })
}

/// Answers every question, in the place of an agent.
fn serve(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = Vec::new();
            let mut bytes = [0; 4096];
            while !request.windows(4).any(|it| it == b"\r\n\r\n") {
                match stream.read(&mut bytes) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => request.extend_from_slice(&bytes[..read]),
                }
            }
            let body = match String::from_utf8_lossy(&request).contains("/metrics") {
                true => text("metrics"),
                false => value("api").to_string(),
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n",
                body.len()
            );
            let _ =
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
}

#[test]
fn no_secret_is_in_the_archive_and_all_else_is() {
    use clap::Parser;

    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    serve(&dir.path().join("agent.sock"));
    let recording = Recording::begin(dir.path(), 1 << 20, SystemClock.now());
    let said = text("recording");
    let said: Vec<_> = said.lines().filter(|line| !line.contains("Secret")).collect();
    let said = said.join(" ");
    recording.recorder().record(Record::Crash {
        cell: CellId(7),
        kind: "Regenerate",
        cause: &said,
        at: SystemClock.now(),
    });
    fs::write(dir.path().join("agent.log"), text("log")).unwrap();
    let words = format!(
        "volvox --socket-path {} --state-dir {} --bpf-root {} -o json sysdump --file {} --log {}",
        at("agent.sock"),
        at(""),
        at("no-maps"),
        at("dump.tar.gz"),
        at("agent.log")
    );
    let arguments = Arguments::try_parse_from(words.split(' ')).unwrap();
    let mut out = Vec::new();
    execute(arguments, &mut out).unwrap();
    let told: Value = serde_json::from_slice(&out).unwrap();
    let file = fs::File::open(dir.path().join("dump.tar.gz")).unwrap();
    let mut names = Vec::new();
    let mut all = String::new();
    let mut archive = Archive::new(GzDecoder::new(file));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        let found: Vec<_> = text.match_indices(MARK).map(|(at, _)| &text[at..]).collect();
        let begin = |it: &&str| it.chars().take(40).collect::<String>();
        assert!(found.is_empty(), "{name}: {:?}", found.iter().map(begin).collect::<Vec<_>>());
        names.push(name.split_once('/').unwrap().1.to_owned());
        all += &text;
    }
    for name in [
        "api/status.json",
        "api/metrics.txt",
        "recordings/current.json",
        "logs/0-agent.log",
        "missing.txt",
    ] {
        assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
    }
    // What is no secret is there, and where the secrets were is told.
    for place in ["api", "metrics", "recording", "log"] {
        assert!(
            all.contains(&format!("begin-{place} etcd at https://(left out)@10.0.0.1")),
            "{place}"
        );
    }
    assert!(all.contains("name-api") && all.contains("end-log"));
    assert!(
        told["missing"].as_array().unwrap().iter().any(|it| it.to_string().contains("maps/lxc"))
    );
    assert_eq!(
        fs::metadata(at("dump.tar.gz"))
            .map(|it| std::os::unix::fs::MetadataExt::mode(&it) & 0o777)
            .unwrap(),
        0o600
    );
}

#[test]
fn a_file_that_is_there_stays() {
    use clap::Parser;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("there.tar.gz");
    fs::write(&path, "mine").unwrap();
    let words = format!("volvox sysdump --file {}", path.display());
    let arguments = Arguments::try_parse_from(words.split(' ')).unwrap();
    let error = execute(arguments, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("there.tar.gz") && error.contains("--file"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
