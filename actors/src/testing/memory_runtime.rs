//! A container runtime in memory: containers that tests start and end, and a runtime that is away, hangs, or
//! has forgotten all.

use std::{
    cell::RefCell,
    collections::{BTreeSet, VecDeque},
    rc::Rc,
};

use crate::{
    host::{Reply, Time},
    ports::{
        ContainerRuntime, RuntimeContainer, RuntimeContainers, RuntimeError, RuntimeEvent,
        RuntimePod, RuntimeSink, WATCH_ALIVE_EVERY, Watch, WhichContainers,
    },
};

/// The container runtime of a node. It goes on when the agent dies.
#[derive(Clone, Default)]
pub struct MemoryRuntime(Rc<RefCell<MemoryRuntimeState>>);

type RuntimeReply = Reply<Result<RuntimeContainers, RuntimeError>>;

#[derive(Default)]
struct MemoryRuntimeState {
    containers: RuntimeContainers,
    /// Containers of whose tasks its lists say nothing.
    unlisted: BTreeSet<String>,
    /// Nobody listens at its socket.
    away: bool,
    /// It takes questions and answers none.
    hangs: bool,
    follower: Option<RuntimeFollowing>,
    connections: u64,
    asked: VecDeque<(WhichContainers, RuntimeReply)>,
    /// Questions so far.
    questions: usize,
}

struct RuntimeFollowing {
    number: u64,
    tell: RuntimeSink,
    events: VecDeque<RuntimeEvent>,
    said: Time,
}

impl MemoryRuntime {
    /// A pod's sandbox runs.
    pub fn run(&self, container: &str, namespace: &str, pod: &str, uid: &str) {
        let (namespace, name, uid) = (namespace.to_owned(), pod.to_owned(), uid.to_owned());
        let pod = Some(RuntimePod { namespace, name, uid });
        self.put(container, RuntimeContainer { runs: true, pod });
    }

    /// It is so now, and the runtime says that something became of it.
    pub fn put(&self, container: &str, is: RuntimeContainer) {
        self.0.borrow_mut().containers.insert(container.to_owned(), is);
        self.speak_of(container);
    }

    /// The process in it ended.
    pub fn exit(&self, container: &str) {
        if let Some(is) = self.0.borrow_mut().containers.get_mut(container) {
            is.runs = false;
        }
        self.speak_of(container);
    }

    /// It is removed.
    pub fn remove(&self, container: &str) {
        self.0.borrow_mut().containers.remove(container);
        self.speak_of(container);
    }

    /// All are removed, and nobody hears of it.
    pub fn forget_containers(&self) -> RuntimeContainers {
        std::mem::take(&mut self.0.borrow_mut().containers)
    }

    /// These are there, and nobody hears of it.
    pub fn restore_containers(&self, containers: RuntimeContainers) {
        self.0.borrow_mut().containers = containers;
    }

    /// Lists say from now on that nothing runs in it, whatever does.
    pub fn lists_no_task_of(&self, container: &str) {
        self.0.borrow_mut().unlisted.insert(container.to_owned());
    }

    /// The runtime says that something became of a container.
    pub fn speak_of(&self, container: &str) {
        let inner = &mut *self.0.borrow_mut();
        if let Some(follower) = &mut inner.follower {
            follower.events.push_back(RuntimeEvent::Changed(container.to_owned()));
        }
    }

    /// It ends, or is started again.
    pub fn is_away(&self, away: bool) {
        let inner = &mut *self.0.borrow_mut();
        inner.away = away;
        if let Some(follower) = inner.follower.as_mut().filter(|_| away) {
            follower.events = [RuntimeEvent::Ended(gone())].into();
        }
    }

    /// It answers nothing, or again.
    pub fn hangs(&self, hangs: bool) {
        self.0.borrow_mut().hangs = hangs;
    }

    /// How often somebody connected.
    pub fn connections(&self) -> u64 {
        self.0.borrow().connections
    }

    /// How often something was looked up.
    pub fn questions(&self) -> usize {
        self.0.borrow().questions
    }

    /// The agent died.
    pub fn forget(&self) {
        let inner = &mut *self.0.borrow_mut();
        (inner.follower, inner.asked) = (None, VecDeque::new());
    }

    /// Whether it has something to say or to answer.
    pub fn has_something(&self, now: Time) -> bool {
        let inner = self.0.borrow();
        let speaks = |it: &RuntimeFollowing| {
            !it.events.is_empty() || now.since(it.said) >= WATCH_ALIVE_EVERY
        };
        !inner.hangs && (!inner.asked.is_empty() || inner.follower.as_ref().is_some_and(speaks))
    }

    /// Says or answers the next thing; whether there was one.
    pub fn step(&self, now: Time) -> bool {
        let inner = &mut *self.0.borrow_mut();
        if inner.hangs {
            return false;
        }
        if let Some(follower) = &mut inner.follower {
            if follower.events.is_empty() && now.since(follower.said) >= WATCH_ALIVE_EVERY {
                follower.events.push_back(RuntimeEvent::Alive);
            }
            if let Some(event) = follower.events.pop_front() {
                follower.said = now;
                let ends = matches!(event, RuntimeEvent::Ended(_));
                let is_taken = (follower.tell)(event);
                if ends || !is_taken {
                    inner.follower = None;
                }
                return true;
            }
        }
        let Some((which, reply)) = inner.asked.pop_front() else { return false };
        inner.questions += 1;
        if inner.away {
            reply.send(Err(gone()));
            return true;
        }
        let all = inner.containers.iter().map(|(id, it)| (id.clone(), it.clone()));
        let found: RuntimeContainers = match which {
            WhichContainers::These(these) => all.filter(|(id, _)| these.contains(id)).collect(),
            WhichContainers::Sandboxes => all
                .filter(|(_, it)| it.pod.is_some())
                .map(|(id, it)| {
                    let runs = it.runs && !inner.unlisted.contains(&id);
                    (id, RuntimeContainer { runs, ..it })
                })
                .collect(),
        };
        reply.send(Ok(found));
        true
    }
}

fn gone() -> RuntimeError {
    RuntimeError("nobody listens at its socket".to_owned())
}

impl ContainerRuntime for MemoryRuntime {
    fn follow(&self, tell: RuntimeSink) -> Watch {
        let inner = &mut *self.0.borrow_mut();
        inner.connections += 1;
        let number = inner.connections;
        let first = match inner.away {
            true => RuntimeEvent::Ended(gone()),
            false => RuntimeEvent::Follows("1.0".to_owned()),
        };
        let said = Time::default();
        inner.follower = Some(RuntimeFollowing { number, tell, events: [first].into(), said });
        let runtime = self.clone();
        Watch::new(move || {
            // Whoever is in a step already has it.
            if let Ok(mut inner) = runtime.0.try_borrow_mut()
                && inner.follower.as_ref().is_some_and(|it| it.number == number)
            {
                inner.follower = None;
            }
        })
    }

    fn look_up(&self, which: WhichContainers, reply: RuntimeReply) {
        self.0.borrow_mut().asked.push_back((which, reply));
    }
}
