//! What is tried, each by its name. A plan is made of what there is; nothing is asked for it.

mod nodes;
mod pods;
pub(crate) mod policies;
mod services;
#[cfg(test)]
pub(crate) mod tests;

use std::net::IpAddr;

use serde_json::Value;

use crate::{
    ConnectivityError,
    judge::Check,
    probe::{Protocol, Target},
    world::World,
};

/// What may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Somebody outside of the cluster.
    World,
    /// Names.
    Dns,
    /// Replacing agents.
    Restart,
}

/// Something that is tried.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    /// What it is called by.
    pub(crate) name: &'static str,
    /// What must hold.
    pub(crate) about: &'static str,
    /// What it is a part of, if that may be left out.
    pub(crate) part: Option<Part>,
    /// What is done.
    pub(crate) plan: fn(&World) -> Plan,
}

/// What is done for a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing, for that reason.
    NotTried(String),
    /// One stage after the other.
    Stages(Vec<Stage>),
    /// Agents are replaced while everything is probed.
    Restart,
}

/// Probes that are asked at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stage {
    /// What is different from the stage before, in words.
    pub(crate) about: &'static str,
    /// All policies that are there meanwhile.
    pub(crate) policies: Vec<Value>,
    /// It may take a moment until everybody knows.
    pub(crate) settles: bool,
    /// The probes.
    pub(crate) checks: Vec<Check>,
    /// The kubelet has to find all pods ready for so many seconds.
    pub(crate) ready_for: u64,
}

impl Plan {
    /// One stage, of what everybody knows already.
    fn known(checks: Vec<Check>) -> Self {
        Self::of(checks, false)
    }

    /// One stage, of what everybody has to hear of first.
    fn heard(checks: Vec<Check>) -> Self {
        Self::of(checks, true)
    }

    fn of(checks: Vec<Check>, settles: bool) -> Self {
        if checks.is_empty() {
            return Self::NotTried("no pod has an address of that family".to_owned());
        }
        Self::Stages(vec![Stage { checks, settles, ..Stage::default() }])
    }
}

/// Whatever needs two nodes.
fn lonely() -> Plan {
    Plan::NotTried("there is one node, and it needs two".to_owned())
}

/// Whatever needs somebody outside.
fn nobody() -> Plan {
    Plan::NotTried("nobody outside is named: name one by --external-target HOST:PORT".to_owned())
}

/// How often a probe is repeated, so that a packet that is lost now and then is noticed.
pub(crate) const TIMES: u32 = 5;

/// All of them, in the order in which they are tried.
pub(crate) fn all() -> Vec<Scenario> {
    let restart = Scenario {
        name: "agent-restart",
        about: "connections, datagrams and policies hold while agents are replaced",
        part: Some(Part::Restart),
        plan: |_| Plan::Restart,
    };
    let lists = [&pods::ALL[..], &nodes::ALL, &services::ALL, &policies::ALL];
    lists.into_iter().flatten().copied().chain([restart]).collect()
}

/// Those whose names match a pattern: `*` is anything, and a pattern without it may be a part.
pub(crate) fn chosen(patterns: &[String]) -> Result<Vec<Scenario>, ConnectivityError> {
    let all = all();
    for pattern in patterns {
        if !all.iter().any(|it| matches(pattern, it.name)) {
            let names: Vec<_> = all.iter().map(|it| it.name).collect();
            return Err(ConnectivityError::Usage(format!(
                "no test matches {pattern:?}: there are {}",
                names.join(", ")
            )));
        }
    }
    let wanted =
        |it: &Scenario| patterns.is_empty() || patterns.iter().any(|one| matches(one, it.name));
    Ok(all.into_iter().filter(wanted).collect())
}

/// The names of all tests, each with what must hold.
pub fn names() -> Vec<(&'static str, &'static str)> {
    all().iter().map(|it| (it.name, it.about)).collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return name.contains(pattern) };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = rest.split('*').collect();
    let Some((last, between)) = parts.split_last() else { return true };
    for part in between {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(last)
}

/// A check for each address of a pod that the other one can ask.
fn each(world: &World, from: &str, to: &str, check: impl Fn(IpAddr) -> Check) -> Vec<Check> {
    world.addresses(to).into_iter().filter(|it| world.speaks(from, *it)).map(check).collect()
}

/// By TCP, UDP and HTTP.
fn usual(world: &World, from: &str, to: &str, ports: [u16; 3]) -> Vec<Check> {
    let kinds = [Protocol::Tcp, Protocol::Udp, Protocol::Http];
    let checks = kinds.into_iter().zip(ports).flat_map(|(protocol, port)| {
        each(world, from, to, |address| {
            let target = Target::at(protocol, address, port);
            Check::answered(from, to, target).by(&[to]).times(TIMES)
        })
    });
    checks.collect()
}

/// By echo requests.
fn pinged(world: &World, from: &str, to: &str) -> Vec<Check> {
    each(world, from, to, |address| {
        Check::answered(from, to, Target::at(Protocol::Icmp, address, 0)).times(TIMES)
    })
}
