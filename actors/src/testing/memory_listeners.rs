//! Health listeners in memory: which port answers what, and which ports are taken.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

use crate::{
    host::Reply,
    ports::{HealthAnswer, HealthListeners, ListenError},
};

/// Ports of a node at which load balancers ask for services. They end with their agent.
#[derive(Clone, Default)]
pub struct MemoryListeners(Rc<RefCell<MemoryListenersState>>);

type ListenRequest = (u16, Option<HealthAnswer>, Reply<Result<(), ListenError>>);

#[derive(Default)]
struct MemoryListenersState {
    answers: BTreeMap<u16, HealthAnswer>,
    /// Ports that somebody else listens on.
    taken: BTreeSet<u16>,
    asked: VecDeque<ListenRequest>,
    done: usize,
}

impl MemoryListeners {
    /// What is answered at each port: the service, and how many pods.
    pub fn answers(&self) -> Vec<(u16, String, usize)> {
        let answers = &self.0.borrow().answers;
        let answer =
            |(port, it): (&u16, &HealthAnswer)| (*port, it.service.to_string(), it.local_endpoints);
        answers.iter().map(answer).collect()
    }

    /// How often something was asked for.
    pub fn done(&self) -> usize {
        self.0.borrow().done
    }

    /// Somebody else listens on these ports, and on no others.
    pub fn take(&self, ports: &[u16]) {
        self.0.borrow_mut().taken = ports.iter().copied().collect();
    }

    /// The agent died.
    pub fn forget(&self) {
        *self.0.borrow_mut() = MemoryListenersState::default();
    }

    /// Does the next thing; whether there was one.
    pub fn step(&self) -> bool {
        let inner = &mut *self.0.borrow_mut();
        let Some((port, answer, reply)) = inner.asked.pop_front() else { return false };
        inner.done += 1;
        let is_new = !inner.answers.contains_key(&port);
        if answer.is_some() && is_new && inner.taken.contains(&port) {
            reply.send(Err(ListenError(format!("port {port} is taken"))));
            return true;
        }
        match answer {
            Some(answer) => drop(inner.answers.insert(port, answer)),
            None => drop(inner.answers.remove(&port)),
        }
        reply.send(Ok(()));
        true
    }
}

impl HealthListeners for MemoryListeners {
    fn answer(
        &self,
        port: u16,
        answer: Option<HealthAnswer>,
        reply: Reply<Result<(), ListenError>>,
    ) {
        self.0.borrow_mut().asked.push_back((port, answer, reply));
    }
}
