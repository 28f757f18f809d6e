//! Traffic between pods of a history.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{Broken, World};
use crate::{
    chaos::{
        explain,
        history::{Expected, Flow, Reach, Step, Target},
    },
    traffic::{Kind, Plan, Stream},
};

/// What the streams are called, in the order in which the judge has them, and those that are not judged.
#[derive(Default)]
pub(super) struct Flows {
    pub(super) judged: Vec<String>,
    others: Vec<Stream>,
}

/// Answers that a flow has to get before anything happens.
const WARM_UP: u64 = 10;
/// How long it may take to get them: nobody waits so long for what flows at all.
const WARM_UP_MAX: Duration = Duration::from_secs(60);
/// Pods that are tried with each other, at most.
const PODS_MAX: usize = 12;
/// How long a SYN may be on its way, and how often it is tried.
const ANSWERS: Duration = Duration::from_millis(700);
const TRIES: usize = 3;
/// The port that is tried.
const PORT: u16 = 80;

impl World<'_> {
    pub(super) fn begin_traffic(&mut self, flows: &[Flow]) -> Result<()> {
        for flow in flows {
            let what = explain::flow(flow);
            let stream = self.start(flow).with_context(|| what.clone())?;
            match flow.expected {
                Expected::Flows => {
                    warm_up(&stream, &what)?;
                    self.flows.judged.push(what);
                    self.judge.flows(stream);
                }
                Expected::Denied => self.judge.denied(stream),
                Expected::Any => self.flows.others.push(stream),
            }
        }
        Ok(())
    }

    fn start(&self, flow: &Flow) -> Result<Stream> {
        let Flow { from, to, kind, port, ipv6, rate, .. } = flow;
        let member = |name| self.pods.get(name).with_context(|| format!("{name} was not made yet"));
        let from = member(from)?.pod.netns.clone();
        let plan = |to, address| {
            let target = SocketAddr::new(address, *port);
            Plan { kind: *kind, from: from.clone(), to, target, rate: *rate }
        };
        match to {
            Target::Pod(name) => {
                let super::Member { pod, responders, .. } = member(name)?;
                let plan = plan(pod.netns.clone(), pod.address(*ipv6)?);
                // Who is behind a service answers already.
                let answers = responders.contains_key(&(*kind == Kind::Udp, *port));
                if answers && *kind != Kind::Ping { Stream::ask(plan) } else { Stream::start(plan) }
            }
            Target::Service(name) => {
                let (address, behind) = self.service_at(name, *ipv6).context("no address")?;
                let first = behind.first().with_context(|| {
                    format!("no pod is behind service {name}: give one the labels of its selector")
                })?;
                Stream::ask(plan(member(first)?.pod.netns.clone(), address))
            }
        }
    }

    /// Tries a connection; fails as something that is not as it should be.
    pub(super) fn try_to_reach(&self, reach: &Reach) -> Result<()> {
        let Reach { from, to, port, ipv6, is_denied } = reach;
        let member = |name| self.pods.get(name).with_context(|| format!("{name} was not made yet"));
        let address = match to {
            Target::Pod(name) => member(name)?.pod.address(*ipv6)?,
            Target::Service(name) => self.service_at(name, *ipv6).context("no address")?.0,
        };
        let target = SocketAddr::new(address, *port);
        let is_reached = member(from)?.pod.netns.run(|| Ok((0..TRIES).any(|_| answers(target))))?;
        if is_reached == *is_denied {
            let what = explain::step(&Step::Reach(reach.clone()));
            return Err(Broken(format!("it is not so that {what}")).into());
        }
        Ok(())
    }

    /// Which pod reaches which at TCP port 80; a refusal is an answer, too.
    pub(super) fn reach(&self) -> Result<BTreeMap<String, bool>> {
        if self.pods.len() > PODS_MAX {
            return Ok(BTreeMap::new());
        }
        let pairs =
            self.pods.iter().flat_map(|one| self.pods.iter().map(move |other| (one, other)));
        let pairs: Vec<_> = pairs.filter(|(one, other)| one.0 != other.0).collect();
        thread::scope(|scope| {
            let tries: Vec<_> = pairs
                .into_iter()
                .map(|((from, sender), (to, receiver))| {
                    let tried = scope.spawn(move || {
                        let target = SocketAddr::new(receiver.pod.address(false)?, PORT);
                        sender.pod.netns.run(|| Ok((0..TRIES).any(|_| answers(target))))
                    });
                    (format!("{from} -> {to}"), tried)
                })
                .collect();
            let joined = tries
                .into_iter()
                .map(|(pair, tried)| Ok((pair, tried.join().expect("it returns")?)));
            joined.collect()
        })
    }
}

fn answers(target: SocketAddr) -> bool {
    match TcpStream::connect_timeout(&target, ANSWERS) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
    }
}

/// Waits until it flows; fails as something that is not as it should be.
fn warm_up(stream: &Stream, what: &str) -> Result<()> {
    let (begun, before) = (Instant::now(), stream.answers());
    while stream.answers() < before + WARM_UP {
        if begun.elapsed() > WARM_UP_MAX {
            let what =
                format!("{what}: it should flow, and nothing arrives before anything happens");
            return Err(Broken(what).into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
