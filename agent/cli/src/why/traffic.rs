//! `volvox why FROM --to TO`: whether packets pass, by which policies each end is selected, which rule
//! decides, and where none allows them the nearest one with what of it fails.

use volvox_actors::policy::rules::{NearestRule, PacketExplained, PacketFate, SelectingPolicy};
use volvox_rest::{
    RestClient, RestError, escape,
    models::{Traffic, TrafficEnd, TrafficPath, TrafficService, TrafficSide, protocol_name},
};

use crate::{args::Question, error::ClientError, output::Output};

/// Asks the agent and shows what it says.
pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    from: &str,
    to: &str,
    question: &Question,
) -> Result<(), ClientError> {
    let mut path = format!("/volvox/traffic?from={}&to={}", escape(from), escape(to));
    if let Some(protocol) = question.protocol {
        path += &format!("&protocol={}", protocol.name());
    }
    let traffic: Traffic = client.get(&path).await.map_err(|error| match error {
        RestError::Unreachable { .. } => ClientError::Unreachable(format!(
            "{error}; the kernel's maps can be asked without it: `volvox why {from} --dropped --to \
             ADDRESS --port NUMBER`"
        )),
        error => error.into(),
    })?;
    out.answer(&traffic, show)
}

fn show(out: &mut Output<'_>, traffic: &Traffic) -> Result<(), ClientError> {
    let from = end(&traffic.from);
    let verdict = match traffic.verdict.as_str() {
        "mixed" => "depends on the backend",
        "no-backend" => "denied: the service has no backend",
        other => other,
    };
    out.line(format!("{} to {}: {verdict}.", traffic.from.name, traffic.to))?;
    out.line(format!("  from {from}"))?;
    if let Some(TrafficService { name, frontend, unused }) = &traffic.service {
        out.line(format!("  service {name} at {frontend}"))?;
        unused.iter().try_for_each(|it| out.line(format!("    not used: {it}")))?;
    }
    let several = traffic.paths.len() > 1;
    for path in &traffic.paths {
        out.line("")?;
        show_path(out, &traffic.from, path, several)?;
    }
    Ok(())
}

fn show_path(
    out: &mut Output<'_>,
    from: &TrafficEnd,
    path: &TrafficPath,
    several: bool,
) -> Result<(), ClientError> {
    let at = match path.protocol {
        1 | 58 => format!("{} type {}", protocol_name(path.protocol), path.port),
        protocol => format!("port {}/{}", path.port, protocol_name(protocol)),
    };
    let verdict = if several { format!(": {}", path.verdict) } else { String::new() };
    out.line(format!("to {}, {at}{verdict}", end(&path.to)))?;
    side(out, &format!("egress of {}", from.name), &path.egress)?;
    side(out, &format!("ingress of {}", path.to.name), &path.ingress)
}

/// Who is at an end: its name, and by what it is known.
fn end(end: &TrafficEnd) -> String {
    let mut known: Vec<String> = Vec::new();
    known.extend(end.endpoint.map(|id| format!("endpoint {id}")));
    known.extend(end.address.clone().filter(|address| *address != end.name));
    known.push(format!("identity {}", end.identity));
    known.extend(end.node.as_ref().map(|node| format!("on node {node}")));
    known.extend(end.prefix.as_ref().map(|prefix| format!("by {prefix}")));
    let what = match end.kind.as_str() {
        "outside" => "outside of the cluster, ",
        "remote-pod" => "a pod of another node, ",
        "remote-node" => "another node, ",
        _ => "",
    };
    format!("{} ({what}{})", end.name, known.join(", "))
}

fn side(out: &mut Output<'_>, whose: &str, side: &TrafficSide) -> Result<(), ClientError> {
    let explained = match side {
        TrafficSide::NotHere(why) => return out.line(format!("  {whose}: not judged here: {why}")),
        TrafficSide::Judged(explained) => explained,
    };
    out.line(format!("  {whose}: {}", fate(explained)))?;
    if explained.fate != PacketFate::NotProgrammed {
        out.line(format!("    selected by: {}", selected(&explained.selected_by)))?;
    }
    explained.rules.iter().try_for_each(|rule| out.line(format!("    rule: {rule}")))?;
    if let Some(rule) = &explained.passed_on_by {
        out.line(format!("    passed on by: {rule}"))?;
    }
    if let Some(NearestRule { rule, fails }) = &explained.nearest {
        out.line(format!("    nearest: {rule}"))?;
        fails.iter().try_for_each(|it| {
            out.line(format!("      fails at the {}: {}", it.part, it.problem))
        })?;
    }
    explained.remarks.iter().try_for_each(|remark| out.line(format!("    note: {remark}")))
}

fn fate(explained: &PacketExplained) -> String {
    match (explained.fate, explained.rules.is_empty(), explained.enforced) {
        (PacketFate::Allowed, false, _) => "allowed".to_owned(),
        (PacketFate::Allowed, true, false) => {
            "allowed: no policy is enforced in this direction".to_owned()
        }
        (PacketFate::Allowed, true, true) => "allowed by the agent itself".to_owned(),
        (PacketFate::Denied, ..) => "denied".to_owned(),
        (PacketFate::NoRule, ..) => match explained.nearest {
            Some(_) => "denied: policy is enforced, and no rule allows it".to_owned(),
            None => "denied: policy is enforced, and no policy has a rule that allows anything in \
                     this direction"
                .to_owned(),
        },
        (PacketFate::NotProgrammed, ..) => {
            "denied: the endpoint has no policy in the kernel yet; see `volvox why` of it"
                .to_owned()
        }
    }
}

fn selected(all: &[SelectingPolicy]) -> String {
    let text = |it: &SelectingPolicy| {
        let what = match (it.enforces, it.speaks) {
            (true, true) => " (enforces)",
            (true, false) => " (enforces, without a rule)",
            (false, true) => "",
            (false, false) => " (says nothing of this direction)",
        };
        format!("{}{what}", it.policy)
    };
    match all.is_empty() {
        true => "no policy".to_owned(),
        false => all.iter().map(text).collect::<Vec<_>>().join(", "),
    }
}
