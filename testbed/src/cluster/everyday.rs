//! What happens in a cluster every day: pods are rolled, looked into, and reached.

use std::{
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::scene::{Scene, service};
use crate::{
    lab::wait_for,
    traffic::{Requests, request},
};

/// Where each node serves the pods.
const NODE_PORT: u16 = 30080;

/// Pods on all machines are reached in every way, looked into, and replaced while they serve.
pub(super) fn run(scene: &mut Scene) -> Result<()> {
    let pods = scene.serve("web", 4)?;
    scene.cluster.apply(&[service("web", NODE_PORT)])?;
    let machines = scene.cluster.machines.len();
    let on = |name: &str| pods.iter().filter(|pod| pod.machine == name).count();
    ensure!(
        scene.cluster.machines.iter().all(|it| on(&it.name) > 0),
        "a machine has none: {pods:?}"
    );
    let frontend = scene.frontend("web")?;

    for from in &pods {
        for to in &pods {
            scene.reaches(from, to)?;
        }
        wait_for("the service answers pods", || Ok(scene.fetch(from, frontend).is_ok()))?;
    }
    // From outside, from the machines themselves, and by their own ports there.
    for machine in &scene.cluster.machines {
        let at = SocketAddr::new(machine.address.into(), NODE_PORT);
        wait_for("a node serves its port", || {
            Ok(scene.cluster.outside.run(|| request(at)).is_ok())
        })?;
        for at in [at, SocketAddr::new(frontend.into(), 80)] {
            machine.run(&format!("timeout 5 bash -c exec<>/dev/tcp/{}/{}", at.ip(), at.port()))?;
        }
    }
    look_into(scene, &pods[0].name)?;

    // Replaced by others while somebody asks, from inside and from outside.
    let asker = scene.serve("asker", 1)?;
    let inside = scene.netns(&asker[0])?;
    let first = scene.cluster.machines[0].address;
    let streams = [
        Requests::start(&inside, SocketAddr::new(frontend.into(), 80), 100)?,
        Requests::start(&scene.cluster.outside, SocketAddr::new(first.into(), NODE_PORT), 100)?,
    ];
    for _ in 0..2 {
        scene.kubectl(&["rollout", "restart", "deployment", "web"])?;
        scene.rolled("web")?;
    }
    for requests in streams {
        let tally = requests.stop()?;
        tally.is_clean()?;
        ensure!(tally.answers.len() >= 2 * machines, "few have answered: {:?}", tally.answers);
    }
    Ok(())
}

/// exec, logs and port-forward.
fn look_into(scene: &Scene, pod: &str) -> Result<()> {
    let said = scene.kubectl(&["exec", pod, "--", "cat", "/tmp/www/index.html"])?;
    ensure!(said.trim() == pod, "exec says {said}");
    let said = scene.kubectl(&["logs", pod])?;
    ensure!(said.contains("serves"), "logs say {said}");
    let mut forward = Command::new("kubectl")
        .args(["-n", "scene", "port-forward", pod, "18080:80"])
        .env("KUBECONFIG", scene.cluster.kubeconfig())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    // Closed before the end, it would kill kubectl.
    let mut printed = BufReader::new(forward.stdout.take().context("no pipe")?);
    let heard = printed.read_line(&mut said);
    let answer = request(SocketAddr::from((Ipv4Addr::LOCALHOST, 18080)));
    forward.kill()?;
    forward.wait()?;
    heard?;
    let answer = answer.with_context(|| format!("port-forward says {said}"))?;
    ensure!(answer == pod, "port-forward answers {answer}");
    Ok(())
}
