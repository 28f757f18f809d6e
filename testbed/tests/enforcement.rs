//! When endpoints are held to policy, changed while traffic flows: `PATCH /config`.

use std::{thread, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::{
    fleet::Fleet,
    lab::{self, Node, Through},
    progress::Progress,
    traffic::{Kind, Stream, stop_clean},
};

const PODS: usize = 20;
const TURNS: usize = 5;
/// So long nothing may get through that is forbidden.
const SILENCE: Duration = Duration::from_millis(200);

fn enforce(node: &Node, mode: &str) -> Result<()> {
    let body = json!({ "policy-enforcement": mode });
    let answer: Value = node.rest().request("PATCH", "/config", Some(&body))?.json()?;
    ensure!(answer["policy-enforcement"] == mode, "{answer}");
    Ok(())
}

/// Fails if anything more gets through.
fn is_silent(stream: &Stream) -> Result<()> {
    let before = stream.answers();
    thread::sleep(SILENCE);
    let after = stream.answers();
    ensure!(before == after, "{} packets got through that policy forbids", after - before);
    Ok(())
}

#[test]
fn enforcement_is_changed_under_traffic_and_nothing_allowed_is_lost() {
    lab::test("enforcement_is_changed_under_traffic_and_nothing_allowed_is_lost", || {
        let mut fleet = Fleet::launch(PODS, Through::Rest, &Progress::new(true))?;
        let allowed = fleet.all_streams()?;
        // Between the same two pods all the time, and only sometimes allowed.
        let forbidden = fleet.stream(Kind::Udp, 0, 5, false, 200)?;
        is_silent(&forbidden)?;
        for turn in 0..TURNS {
            let context = || format!("turn {turn}");
            enforce(&fleet.node, "never").with_context(context)?;
            forbidden.wait_for_answers(20).with_context(context)?;
            let back = if turn % 2 == 0 { "default" } else { "always" };
            enforce(&fleet.node, back).with_context(context)?;
            is_silent(&forbidden).with_context(context)?;
        }
        // Killed while nothing is enforced: what the flag says is in force again.
        enforce(&fleet.node, "never")?;
        forbidden.wait_for_answers(20)?;
        fleet.node.kill_agent()?;
        forbidden.wait_for_answers(20)?;
        fleet.node.start_agent()?;
        fleet.node.wait_for_ready(PODS)?;
        is_silent(&forbidden)?;
        let mode: Value = fleet.node.rest().get("/config")?;
        ensure!(mode["spec"]["policy-enforcement"] == "default", "{}", mode["spec"]);
        let refused = fleet.node.rest().request(
            "PATCH",
            "/config",
            Some(&json!({ "policy-enforcement": "often" })),
        )?;
        ensure!(refused.status == 400, "{refused:?}");
        forbidden.stop()?;
        stop_clean(allowed)
    });
}
