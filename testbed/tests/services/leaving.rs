//! A backend that leaves its service while it still answers: its connections go on, and nobody new comes.

use std::{
    io::{Read, Write},
    net::{IpAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use volvox_testbed::lab::{
    self, Node,
    objects::{list, service, slice},
};

use super::{PORT, WEB, listener, pods, reached};

/// A byte each way.
fn echo([near, far]: [&mut TcpStream; 2]) -> Result<()> {
    for stream in [&mut *near, &mut *far] {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(Duration::from_secs(8)))?;
    }
    let mut byte = [7];
    near.write_all(&byte)?;
    far.read_exact(&mut byte).context("the backend hears nothing")?;
    far.write_all(&byte)?;
    near.read_exact(&mut byte).context("the client hears nothing")
}

/// Has the service list just these.
fn list_backends(node: &mut Node, places: &[IpAddr]) -> Result<()> {
    let web = slice("web", "web", "TCP", PORT, places);
    node.write_manifest("services.yaml", &list(&[service("web", WEB, "TCP"), web]))?;
    leads(node, places)
}

/// Waits until it leads to just these.
fn leads(node: &mut Node, places: &[IpAddr]) -> Result<()> {
    let mut desired: Vec<_> = places.iter().map(ToString::to_string).collect();
    desired.sort();
    let is_so = |node: &mut Node| {
        let all = node.served()?;
        let none = Vec::new();
        let backends = all.first().map(|it| it["backend-addresses"].as_array().unwrap_or(&none));
        let there = backends.map(|all| {
            let mut all: Vec<_> = all.iter().filter_map(|it| it["ip"].as_str()).collect();
            all.sort_unstable();
            all == desired
        });
        Ok(there.unwrap_or(false))
    };
    node.wait("the service leads elsewhere", is_so).map(drop)
}

#[test]
fn established_tcp_stays_with_a_backend_that_left_the_service() {
    lab::test("leaving::established_tcp_stays_with_a_backend_that_left_the_service", || {
        // Each sweep proves who has no connections any more.
        let setup = pods().flag("conntrack-gc-interval", "1s");
        let (mut node, [first, second, client]) = setup.start()?;
        let servers = [listener(&first)?, listener(&second)?];
        let places = [first.address(false)?, second.address(false)?];
        list_backends(&mut node, &places[..1])?;
        let (nth, mut near, mut far) = reached(&client, &servers)?;
        ensure!(nth == 0, "there is only one");
        echo([&mut near, &mut far])?;
        list_backends(&mut node, &places[1..])?;
        let mut goes_on = |when: &str| -> Result<()> {
            for _ in 0..4 {
                echo([&mut near, &mut far]).with_context(|| format!("the connection, {when}"))?;
            }
            Ok(())
        };
        let only_second = |when: &str| -> Result<()> {
            for _ in 0..16 {
                let (nth, ..) = reached(&client, &servers)?;
                ensure!(nth == 1, "a new connection came to who left, {when}");
            }
            Ok(())
        };
        goes_on("after its backend left")?;
        only_second("at once")?;
        let left = |node: &Node| -> Result<bool> {
            Ok(node.volvox("backend list")?.contains("left shop/web"))
        };
        // Some sweeps find the connection.
        std::thread::sleep(Duration::from_secs(15));
        goes_on("after some sweeps")?;
        ensure!(left(&node)?, "the backend that left is not shown");
        node.kill_agent()?;
        goes_on("without an agent")?;
        node.start_agent()?;
        leads(&mut node, &places[1..])?;
        goes_on("after a restart")?;
        only_second("after a restart")?;
        list_backends(&mut node, &[])?;
        goes_on("when nobody is listed")?;
        let connect = || Ok(TcpStream::connect_timeout(&WEB, Duration::from_secs(4)).is_ok());
        ensure!(!client.netns.run(connect)?, "nobody is listed, and somebody was reached");
        list_backends(&mut node, &places[1..])?;
        goes_on("at the end")?;
        drop((near, far));
        let is_gone = |node: &mut Node| Ok(!left(node)?);
        node.wait("a backend without connections stays", is_gone).map(drop)
    });
}

/// Who ends on this node answers nobody: its connections do not wait for a sweep.
#[test]
fn a_pod_that_ends_keeps_no_connections_by_its_service() {
    lab::test("leaving::a_pod_that_ends_keeps_no_connections_by_its_service", || {
        let (mut node, [first, second, client]) = pods().start()?;
        let servers = [listener(&first)?, listener(&second)?];
        let places = [first.address(false)?, second.address(false)?];
        list_backends(&mut node, &places[..1])?;
        let (_, mut near, mut far) = reached(&client, &servers)?;
        echo([&mut near, &mut far])?;
        list_backends(&mut node, &places[1..])?;
        echo([&mut near, &mut far])?;
        first.delete(&node)?;
        let is_gone = |node: &mut Node| Ok(!node.volvox("backend list")?.contains("left shop/web"));
        node.wait("the backend of a pod that ended stays", is_gone)?;
        // Somebody answers, who does not know the connection: its client need not wait.
        near.set_read_timeout(Some(Duration::from_secs(8)))?;
        let heard = near.write_all(&[7]).and_then(|()| near.read_exact(&mut [0]));
        let kind = heard.err().map(|error| error.kind());
        ensure!(kind == Some(std::io::ErrorKind::ConnectionReset), "the client hears {kind:?}");
        Ok(())
    });
}
