//! Agents are replaced, one by one and then all at once, while pods ask each other without a pause.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    ConnectivityError, Options,
    api::Api,
    asking::Asking,
    exec,
    hint::hint,
    judge::{Check, Want},
    objects::{NODE, PORT},
    probe::{PATIENCE, Protocol, SLOW, Target, Watched},
    report::{Failure, TestReport},
    scenarios::{Stage, policies::by_label},
    setup,
    world::World,
};

/// How often each target is asked in a second.
const RATE: u32 = 20;
/// How long is watched before and after.
const QUIET: Duration = Duration::from_secs(3);
/// How often the server is asked.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a watcher may take to end.
const END: Duration = Duration::from_secs(30);

/// What is watched: connections, datagrams and one connection that stays, between all pods that are
/// allowed to, and from one that is not.
pub(crate) fn watched(world: &World) -> Vec<Check> {
    let mut checks = Vec::new();
    for from in ["client-a", "client-b"] {
        for to in ["server-a", "server-b"] {
            for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Stream] {
                checks.extend(each(world, from, to, |at| Target::at(protocol, at, PORT)));
            }
        }
        for address in world.service("echo").addresses {
            if world.speaks(from, address) {
                let target = Target::at(Protocol::Tcp, address, PORT);
                checks.push(Check::answered(from, "service echo", target));
            }
        }
        checks.extend(each(world, from, "host-a", |at| Target::at(Protocol::Tcp, at, NODE)));
    }
    let mut denied = each(world, "denied-a", "server-a", |at| Target::at(Protocol::Tcp, at, PORT));
    denied.extend(each(world, "denied-a", "server-b", |at| Target::at(Protocol::Tcp, at, PORT)));
    denied.iter_mut().for_each(|it| it.want = Want::Denied);
    checks.extend(denied);
    for check in &mut checks {
        check.target.wait = if check.want == Want::Denied { PATIENCE } else { SLOW };
    }
    checks
}

fn each(
    world: &World,
    from: &str,
    to: &str,
    target: impl Fn(std::net::IpAddr) -> Target,
) -> Vec<Check> {
    let addresses = world.addresses(to).into_iter().filter(|it| world.speaks(from, *it));
    addresses.map(|it| Check::answered(from, to, target(it))).collect()
}

/// What happened meanwhile, each with the milliseconds at which it began.
type Phases = Vec<(u64, String)>;

/// Does it.
pub(crate) async fn restart(
    asking: &mut Asking<'_>,
    options: &Options,
    mut report: TestReport,
) -> Result<TestReport, ConnectivityError> {
    let world = asking.world;
    if !options.restart_agents {
        return Ok(report.not_tried("it replaces agents: allow it by --restart-agents"));
    }
    if world.agents.is_empty() {
        return Ok(report.not_tried("no agent of Volvox runs on these nodes"));
    }
    let checks = watched(world);
    let (denied, answered) =
        checks.iter().cloned().partition::<Vec<_>, _>(|it| it.want == Want::Denied);
    let once = |it: Check| {
        if it.want == Want::Denied { Check::denied(&it.from, &it.to, it.target) } else { it }
    };
    let stage = Stage {
        about: "before agents are replaced",
        policies: vec![by_label()],
        settles: true,
        checks: answered.into_iter().chain(denied).map(once).collect(),
        ready_for: 0,
    };
    asking.stage(&stage, &mut report).await?;
    if !report.failures.is_empty() {
        return Ok(report);
    }
    let (stop, stopped) = watch::channel(false);
    let watchers = watchers(asking.api, world, &checks, &stopped);
    let began = Instant::now();
    let replaced = replace(asking.api, world, options, began).await;
    stop.send_replace(true);
    let mut tallied = Vec::new();
    for (numbers, watcher) in watchers {
        let outcome = match tokio::time::timeout(END, watcher).await {
            Ok(Ok(outcome)) => outcome.map_err(|error| error.to_string()),
            _ => Err("the watch did not end".to_owned()),
        };
        tallied.push((numbers, outcome));
    }
    let (phases, trouble) = replaced?;
    for (numbers, outcome) in tallied {
        tally(world, &checks, &numbers, outcome, &phases, &mut report);
    }
    if let Some(reason) = trouble {
        report.failed += 1;
        report.failures.push(Failure {
            stage: String::new(),
            from: "volvox".to_owned(),
            to: "the agents".to_owned(),
            target: String::new(),
            reason,
            hint: "kubectl get pods -A -o wide -l k8s-app=volvox".to_owned(),
        });
    }
    asking.put(&[]).await?;
    Ok(report)
}

type Watcher = (Vec<usize>, JoinHandle<Result<Watched, ConnectivityError>>);

/// Starts a watch in each pod that asks.
fn watchers(
    api: &Api,
    world: &World,
    checks: &[Check],
    stopped: &watch::Receiver<bool>,
) -> Vec<Watcher> {
    let mut pods: Vec<&str> = checks.iter().map(|it| it.from.as_str()).collect();
    pods.dedup();
    let mut all = Vec::new();
    for pod in pods {
        let of_pod = |it: &(usize, &Check)| it.1.from == pod;
        let numbers: Vec<usize> =
            checks.iter().enumerate().filter(of_pod).map(|(at, _)| at).collect();
        let mut words: Vec<String> =
            ["volvox", "probe", "watch", "--rate"].map(String::from).to_vec();
        words.push(RATE.to_string());
        words.extend(numbers.iter().map(|it| checks[*it].target.to_string()));
        let (api, path, stopped) = (api.clone(), world.pod(pod).path, stopped.clone());
        let watcher = tokio::spawn(async move {
            let mut running = exec::start(&api, &path, &words, true).await?;
            let (mut last, mut told) = (Watched::default(), false);
            // It says something each second.
            while let Some(line) = running.line().await? {
                last = serde_json::from_str(&line).unwrap_or(last);
                if *stopped.borrow() && !told {
                    running.write(b"\n").await?;
                    told = true;
                }
            }
            Ok(last)
        });
        all.push((numbers, watcher));
    }
    all
}

