//! A history in plain words.

use std::fmt::Write;

use super::{
    expected::expected,
    faults::Server,
    history::{
        Build, Death, Expected, Flow, History, Labels, Manifest, Phase, Reach, Span, Step, Target,
        Wait,
    },
};
use crate::judge::{Measure, significant_time};

/// All of it, step by step.
pub(super) fn history(history: &History) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        let _ = writeln!(text, "{words}");
    };
    line(format!("{}: {}", history.name, history.about));
    if let Some(reported) = &history.reported {
        line(format!("Reported in {reported}."));
    }
    line(String::new());
    line("At the beginning:".into());
    for server in &history.servers {
        line(match server {
            Server::Etcd => "  The agent shares identities in an etcd.".into(),
            Server::Api => "  The agent follows an API server, which has the objects.".into(),
            Server::Containerd => "  The agent follows a containerd.".into(),
        });
    }
    for (flag, value) in &history.flags {
        line(format!("  The agent runs with --{flag}={value}."));
    }
    for (name, labels) in &history.pods {
        line(format!("  Pod {name} has {}.", words_of(labels)));
    }
    for manifest in &history.manifests {
        line(format!("  {} is applied.", name_of(manifest)));
    }
    for flow in &history.traffic {
        line(format!("  All the time: {}.", self::flow(flow)));
    }
    line(String::new());
    line("Then:".into());
    let mut number = 0;
    for step in &history.steps {
        add(&mut line, step, "  ", &mut number);
    }
    line(String::new());
    line(
        "In the end faults end, an agent runs, all pods get ready, the traffic stops, and all pods are deleted."
            .into(),
    );
    line("It is well if there are".into());
    for (measure, limit) in expected(&history.expect).iter() {
        let guarantee = match measure.guarantee() {
            Some(number) => format!("guarantee {number}"),
            None => "every guarantee".into(),
        };
        line(format!("  {} ({guarantee})", at_most(measure, limit)));
    }
    text
}

fn at_most(measure: Measure, limit: f64) -> String {
    let about = measure.about();
    match (measure.is_time(), limit) {
        (true, _) => format!(
            "{about} within {}",
            significant_time(std::time::Duration::from_secs_f64(limit))
        ),
        (_, 0.0) => format!("no {about}"),
        _ => format!("at most {limit:.0} {about}"),
    }
}

