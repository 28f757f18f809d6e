//! What somebody else takes away at a pod's interface: the agent says so, or puts it back.

use std::{fmt, sync::Arc, time::Duration};

use volvox_actors_simulated::{
    endpoints::{
        endpoint::{EndpointState, EndpointView},
        supervisor::EndpointsMsg,
    },
    model::EndpointId,
    ports::{HookState, Intruder, Notices, Probe},
    testing::KernelState,
};

use super::node::Node;

/// What is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loot {
    /// The routes to the pod.
    Routes,
    /// The first place at a hook, by a program of somebody else.
    FirstPlace,
    /// The interface, and with it the pod.
    Interface,
}

impl fmt::Display for Loot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Routes => "its routes",
            Self::FirstPlace => "the first place at a hook",
            Self::Interface => "its interface",
        })
    }
}

impl Node {
    /// Somebody takes something from a pod. The kernel says it, where it says such things, or
    /// somebody asks; after that, whoever is called ready is served.
    pub(super) fn rob(&mut self, number: u8, loot: Loot, seed: u64) {
        let subject = self.oracle.borrow().subjects.get(&number).cloned();
        let Some((subject, id)) = subject.and_then(|it| Some((it.clone(), it.endpoint?))) else {
            return;
        };
        let ifindex = subject.ifindex;
        let mut notices = Notices::default();
        match loot {
            Loot::Routes => {
                self.world.kernel.tamper(|state| state.rows.routes.retain(|_, to| *to != ifindex));
                notices.addresses.extend(subject.addresses.iter());
            }
            Loot::FirstPlace => self.world.kernel.tamper(|state| {
                let intruder = Intruder { program: 1, name: *b"somebody\0\0\0\0\0\0\0\0" };
                if let Some(at) = state.rows.attachments.get_mut(&id)
                    && at.from_container != HookState::Empty
                {
                    at.from_container = HookState::Behind(intruder);
                }
            }),
            Loot::Interface => {
                self.unplug(number);
                notices.links.insert(ifindex, None);
            }
        }
        if !self.world.is_alive() {
            return;
        }
        let endpoints = self.world.node_supervisor().endpoints.clone();
        if notices != Notices::default() {
            let _ = endpoints.tell(EndpointsMsg::Disturbed(notices));
            self.time(Duration::from_millis(20), seed);
        }
        if !self.world.is_alive() {
            return;
        }
        let before = self.world.list();
        let endpoints = self.world.node_supervisor().endpoints.clone();
        let ask = |reply| EndpointsMsg::Verify { target: None, reply };
        let mut asked = self.world.pose(&endpoints, ask);
        self.time(Duration::from_millis(20), seed);
        let heard = asked.now().is_some_and(|answer| answer.is_ok());
        if heard && self.world.is_alive() && !self.faulty {
            self.served_if_ready(&before);
        }
    }

    /// Whoever is called ready is served by the kernel. Of those who were built meanwhile, or whose
    /// programs were replaced, another look says it.
    fn served_if_ready(&mut self, before: &[Arc<EndpointView>]) {
        let views = self.world.list();
        let stayed = |view: &EndpointView| {
            let had = before.iter().find(|had| had.id == view.id);
            had.is_some_and(|had| {
                had.state == EndpointState::Ready && had.counts.builds == view.counts.builds
            })
        };
        let wrong = self.world.kernel.with(|state| {
            let ready =
                views.iter().filter(|view| view.state == EndpointState::Ready && view.serves());
            let mut ready = ready.filter(|view| !view.spec.is_host() && stayed(view));
            ready.find_map(|view| {
                let probe = seen(state, view.id, view.spec.ifindex);
                let trouble = match &probe.link {
                    None => Some("its interface is gone".to_owned()),
                    Some(_) => {
                        let at = probe.attachment;
                        let hooks = [at.from_container, at.to_container];
                        let stale = hooks.contains(&HookState::Stale);
                        at.trouble().filter(|_| !stale)
                    }
                };
                let missing = view.spec.addresses.iter().find(|it| !probe.routes.contains(it));
                let missing = missing.map(|address| format!("no route leads to {address}"));
                let trouble = trouble.or(missing)?;
                Some(format!("endpoint {} is called ready, but {trouble}", view.id))
            })
        });
        wrong.into_iter().for_each(|what| self.wrong(what));
    }
}

fn seen(state: &KernelState, id: EndpointId, ifindex: u32) -> Probe {
    let routes = state.rows.routes.iter().filter(|(_, to)| **to == ifindex);
    Probe {
        link: state.rows.links.get(&ifindex).cloned(),
        attachment: state.rows.attachments.get(&id).copied().unwrap_or_default(),
        routes: routes.map(|(address, _)| *address).collect(),
    }
}