/// Replaces agents. What goes wrong with them is told beside the phases.
async fn replace(
    api: &Api,
    world: &World,
    options: &Options,
    began: Instant,
) -> Result<(Phases, Option<String>), ConnectivityError> {
    let mut phases = vec![(0, "before".to_owned())];
    let at = |began: Instant| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    sleep(QUIET).await;
    let agents = setup::agents(api, &world.nodes).await?;
    for agent in &agents {
        phases.push((at(began), format!("the agent of node {} was replaced", agent.0)));
        if let Some(trouble) = replaced(api, world, std::slice::from_ref(agent), options).await? {
            return Ok((phases, Some(trouble)));
        }
    }
    let agents = setup::agents(api, &world.nodes).await?;
    if agents.len() > 1 {
        phases.push((at(began), "all agents were replaced at once".to_owned()));
        if let Some(trouble) = replaced(api, world, &agents, options).await? {
            return Ok((phases, Some(trouble)));
        }
    }
    phases.push((at(began), "after".to_owned()));
    sleep(QUIET).await;
    Ok((phases, None))
}

/// Removes those agents' pods and waits until others are ready in their place.
async fn replaced(
    api: &Api,
    world: &World,
    agents: &[(String, String)],
    options: &Options,
) -> Result<Option<String>, ConnectivityError> {
    for (_, path) in agents {
        let (namespace, name) = path.split_once('/').unwrap_or(("kube-system", path));
        api.delete(&format!("/api/v1/namespaces/{namespace}/pods/{name}"), &json!({})).await?;
    }
    let until = Instant::now() + options.timeout;
    loop {
        let mut waits = Vec::new();
        let pods = api.list("/api/v1/pods?labelSelector=k8s-app%3Dvolvox").await?;
        for (node, old) in agents {
            let others =
                pods.iter().filter(|it| it["spec"]["nodeName"] == **node && is_other(it, old));
            match others.map(volvox_install::trouble).min() {
                None => waits.push(format!("node {node}: it has no new agent")),
                Some(None) => {}
                Some(Some(why)) => waits.push(format!("node {node}: {why}")),
            }
        }
        if waits.is_empty() {
            return Ok(None);
        }
        if Instant::now() >= until || world.nodes.is_empty() {
            return Ok(Some(format!("agents do not get ready again: {}", waits.join("; "))));
        }
        sleep(PAUSE).await;
    }
}

fn is_other(pod: &Value, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    pod["metadata"]["name"] != *name && pod["metadata"]["deletionTimestamp"].is_null()
}

/// Counts what a watch saw.
pub(crate) fn tally(
    world: &World,
    checks: &[Check],
    numbers: &[usize],
    outcome: Result<Watched, String>,
    phases: &[(u64, String)],
    report: &mut TestReport,
) {
    let watched = match outcome {
        Ok(watched) if watched.ended => watched,
        Ok(_) => {
            return fail(
                world,
                &checks[numbers[0]],
                "the watch ended before it was told to",
                report,
            );
        }
        Err(error) => return fail(world, &checks[numbers[0]], &error, report),
    };
    for (number, tally) in numbers.iter().zip(&watched.tallies) {
        let check = &checks[*number];
        report.probes += tally.sent;
        if tally.sent == 0 {
            fail(world, check, "nothing was sent", report);
            continue;
        }
        let (wrong, words) = match check.want {
            Want::Denied => {
                (tally.sent - tally.lost.min(tally.sent), "were answered and should be denied")
            }
            _ => (tally.sent - tally.answered.min(tally.sent), "were lost"),
        };
        if wrong == 0 {
            continue;
        }
        let first = tally.losses.first().filter(|_| check.want != Want::Denied).map(|(at, why)| {
            let phase = phases.iter().rfind(|(began, _)| began <= at);
            let phase = phase.map_or("", |(_, name)| name.as_str());
            format!(", the first when {:.1} s had passed ({phase}): {why}", *at as f64 / 1e3)
        });
        let words = format!("{wrong} of {} {words}{}", tally.sent, first.unwrap_or_default());
        fail(world, check, &words, report);
        report.failed += wrong - 1;
    }
    let longest = watched.tallies.iter().map(|it| it.longest_micros).max().unwrap_or_default();
    if longest > 0 {
        let (from, longest) = (&checks[numbers[0]].from, longest as f64 / 1e3);
        report.note(format!("from {from} the longest answer took {longest:.1} ms"));
    }
}

fn fail(world: &World, check: &Check, reason: &str, report: &mut TestReport) {
    report.failed += 1;
    report.failures.push(Failure {
        stage: String::new(),
        from: check.from.clone(),
        to: check.to.clone(),
        target: format!("{} {}", check.target.protocol.name(), check.target.place()),
        reason: reason.to_owned(),
        hint: hint(world, check),
    });
}