fn add(line: &mut impl FnMut(String), step: &Step, indent: &str, number: &mut u32) {
    *number += 1;
    line(format!("{indent}{number}. {}.", capital(&self::step(step))));
    if let Step::Repeat { steps, .. } = step {
        let deeper = format!("{indent}   ");
        steps.iter().for_each(|step| add(line, step, &deeper, number));
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn words_of(labels: &Labels) -> String {
    match labels.len() {
        0 => "no labels".into(),
        1 => format!("the label {}", list_of(labels)),
        _ => format!("the labels {}", list_of(labels)),
    }
}

fn list_of(labels: &Labels) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

fn name_of(manifest: &Manifest) -> String {
    let kind = manifest.object["kind"].as_str().unwrap_or_default();
    format!("{kind} {}", manifest.name.name)
}

fn target(target: &Target) -> String {
    match target {
        Target::Pod(name) => name.to_string(),
        Target::Service(name) => format!("service {name}"),
    }
}

fn reach(reach: &Reach) -> String {
    let Reach { from, to, port, ipv6, is_denied } = reach;
    let family = if *ipv6 { " over IPv6" } else { "" };
    let expected = if *is_denied { "does not reach" } else { "reaches" };
    format!("{from} {expected} {} at TCP port {port}{family}", target(to))
}

/// Traffic in plain words.
pub(super) fn flow(flow: &Flow) -> String {
    let to = target(&flow.to);
    let port = match flow.kind {
        crate::traffic::Kind::Ping => String::new(),
        _ => format!(" at port {}", flow.port),
    };
    let family = if flow.ipv6 { " over IPv6" } else { "" };
    let expected = match flow.expected {
        Expected::Flows => "",
        Expected::Denied => ", which is to be denied",
        Expected::Any => ", which is not judged",
    };
    format!("{} from {} to {to}{port}{family}{expected}", flow.kind, flow.from)
}

fn span(span: Span) -> String {
    match span {
        Span::Exactly(time) => significant_time(time),
        Span::Within(time) => format!("a part of {} that the seed chooses", significant_time(time)),
    }
}

/// A step in plain words, without its end.
pub(super) fn step(step: &Step) -> String {
    match step {
        Step::Create { pod, labels } => format!("pod {pod} is created with {}", words_of(labels)),
        Step::DeletePod(pod) => format!("pod {pod} is deleted"),
        Step::DeleteManifest(name) => format!("{name} is deleted"),
        Step::Label { pod, labels } => format!("pod {pod} is given {}", words_of(labels)),
        Step::Apply(manifests) => {
            let names: Vec<_> = manifests.iter().map(name_of).collect();
            format!("{} is applied", names.join(" and "))
        }
        Step::Traffic(flows) => {
            let flows: Vec<_> = flows.iter().map(flow).collect();
            format!("from here on: {}", flows.join("; "))
        }
        Step::Wait(Wait::Ready) => "wait until all pods are ready".into(),
        Step::Wait(Wait::Applied) => "wait until all that was applied is in force".into(),
        Step::Wait(Wait::Dead) => "wait until the agent has died".into(),
        Step::Sleep(time) => format!("wait for {}", span(*time)),
        Step::Kill => "the agent is killed (SIGKILL)".into(),
        Step::KillAfter(time) => format!("the agent is killed after {}", span(*time)),
        Step::KillBefore { call, nth, restarts } => {
            let then = if *restarts { "; another one is started at once" } else { "" };
            format!(
                "the agent will be killed before {call} call {nth} from now, counted in each thread{then}"
            )
        }
        Step::KillAfterMessages(count) => format!(
            "the agent is killed behind {count} messages between actors, and steps of kernel and disk"
        ),
        Step::Cancel { pod, labels, after } => format!(
            "pod {pod} with {} is begun to be made, and who makes it gives up after {}",
            words_of(labels),
            span(*after)
        ),
        Step::Crash(actor) if actor == "any" => "an actor of the agent panics".into(),
        Step::Crash(actor) => format!("the actor {actor} of the agent panics"),
        Step::Stop => "the agent is stopped (SIGTERM)".into(),
        Step::Start(deaths) => format!("an agent is started{}", deaths_of(deaths)),
        Step::Restart(deaths) => format!(
            "the agent is killed and started again{}; wait until all pods are ready",
            deaths_of(deaths)
        ),
        Step::Flags(flags) => {
            let flags: Vec<_> =
                flags.iter().map(|(flag, value)| format!("--{flag}={value}")).collect();
            format!("agents are started with {} from now on", flags.join(" "))
        }
        Step::Upgrade(build, deaths) => {
            let which = match build {
                Build::Other => "an agent with other programs",
                Build::Usual => "the agent of the beginning",
            };
            format!("{which} takes over{}; wait until all pods are ready", deaths_of(deaths))
        }
        Step::Reach(reach) => self::reach(reach),
        Step::Fault(fault) => fault.words(),
        Step::Repeat { times, .. } => format!("{times} times"),
    }
}

fn deaths_of(deaths: &[Death]) -> String {
    let each = deaths.iter().map(|death| match death {
        Death::Before { call, nth } => {
            format!("dies before {call} call {nth}, counted in each thread")
        }
        Death::Every { call, step } => format!(
            "dies before {call} call 1, the next one before call {}, and so on every {step} calls until \
             a start makes fewer",
            1 + step
        ),
        Death::After(time) => format!("is killed {} after its start", span(*time)),
        Death::At(phase) => format!("is killed as soon as {}", phase_of(*phase)),
    });
    match each.collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        all => format!(", {}, and is started again", all.join("; the next one ")),
    }
}

fn phase_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Api => "its API answers",
        Phase::Ready => "all pods are ready",
        Phase::Restored => "it has restored what there was",
    }
}
