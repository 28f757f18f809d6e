//! What is around the agent fails: its log, the files that it records in. That costs a line or a record,
//! and what a life left behind can still be read many lives later.

use std::{fs, os::unix::fs::symlink};

use anyhow::{Context, Result, ensure};
use volvox_testbed::lab::{self, Metrics, Pod, Setup, Through, ip};

const LABELS: [(&str, &str); 1] = [("app", "web")];

/// Takes a pod's interface away, as if its container had gone.
fn lose(pod: &Pod) -> Result<()> {
    ip(&format!("link del {}", pod.links()?[1].name)).map(drop)
}

#[test]
fn a_log_that_cannot_be_written_costs_lines_and_nothing_else() {
    let name = "surroundings::a_log_that_cannot_be_written_costs_lines_and_nothing_else";
    lab::test(name, || {
        let setup = Setup::new().pod("shop/a", &LABELS).pod("shop/b", &LABELS);
        let (mut node, [_a, _b, lost]) = setup.pod("shop/lost", &LABELS).start()?;
        node.kill_agent()?;
        // Whoever comes back without an interface is worth a line.
        lose(&lost)?;
        fs::remove_file(node.log())?;
        symlink("/dev/full", node.log())?;
        node.start_agent()?;
        node.wait_for_ready(2)?;
        let _more = Pod::create(&node, "shop/more", &LABELS, Through::Rest)?;
        node.wait_for_ready(3)?;
        let metrics = Metrics::scrape(node.rest())?;
        let lost = metrics.family("volvox_log_lines_lost_total").next();
        ensure!(lost.context("no such metric")?.1 > 0.0, "no line was lost: nothing was tried");
        fs::remove_file(node.log()).context("remove the link")
    });
}

#[test]
fn a_flight_ring_that_is_cut_short_ends_nobody() {
    lab::test("surroundings::a_flight_ring_that_is_cut_short_ends_nobody", || {
        let (mut node, [first]) = Setup::new().pod("shop/a", &LABELS).start()?;
        let mut all = vec![first];
        let ring = node.path("cilium").join("flight.ring");
        let bytes = fs::metadata(&ring)?.len();
        for nth in 0..3 {
            fs::File::options().write(true).open(&ring)?.set_len(nth * 8192)?;
            let name = format!("shop/more-{nth}");
            all.push(Pod::create(&node, &name, &LABELS, Through::Rest)?);
            node.wait_for_ready(all.len())?;
        }
        ensure!(fs::metadata(&ring)?.len() == bytes, "the ring did not get its length back");
        let trace = node.volvox("trace")?;
        ensure!(trace.contains("goes on") && trace.contains("endpoint"), "{trace}");
        Ok(())
    });
}

#[test]
fn whom_a_life_lost_is_known_many_lives_later() {
    lab::test("surroundings::whom_a_life_lost_is_known_many_lives_later", || {
        let setup = Setup::new().pod("shop/a", &LABELS).pod("shop/lost", &LABELS);
        let (mut node, [_a, lost]) = setup.start()?;
        node.kill_agent()?;
        lose(&lost)?;
        node.start_agent()?;
        node.wait("the second life's report is not kept", |node| {
            Ok(node.volvox("restore report --life 2").is_ok_and(|text| text.contains("1 failed")))
        })?;
        let mut lives = 2;
        while lives < 12 {
            node.kill_agent()?;
            node.start_agent()?;
            node.wait_for_ready(1)?;
            lives += 1;
        }
        node.stop_agent()?;
        node.start_agent()?;
        for words in ["status", "restore lives", "why pod-name:shop/lost"] {
            let text = node.volvox(words)?;
            ensure!(text.contains("(shop/lost) was lost in life 2: "), "volvox {words}: {text}");
        }
        // Of each killed life something is kept, of the last ones all.
        let listed = node.volvox("restore lives")?;
        ensure!(listed.matches("was killed").count() >= 8, "{listed}");
        ensure!(listed.contains("ended as it should"), "{listed}");
        let trace = node.volvox("trace --life 9")?;
        ensure!(trace.starts_with("Life 9 ") && trace.contains("is over"), "{trace}");
        let unknown = node.volvox("trace --life 900").expect_err("there is no such life");
        ensure!(unknown.to_string().contains("restore lives"), "{unknown}");
        Ok(())
    });
}
