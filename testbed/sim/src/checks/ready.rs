//! Whoever is called ready is served.

use std::sync::Arc;

use volvox_actors_simulated::{
    endpoints::endpoint::{EndpointState, EndpointView},
    model::EndpointId,
    ports::{HookState, Probe},
    testing::KernelState,
};

use crate::world::node::Node;

impl Node {
    /// Whoever is called ready is served by the kernel. Of those who were built meanwhile, or whose
    /// programs were replaced, another look says it.
    pub(crate) fn served_if_ready(&mut self, before: &[Arc<EndpointView>]) {
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
