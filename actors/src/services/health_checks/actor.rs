//! The actor that decides which service has which health check port, and has it listened on.
//! After a failure it tries again, each time later. What listens is outside the actors.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use super::{
    HealthChange, HealthCheck, HealthCheckView, HealthChecksMsg, answers::HealthChecksAnswer,
};
use crate::{
    host::{AskError, Behaviour, Cx, Lent, Survives},
    ports::{HealthAnswer, HealthListeners, ListenError},
};

/// How long it may take until a port is listened on.
const PATIENCE: Duration = Duration::from_secs(60);
/// After the nth failure in a row the next try waits n times as long.
const RETRY_STEP: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// The owner of health checks: says who has a port, and has it listened on.
pub struct HealthChecks {
    listeners: Rc<dyn HealthListeners>,
    /// Outlives a crash: the listeners do, too.
    kept: Lent<Kept>,
    /// What is under way, by port.
    asked: BTreeMap<u16, Option<HealthAnswer>>,
    /// Ports that wait for the next try.
    resting: BTreeSet<u16>,
}

#[derive(Default)]
struct Kept {
    services: BTreeMap<Rc<str>, HealthCheck>,
    ports: BTreeMap<u16, Port>,
}

/// A port of the node.
#[derive(Default)]
struct Port {
    /// Who wants it: the first one has it, and the next gets it from that one.
    wanted_by: Vec<Rc<str>>,
    there: There,
    failures: u32,
    error: Option<String>,
}

/// What is answered at a port.
#[derive(Default, PartialEq)]
enum There {
    #[default]
    Nothing,
    Answer(HealthAnswer),
    /// Nobody knows.
    Unsure,
}

impl HealthChecks {
    /// Makes each life of the actor.
    pub fn factory(listeners: Rc<dyn HealthListeners>) -> impl FnMut() -> Self + 'static {
        let kept = Survives::<Kept>::default();
        move || Self {
            listeners: Rc::clone(&listeners),
            kept: kept.lend(),
            asked: BTreeMap::new(),
            resting: BTreeSet::new(),
        }
    }

    /// Has a port answer as it is to, unless something is under way there.
    fn proceed(&mut self, number: u16, cx: &mut Cx<'_, Self>) {
        let kept = &mut *self.kept;
        let Some(port) = kept.ports.get(&number) else { return };
        if self.asked.contains_key(&number) {
            return;
        }
        let wanted = port.wanted(&kept.services);
        let is_there = match (&port.there, &wanted) {
            (There::Nothing, None) => true,
            (There::Answer(there), Some(wanted)) => there == wanted,
            _ => false,
        };
        if is_there && wanted.is_none() {
            kept.ports.remove(&number);
            self.resting.remove(&number);
        }
        if is_there || self.resting.contains(&number) {
            return;
        }
        let why = "a port of health checks";
        let then = move |done| HealthChecksAnswer::Answered(number, done);
        let reply = cx.expect("health listeners", PATIENCE, why, then);
        self.listeners.answer(number, wanted.clone(), reply);
        self.asked.insert(number, wanted);
    }

    fn listening(
        &mut self,
        number: u16,
        done: Result<Result<(), ListenError>, AskError>,
        cx: &mut Cx<'_, Self>,
    ) {
        let kept = &mut *self.kept;
        let (Some(asked), Some(port)) = (self.asked.remove(&number), kept.ports.get_mut(&number))
        else {
            return;
        };
        let error = match done {
            Ok(Ok(())) => {
                port.there = asked.map_or(There::Nothing, There::Answer);
                (port.failures, port.error) = (0, None);
                return;
            }
            Ok(Err(error)) => {
                port.there = There::Nothing;
                error.to_string()
            }
            Err(error) => {
                port.there = There::Unsure;
                error.to_string()
            }
        };
        port.failures += 1;
        let wait = RETRY_MAX.min(RETRY_STEP * port.failures);
        if port.error.as_ref() != Some(&error) {
            let service = port.wanted_by.first().map(AsRef::<str>::as_ref).unwrap_or_default();
            tracing::warn!(service, healthCheckNodePort = number, retry_in = ?wait, "{error}");
        }
        port.error = Some(error);
        self.resting.insert(number);
        cx.after(wait, HealthChecksAnswer::Retry(number));
    }

    fn show(&self) -> Vec<HealthCheckView> {
        let kept = &*self.kept;
        let view = |(name, check): (&Rc<str>, &HealthCheck)| HealthCheckView {
            service: name.to_string(),
            check: *check,
            problem: kept.ports.get(&check.port).and_then(|port| port.problem(name, check.port)),
        };
        kept.services.iter().map(view).collect()
    }
}

