//! What a connect() to a service costs more, by the kernel's own count of the time of the hook's program.

use std::{net::SocketAddrV4, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use aya::{
    programs::{ProgramInfo, loaded_programs},
    sys::{Stats, enable_stats},
};
use serde_json::Value;
use volvox_bpf_progs::SocketHook;

use super::{Figure, Unit};
use crate::{
    fleet::Fleet,
    lab::{Cgroup, Neighbour, Node},
};

/// How often it is measured,
const TURNS: usize = 40;
/// and how many sockets are connected each time, every one a new one.
const CONNECTS: u64 = 500;
/// How much of a program's name the kernel keeps.
const NAME_BYTES: usize = 15;

/// `connect.hook`: of sockets of a node whose agent balances them, to a UDP service, of which nobody
/// need hear. `serve` makes the service, which a new agent takes for one of the run before.
pub(super) fn hook(
    fleet: &mut Fleet,
    service: SocketAddrV4,
    serve: impl Fn(&Node) -> Result<()>,
) -> Result<Figure> {
    let node = &mut fleet.node;
    // The node has an address by it, without which nothing is connected.
    let _neighbour = Neighbour::connect()?;
    let cgroup = Cgroup::create(&node.path("cgroups"))?;
    node.kill_agent()?;
    node.set_flag("bpf-lb-sock", Some("true"));
    node.set_flag("cgroup-root", Some(&cgroup.path().display().to_string()));
    node.start_agent()?;
    node.wait_for_ready(fleet.pods.len())?;
    node.wait("services of the life before are there", |node| {
        Ok(node.rest().get::<Vec<Value>>("/service")?.is_empty())
    })?;
    serve(node)?;
    let _counted = enable_stats(Stats::RunTime)?;
    let mut figure = Figure::new("connect.hook", Unit::Nanoseconds).below(300.0);
    let id = program(SocketHook::Connect4)?.id();
    for _ in 0..TURNS {
        let (time, runs) = spent(id)?;
        connect(&cgroup, service)?;
        let (after, all) = spent(id)?;
        ensure!(all - runs == CONNECTS, "{} connects were counted, not {CONNECTS}", all - runs);
        figure.push((after - time).as_nanos() as f64 / CONNECTS as f64);
    }
    Ok(figure)
}

/// That of the hook that was loaded last.
fn program(hook: SocketHook) -> Result<ProgramInfo> {
    let name = hook.program();
    let name = &name[..name.len().min(NAME_BYTES)];
    let all = loaded_programs().filter_map(Result::ok);
    let newest = all.filter(|it| it.name_as_str() == Some(name)).max_by_key(ProgramInfo::id);
    newest.with_context(|| format!("the agent loaded no {name}"))
}

/// How long a program ran so far, and how often.
fn spent(id: u32) -> Result<(Duration, u64)> {
    let mut all = loaded_programs().filter_map(Result::ok);
    let info = all.find(|it| it.id() == id).context("the program is gone")?;
    Ok((info.run_time(), info.run_count()))
}

/// A process in the cgroup that connects so many sockets, one after the other.
fn connect(cgroup: &Cgroup, to: SocketAddrV4) -> Result<()> {
    let script = format!(
        "echo $$ > {}/cgroup.procs && for ((i = 0; i < {CONNECTS}; i++)); do \
         exec 3<>/dev/udp/{}/{} && exec 3>&-; done",
        cgroup.path().display(),
        to.ip(),
        to.port(),
    );
    let status = Command::new("bash").args(["-c", &script]).status()?;
    ensure!(status.success(), "connecting sockets: {status}");
    Ok(())
}
