//! The program `volvox-cni` as a container runtime starts it.
#![allow(clippy::unwrap_used, reason = "a test may panic; clippy spares only test functions")]

use std::{
    io::{Read, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{self, Sender},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use volvox_system::{netlink::Socket, netns::Netns};

fn start(env: &[(&str, &str)], stdin: &[u8]) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_volvox-cni"))
        .env_clear()
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A plugin that needs no configuration may have ended before it is written.
    drop(child.stdin.take().unwrap().write_all(stdin));
    child
}

fn answer(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

/// Answers one request on a connection; a `PUT` is told and never answered.
fn serve(mut stream: UnixStream, reported: &Sender<String>) {
    let mut request = [0; 4096];
    let length = stream.read(&mut request).unwrap_or(0);
    let line = String::from_utf8_lossy(&request[..length]);
    let line = line.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
    let router = json!({"ipv4": {"enabled": true, "ip": "10.7.0.1"}});
    let body = match line.split(['?', ' ']).take(2).collect::<Vec<_>>()[..] {
        ["GET", "/v1/config"] => json!({"status": {"deviceMTU": 1450, "addressing": router}}),
        ["POST", "/v1/ipam"] => json!({"address": {"ipv4": "10.7.0.2"}, "host-addressing": router}),
        _ => json!({}),
    };
    let never = line.starts_with("PUT");
    let absent = line.starts_with("DELETE /v1/endpoint");
    reported.send(line).unwrap();
    if never {
        drop(stream.read(&mut request));
        return;
    }
    let status = if absent { "404 Not Found" } else { "200 OK" };
    let body = body.to_string();
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
}

fn agent(socket: &Path, reported: Sender<String>) {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let reported = reported.clone();
            thread::spawn(move || serve(stream.unwrap(), &reported));
        }
    });
}

#[test]
fn a_terminated_add_leaves_nothing_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("agent.sock");
    let (reported, asked) = mpsc::channel();
    agent(&socket, reported);
    let (node, container) = (Netns::create().unwrap(), Netns::create().unwrap());
    let netns = format!("/proc/{}/fd/{}", std::process::id(), container.as_fd().as_raw_fd());
    let env = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "abc"),
        ("CNI_NETNS", netns.as_str()),
        ("CNI_IFNAME", "eth0"),
    ];
    let config = json!({"cniVersion": "1.0.0", "name": "volvox", "socket-path": socket});
    let child = node.run(|| start(&env, config.to_string().as_bytes())).unwrap();
    let mut seen: Vec<String> = Vec::new();
    while !seen.last().is_some_and(|line| line.starts_with("PUT")) {
        let next = asked.recv_timeout(Duration::from_secs(60));
        seen.push(next.unwrap_or_else(|_| panic!("it asks for no endpoint: {seen:?}")));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    seen.extend(asked.try_iter());

    assert_eq!(output.status.code(), Some(1));
    let answer = answer(&output);
    assert_eq!((&answer["code"], &answer["cniVersion"]), (&json!(11), &json!("1.0.0")));
    assert_eq!(seen.last().unwrap(), "DELETE /v1/ipam/10.7.0.2", "{seen:?}");
    for namespace in [node, container] {
        let links = namespace.run(|| Socket::open().unwrap().links().unwrap()).unwrap();
        assert!(links.values().all(|link| link.name == "lo"), "{links:?}");
    }
}

#[test]
fn it_answers_on_standard_output_and_by_its_exit_code() {
    let version = start(&[("CNI_COMMAND", "VERSION")], br#"{"cniVersion":"1.1.0"}"#);
    let output = version.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(answer(&output)["supportedVersions"][4], "1.1.0");

    let rubbish = start(&[("CNI_COMMAND", "STATUS")], b"rubbish");
    let output = rubbish.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(answer(&output)["code"], 6);
}

#[test]
fn a_person_who_starts_it_is_told_what_it_is() {
    let output = start(&[], b"").wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("started by container runtimes"), "{words}");
    assert_eq!(answer(&output)["code"], 4);
}