impl Kept {
    /// Takes in how services are asked for; the ports that this is about.
    fn apply(&mut self, all: bool, changes: &[HealthChange]) -> BTreeSet<u16> {
        let named: BTreeSet<_> = changes.iter().filter(|_| all).map(|(name, _)| name).collect();
        let others = self.services.keys().filter(|name| all && !named.contains(name));
        let gone: Vec<_> = others.map(|name| (Rc::clone(name), None)).collect();
        let changes = gone.iter().chain(changes);
        changes.flat_map(|(name, check)| self.set(name, *check)).collect()
    }

    /// A service is asked for in another way, or not any more; the ports that this is about.
    fn set(&mut self, name: &Rc<str>, check: Option<HealthCheck>) -> BTreeSet<u16> {
        let before = match check {
            Some(check) => self.services.insert(Rc::clone(name), check),
            None => self.services.remove(name),
        };
        let (old, new) = (before.map(|it| it.port), check.map(|it| it.port));
        if old != new {
            if let Some(port) = old.and_then(|old| self.ports.get_mut(&old)) {
                port.wanted_by.retain(|it| it != name);
            }
            if let Some(new) = new {
                let port = self.ports.entry(new).or_default();
                port.wanted_by.push(Rc::clone(name));
                if let Some(problem) = port.problem(name, new) {
                    tracing::warn!(service = %name, "{problem}");
                }
            }
        }
        old.into_iter().chain(new).collect()
    }
}

impl Port {
    fn wanted(&self, services: &BTreeMap<Rc<str>, HealthCheck>) -> Option<HealthAnswer> {
        let name = self.wanted_by.first()?;
        let local_endpoints = services.get(name)?.local_endpoints;
        Some(HealthAnswer { service: (&**name).into(), local_endpoints })
    }

    /// Why nobody can ask for a service here.
    fn problem(&self, name: &str, number: u16) -> Option<String> {
        match self.wanted_by.first() {
            Some(owner) if &**owner != name => Some(format!(
                "its healthCheckNodePort {number} is {owner}'s: give one of the two another"
            )),
            _ => self
                .error
                .as_ref()
                .map(|error| format!("its healthCheckNodePort {number} answers nobody: {error}")),
        }
    }
}

impl Behaviour for HealthChecks {
    type Msg = HealthChecksMsg;
    type Answer = HealthChecksAnswer;
    type Observed = Vec<HealthCheckView>;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        let ports: Vec<u16> = {
            let ports = &mut self.kept.ports;
            // Nobody heard what came of what was under way.
            ports.values_mut().for_each(|port| port.there = There::Unsure);
            ports.keys().copied().collect()
        };
        ports.into_iter().for_each(|port| self.proceed(port, cx));
    }

    fn handle(&mut self, msg: HealthChecksMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            HealthChecksMsg::Set { all, changes, reply } => {
                let ports = self.kept.apply(all, &changes);
                reply.send(());
                ports.into_iter().for_each(|port| self.proceed(port, cx));
            }
            HealthChecksMsg::Show(reply) => reply.send(self.show()),
        }
    }

    fn answered(&mut self, answer: HealthChecksAnswer, cx: &mut Cx<'_, Self>) {
        let port = match answer {
            HealthChecksAnswer::Answered(port, done) => {
                self.listening(port, done, cx);
                port
            }
            HealthChecksAnswer::Retry(port) => {
                self.resting.remove(&port);
                port
            }
        };
        self.proceed(port, cx);
    }

    fn observe(&self) -> Vec<HealthCheckView> {
        self.show()
    }
}
