//! The streams, between two namespaces joined by a cable, without an agent.

use std::{net::SocketAddr, thread, time::Duration};

use anyhow::Result;
use volvox_testbed::{
    lab::{self, Netns, ip},
    traffic::{Kind, Plan, Stream},
};

/// Two namespaces, `a` at .1 and `b` at .2.
fn cable() -> Result<(Netns, Netns)> {
    let (a, b) = (Netns::create("a")?, Netns::create("b")?);
    ip("link add eth0 netns a type veth peer eth0 netns b")?;
    for (name, host) in [("a", 1), ("b", 2)] {
        ip(&format!("-n {name} address add 10.9.0.{host}/24 dev eth0"))?;
        ip(&format!("-n {name} address add fd09::{host}/64 dev eth0 nodad"))?;
        ip(&format!("-n {name} link set eth0 up"))?;
    }
    Ok((a, b))
}

fn plan(kind: Kind, pods: &(Netns, Netns), target: SocketAddr) -> Plan {
    Plan { kind, from: pods.0.clone(), to: pods.1.clone(), target, rate: 500 }
}

#[test]
fn an_undisturbed_stream_is_clean() {
    lab::test("an_undisturbed_stream_is_clean", || {
        let pods = cable()?;
        for target in ["10.9.0.2:7000", "[fd09::2]:7000"] {
            for kind in Kind::ALL {
                let stream = Stream::start(plan(kind, &pods, target.parse()?))?;
                stream.wait_for_answers(50)?;
                let report = stream.stop()?;
                assert!(report.is_clean() && report.sent >= 50, "{report:?}");
            }
        }
        Ok(())
    });
}

#[test]
fn a_pulled_cable_is_seen_by_every_kind() {
    lab::test("a_pulled_cable_is_seen_by_every_kind", || {
        let pods = cable()?;
        for kind in Kind::ALL {
            let stream = Stream::start(plan(kind, &pods, "10.9.0.2:7000".parse()?))?;
            stream.wait_for_answers(50)?;
            ip("-n b link set eth0 down")?;
            thread::sleep(Duration::from_secs(1));
            ip("-n b link set eth0 up")?;
            stream.wait_for_answers(10)?;
            let report = stream.stop()?;
            assert!(!report.is_clean(), "{report:?}");
            assert!(report.longest_gap >= Duration::from_millis(200), "{report:?}");
        }
        Ok(())
    });
}
