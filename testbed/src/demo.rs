//! What a restart costs, shown to somebody who has never seen it.

use std::{process::Command, thread, time::Duration};

use anyhow::{Result, bail};
use comfy_table::{Cell, CellAlignment, Table, presets};
use volvox_sim::random::Random;

use crate::{
    fleet::Fleet,
    judge::{Judge, Judgement},
    lab::Through,
    progress::Progress,
    traffic::{Kind, Report},
};

/// Pods on the node.
const PODS: usize = 50;

/// How often the agent is killed.
const KILLS: usize = 10;

/// A pod that pod 0's policy does not let it reach.
const FORBIDDEN: usize = 5;

/// Makes pods, kills the agent again and again under traffic, and prints what was noticed.
pub fn run(seed: u64) -> Result<()> {
    let progress = Progress::new(false);
    volvox_system::say!(
        "A node with {PODS} pods. Its agent will be killed {KILLS} times by SIGKILL."
    );
    volvox_system::say!("Nobody who talks over it should notice.\n");
    let mut fleet = Fleet::launch(PODS, Through::Cni, &progress)?;
    let mut judge = Judge::begin(&fleet.node)?;
    judge.watch(&fleet.pods.iter().collect::<Vec<_>>())?;
    fleet.all_streams()?.into_iter().for_each(|stream| judge.flows(stream));
    judge.denied(fleet.stream(Kind::Udp, 0, FORBIDDEN, false, 100)?);
    let lives = kill_again_and_again(&mut fleet, &progress, &mut Random::new(seed))?;
    let judgement = judge.end(&fleet.node)?;
    print_lives(&lives);
    let moments = last_moments(&fleet)?;
    print_streams(&judgement.reports);
    let Judgement { let_through, moved, endpoints, dips, .. } = judgement;
    let differs = judgement.differences.len();
    volvox_system::say!(
        "\nendpoints whose number, identity or address moved   {moved} of {endpoints}"
    );
    volvox_system::say!("packets that got through where policy forbids it     {let_through}");
    volvox_system::say!("times that a pod was seen without a program          {dips}");
    volvox_system::say!("things that `volvox verify` names in the end         {differs}");
    for difference in &judgement.differences {
        volvox_system::say!("  {difference}");
    }
    if !judgement.is_clean() {
        bail!("somebody noticed: see the numbers above that should be 0");
    }
    volvox_system::say!(
        "\nNobody noticed. What the agent did before its last death, `volvox trace --life previous`:"
    );
    volvox_system::say!("\n{moments}");
    Ok(())
}

/// The end of the record that the run before left, as the client shows it.
fn last_moments(fleet: &Fleet) -> Result<String> {
    let shown = Command::new(&fleet.node.binaries().client)
        .args(["trace", "--life", "previous", "--last", "8", "--state-dir"])
        .arg(fleet.node.path("cilium"))
        .output()?;
    if !shown.status.success() {
        bail!("volvox trace: {}", String::from_utf8_lossy(&shown.stderr));
    }
    Ok(String::from_utf8(shown.stdout)?)
}

/// One life of the agent between two kills.
struct Life {
    /// From its start until its API answered.
    api: Duration,
    /// From its start until all endpoints were ready.
    ready: Duration,
    /// How long after that it was killed.
    lived: Duration,
}

fn kill_again_and_again(
    fleet: &mut Fleet,
    progress: &Progress,
    random: &mut Random,
) -> Result<Vec<Life>> {
    let bar = progress.bar("killing and restarting", KILLS);
    let mut lives = Vec::new();
    for _ in 0..KILLS {
        let lived = random.below(Duration::from_millis(500));
        thread::sleep(lived);
        fleet.node.kill_agent()?;
        fleet.node.exec_agent()?;
        let api = fleet.node.wait_for_api()?;
        let ready = fleet.node.wait_for_ready(PODS)?;
        lives.push(Life { api, ready, lived });
        bar.inc(1);
    }
    bar.finish();
    Ok(lives)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table
}

fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn milliseconds(time: Duration) -> Cell {
    right(format!("{:.1} ms", time.as_secs_f64() * 1e3))
}

fn print_lives(lives: &[Life]) {
    let mut table = table(&["kill", "after", "API answers again", "all pods ready again"]);
    for (number, life) in lives.iter().enumerate() {
        let times = [life.lived, life.api, life.ready].map(milliseconds);
        table.add_row([vec![right(number + 1)], times.into()].concat());
    }
    volvox_system::say!("\n{table}\n");
}

fn print_streams(reports: &[Report]) {
    let mut table = table(&["stream", "to", "sent", "lost", "failed", "longest silence"]);
    for report in reports {
        table.add_row(vec![
            Cell::new(report.kind),
            Cell::new(report.target),
            right(report.sent),
            right(report.lost),
            right(report.failures),
            milliseconds(report.longest_gap),
        ]);
    }
    volvox_system::say!("{table}");
}
