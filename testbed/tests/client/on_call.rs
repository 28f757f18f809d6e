//! What the page for who is on call tells: each of its stories happens, and each command of a story is answered as
//! the page shows it. Numbers may differ; a line `…` stands for any lines.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use volvox_testbed::{
    lab::{self, Node, PATIENCE, Pod, cni::Running, ip},
    transcript::{Step, steps},
};

use crate::{SERVICE, setup};

const PAGE: &str = include_str!("../../../agent/docs/on-call.md");
/// Nobody listens there.
const NO_SERVER: &str = "http://127.0.0.1:9";

/// A text in which numbers do not matter.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    for letter in text.chars() {
        let letter = if letter.is_ascii_digit() { '0' } else { letter };
        if !(letter == '0' && shape.ends_with('0')) {
            shape.push(letter);
        }
    }
    shape.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asks what the page asks under a heading, until the answers have every line that it shows.
fn told(node: &Node, heading: &str) -> Result<()> {
    let begin = format!("\n## {heading}\n");
    let (_, story) = PAGE.split_once(&begin).with_context(|| format!("no story {heading:?}"))?;
    let story = story.split("\n## ").next().unwrap_or_default();
    let steps = steps(story);
    ensure!(!steps.is_empty(), "{heading:?} asks nothing");
    for Step { command, lines } in steps {
        let command = command.strip_prefix("volvox ");
        let command = command.context("a block does not begin with a command of volvox")?;
        let shown: Vec<String> = lines.into_iter().map(shape).collect();
        let shown: Vec<_> = shown.into_iter().filter(|it| !it.is_empty() && it != "…").collect();
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = node.volvox(command)?;
            let said: Vec<String> = answer.lines().map(shape).collect();
            let Some(missing) = shown.iter().find(|line| !said.contains(line)) else { break };
            let late = Instant::now() > until;
            ensure!(!late, "volvox {command} does not say {missing:?}, but\n{answer}");
            thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

#[test]
fn a_policy_denies() {
    lab::test("on_call::a_policy_denies", || {
        let (node, pods) = setup::start()?;
        setup::offend(&pods)?;
        told(&node, "A pod cannot reach another one")
    });
}

#[test]
fn the_api_server_is_away_and_a_new_pod_hangs() {
    lab::test("on_call::the_api_server_is_away_and_a_new_pod_hangs", || {
        ip("link set lo up")?;
        let (mut node, _pods) = setup::start()?;
        node.stop_agent()?;
        node.set_flag("k8s-api-server", Some(NO_SERVER));
        node.start_agent()?;
        node.wait_for_ready(2)?;
        // What its labels are, only the API server knows.
        let new = Pod::planned_in_cluster("shop/new", "0d9c1d6e")?;
        let add = Running::begin(&node, "ADD", &new)?;
        told(&node, "A new pod does not start")?;
        add.kill()
    });
}

#[test]
fn an_interface_vanished() {
    lab::test("on_call::an_interface_vanished", || {
        let (node, [web, _bad]) = setup::start()?;
        let [_, host] = web.links()?;
        ip(&format!("link del {}", host.name))?;
        told(&node, "A pod lost its interface")
    });
}

#[test]
fn a_service_has_no_backend() {
    lab::test("on_call::a_service_has_no_backend", || {
        let (mut node, _pods) = setup::start()?;
        let gone = SERVICE.replace("conditions: {ready: true}", "conditions: {ready: false}");
        node.write_manifest("service.yaml", &gone)?;
        node.wait("the service is not served", |node| Ok(!node.served()?.is_empty()))?;
        told(&node, "A service does not answer")
    });
}

#[test]
fn an_agent_crashes_again_and_again() {
    lab::test("on_call::an_agent_crashes_again_and_again", || {
        let (mut node, _pods) = setup::start()?;
        node.kill_agent()?;
        for life in 1..=3 {
            node.start_agent()?;
            // It is noted a little after it is true.
            node.wait("no life is noted that has restored all", |node| {
                let lives = node.volvox("restore lives")?;
                Ok(lives.matches("finished: 2 endpoints").count() == life)
            })?;
            node.kill_agent()?;
        }
        told(&node, "The agent crashes again and again")
    });
}
