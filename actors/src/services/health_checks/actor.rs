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
    host::{AskError, Behaviour, Cx, Lent, Pauses, Retry, Survives},
    ports::{HealthAnswer, HealthListeners, ListenError},
};

/// How long it may take until a port is listened on.
const PATIENCE: Duration = Duration::from_secs(60);
/// After the nth failure in a row the next try waits n times as long.
const PAUSES: Pauses =
    Pauses::Linear { step: Duration::from_secs(1), most: Duration::from_secs(30) };

/// The owner of health checks: says who has a port, and has it listened on.
pub struct HealthChecks {
    listeners: Rc<dyn HealthListeners>,
    /// Outlives a crash: the listeners do, too.
    state: Lent<HealthChecksState>,
}

#[derive(Default)]
struct HealthChecksState {
    services: BTreeMap<Rc<str>, HealthCheck>,
    ports: BTreeMap<u16, HealthCheckPort>,
}

/// A port of the node.
#[derive(Default)]
struct HealthCheckPort {
    /// Who wants it: the first one has it, and the next gets it from that one.
    desired_by: Vec<Rc<str>>,
    there: There,
    /// What is under way, or the time of the next try.
    tries: Retry,
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
        let state = Survives::<HealthChecksState>::default();
        move || Self { listeners: Rc::clone(&listeners), state: state.lend() }
    }

    /// Has a port answer as it is to, unless something is under way there.
    fn proceed(&mut self, number: u16, cx: &mut Cx<'_, Self>) {
        let state = &mut *self.state;
        let Some(port) = state.ports.get_mut(&number) else { return };
        if port.tries.is_asked() {
            return;
        }
        let desired = port.desired(&state.services);
        let is_there = match (&port.there, &desired) {
            (There::Nothing, None) => true,
            (There::Answer(there), Some(desired)) => there == desired,
            _ => false,
        };
        if is_there && desired.is_none() {
            state.ports.remove(&number);
            return;
        }
        if is_there || !port.tries.begin() {
            return;
        }
        let (why, asked) = ("a port of health checks", desired.clone());
        let then = move |done| HealthChecksAnswer::Answered(number, asked, done);
        let reply = cx.expect("health listeners", PATIENCE, why, then);
        self.listeners.answer(number, desired, reply);
    }

    fn listening(
        &mut self,
        number: u16,
        asked: Option<HealthAnswer>,
        done: Result<Result<(), ListenError>, AskError>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(port) = self.state.ports.get_mut(&number) else { return };
        let error = match done {
            Ok(Ok(())) => {
                port.there = asked.map_or(There::Nothing, There::Answer);
                port.tries.succeeded();
                port.error = None;
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
        let wait = port.tries.failed(PAUSES, cx, HealthChecksAnswer::Retry(number));
        if port.error.as_ref() != Some(&error) {
            let service = port.desired_by.first().map(AsRef::<str>::as_ref).unwrap_or_default();
            tracing::warn!(service, healthCheckNodePort = number, retry_in = ?wait, "{error}");
        }
        port.error = Some(error);
    }

    fn show(&self) -> Vec<HealthCheckView> {
        let state = &*self.state;
        let view = |(name, check): (&Rc<str>, &HealthCheck)| HealthCheckView {
            service: name.to_string(),
            check: *check,
            problem: state.ports.get(&check.port).and_then(|port| port.problem(name, check.port)),
        };
        state.services.iter().map(view).collect()
    }
}

impl HealthChecksState {
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
                port.desired_by.retain(|it| it != name);
            }
            if let Some(new) = new {
                let port = self.ports.entry(new).or_default();
                port.desired_by.push(Rc::clone(name));
                if let Some(problem) = port.problem(name, new) {
                    tracing::warn!(service = %name, "{problem}");
                }
            }
        }
        old.into_iter().chain(new).collect()
    }
}

impl HealthCheckPort {
    fn desired(&self, services: &BTreeMap<Rc<str>, HealthCheck>) -> Option<HealthAnswer> {
        let name = self.desired_by.first()?;
        let local_endpoints = services.get(name)?.local_endpoints;
        Some(HealthAnswer { service: (&**name).into(), local_endpoints })
    }

    /// Why nobody can ask for a service here.
    fn problem(&self, name: &str, number: u16) -> Option<String> {
        match self.desired_by.first() {
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
            let ports = &mut self.state.ports;
            // Nobody heard what came of what was under way.
            for port in ports.values_mut() {
                port.there = There::Unsure;
                port.tries.give_up();
            }
            ports.keys().copied().collect()
        };
        ports.into_iter().for_each(|port| self.proceed(port, cx));
    }

    fn handle(&mut self, msg: HealthChecksMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            HealthChecksMsg::Set { all, changes, reply } => {
                let ports = self.state.apply(all, &changes);
                reply.send(());
                ports.into_iter().for_each(|port| self.proceed(port, cx));
            }
            HealthChecksMsg::Show(reply) => reply.send(self.show()),
        }
    }

    fn answered(&mut self, answer: HealthChecksAnswer, cx: &mut Cx<'_, Self>) {
        let port = match answer {
            HealthChecksAnswer::Answered(port, asked, done) => {
                self.listening(port, asked, done, cx);
                port
            }
            HealthChecksAnswer::Retry(number) => {
                self.state.ports.get_mut(&number).into_iter().for_each(|port| port.tries.over());
                number
            }
        };
        self.proceed(port, cx);
    }

    fn observe(&self) -> Vec<HealthCheckView> {
        self.show()
    }
}
