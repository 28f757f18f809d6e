//! The transcript in `agent/docs/install.md`: its commands do what it says, and nothing is left.

use std::{path::Path, process::Command, time::Instant};

use anyhow::{Context, ensure};
use volvox_testbed::lab::{self, Binaries, Kubernetes, ip};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const PAGE: &str = include_str!("../../../agent/docs/install.md");
/// Any text, or as a line any lines.
const ANYTHING: char = '…';

/// A command and the lines that it should print.
#[derive(Debug, PartialEq)]
struct Step<'a> {
    command: &'a str,
    lines: Vec<&'a str>,
}

/// The commands of all console blocks of a page.
fn steps(page: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    for line in blocks.flat_map(str::lines) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command, lines: Vec::new() }),
            (None, Some(step)) => step.lines.push(line),
            (None, None) => {}
        }
    }
    steps
}

/// Whether what was printed is what is expected.
fn is_as_expected(printed: &[&str], expected: &[&str]) -> bool {
    match (printed, expected) {
        ([], []) => true,
        (_, [line, rest @ ..]) if line.chars().eq([ANYTHING]) => {
            (0..=printed.len()).any(|skipped| is_as_expected(&printed[skipped..], rest))
        }
        ([line, more @ ..], [like, rest @ ..]) => is_like(line, like) && is_as_expected(more, rest),
        _ => false,
    }
}

fn is_like(line: &str, like: &str) -> bool {
    let mut parts = like.split(ANYTHING);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    rest.is_empty() || last.is_some_and(str::is_empty)
}

#[test]
fn lines_are_compared_as_the_page_means_it() {
    let is = |printed: &str, expected: &str| {
        let [printed, expected] = [printed, expected].map(|it| it.lines().collect::<Vec<_>>());
        is_as_expected(&printed, &expected)
    };
    assert!(is("a b c", "a …"));
    assert!(is("a b c", "a … c"));
    assert!(is("one\ntwo\nthree", "…\nthree"));
    assert!(is("three", "…\nthree"));
    assert!(!is("a b d", "a … c"));
    assert!(!is("a", "b"));
    assert!(!is("one\ntwo", "one"));
    assert!(!is("", "one"));
    assert!(!is("a b", "a"));
    let read = steps("x\n```console\n$ one\na\nb\n$ two\n```\n```sh\n$ no\n```\n");
    let step = |command, lines: &[&'static str]| Step { command, lines: lines.to_vec() };
    assert_eq!(read, [step("one", &["a", "b"]), step("two", &[])]);
}

#[test]
fn the_transcript_of_installing_is_true() {
    lab::test("transcript::the_transcript_of_installing_is_true", || {
        let Some(mut cluster) = Kubernetes::start(2)? else { return Ok(()) };
        let programs = Binaries::find()?.client;
        let programs = programs.parent().unwrap_or(Path::new("/")).display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let steps = steps(PAGE);
        ensure!(steps.len() > 10, "the page has no transcript: {steps:?}");
        for Step { command, lines } in steps {
            let begun = Instant::now();
            let ran = Command::new("bash")
                .args(["-c", &format!("{command} 2>&1")])
                .current_dir(ROOT)
                .env("PATH", format!("{programs}:{path}"))
                .env("KUBECONFIG", cluster.kubeconfig())
                .output()?;
            let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
            let printed: Vec<_> = printed.lines().collect();
            volvox_system::say!("{:.1?} {command}", begun.elapsed());
            ensure!(
                is_as_expected(&printed, &lines),
                "{command} printed\n{}\nbut the page has\n{}\n{}",
                printed.join("\n"),
                lines.join("\n"),
                cluster.logs(),
            );
        }
        for machine in &mut cluster.machines {
            let links = machine.netns()?.run(|| ip("-o link"))?;
            let others =
                links.lines().filter(|it| !it.contains(": lo:") && !it.contains(": eth0@"));
            ensure!(others.count() == 0, "{} has interfaces left: {links}", machine.name);
            for (place, kept) in [
                // The kernel's own.
                ("/sys/fs/bpf", &["maps.debug", "progs.debug"][..]),
                ("/etc/cni/net.d", &[]),
                ("/var/lib/cilium", &[]),
                ("/opt/cni/bin", &["loopback", "volvox-cni"]),
            ] {
                let all = machine.run(&format!("ls -A {place}")).unwrap_or_default();
                let all: Vec<_> = all.lines().filter(|it| !kept.contains(it)).collect();
                ensure!(all.is_empty(), "{} keeps {all:?} in {place}", machine.name);
            }
        }
        cluster.kubectl("get nodes").map(drop).context("the cluster is as before")
    });
}
