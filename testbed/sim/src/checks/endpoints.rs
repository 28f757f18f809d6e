//! Every pod is served, and nobody else is.

use std::collections::BTreeMap;

use ipnet::IpNet;
use volvox_actors_simulated::{
    endpoints::endpoint::EndpointState, model::EndpointId, ports::HookState,
};

use crate::world::node::Node;

impl Node {
    /// Every pod has its endpoint, ready and with the numbers that it had; nobody else has one.
    pub(super) fn endpoints_lack(&self) -> Option<String> {
        let oracle = self.oracle.borrow();
        let mut views: BTreeMap<EndpointId, _> =
            self.world.list().into_iter().map(|view| (view.id, view)).collect();
        for (number, subject) in &oracle.expected.pods {
            let id = subject.endpoint.unwrap_or_default();
            let Some(view) = views.remove(&id) else {
                return Some(format!("pod {number} has no endpoint {id} any more"));
            };
            if view.state != EndpointState::Ready || view.failing {
                return Some(format!("endpoint {id} is {}: {:?}", view.state, view.last_error));
            }
            if view.spec.addresses != subject.addresses || view.spec.ifindex != subject.ifindex {
                return Some(format!("endpoint {id} has the numbers of another pod"));
            }
            let app = view.identity_labels.get("app").map_or("none", |label| &label.value);
            let newest = subject.apps.last().map_or("none", |app| app.name());
            if app != newest {
                return Some(format!("pod {number} is {newest}, its endpoint takes it for {app}"));
            }
            if let Some((same, identity)) = subject.identity
                && subject.apps == [same]
                && identity != view.identity
            {
                let now = view.identity;
                return Some(format!("pod {number} had identity {identity}, now it has {now}"));
            }
        }
        views.retain(|_, view| !view.spec.is_host());
        views.pop_first().map(|(id, view)| format!("endpoint {id} is nobody's: {}", view.state))
    }

    /// Other nodes and the proxies find every pod's identity by its addresses, and nobody else's.
    pub(super) fn ipcache_lacks(&self) -> Option<String> {
        let oracle = self.oracle.borrow();
        self.world.kernel.with(|state| {
            let mut rows: BTreeMap<_, _> =
                state.rows.ipcache.iter().map(|(prefix, row)| (*prefix, row.identity)).collect();
            for (number, subject) in &oracle.expected.pods {
                let own = state.rows.config.get(&subject.ifindex).map(|row| row.identity);
                for address in subject.addresses.iter() {
                    let mapped = rows.remove(&address.into());
                    if mapped != own {
                        return Some(format!("pod {number} is {own:?}, {address} is {mapped:?}"));
                    }
                }
            }
            let pools = &self.world.settings.pools;
            let of_a_pod = |prefix: &IpNet| match prefix {
                IpNet::V4(prefix) => pools.ipv4.is_some_and(|pool| pool.contains(prefix)),
                IpNet::V6(prefix) => pools.ipv6.is_some_and(|pool| pool.contains(prefix)),
            };
            let left = rows.keys().find(|prefix| of_a_pod(prefix));
            left.map(|prefix| format!("the ipcache has {prefix}, which nobody has"))
        })
    }

    /// Programs run through links, pins follow the policy, state directories are whole.
    pub(super) fn programs_lack(&self) -> Option<String> {
        let oracle = self.oracle.borrow();
        let endpoints = oracle.expected.pods.values().filter_map(|it| Some((it, it.endpoint?)));
        self.world.kernel.with(|state| {
            for (subject, id) in endpoints {
                let at = state.rows.attachments.get(&id).copied().unwrap_or_default();
                if [at.from_container, at.to_container] != [HookState::Link; 2] {
                    return Some(format!("endpoint {id} is not attached by links: {at:?}"));
                }
                let slot = state.rows.config.get(&subject.ifindex).map(|row| row.policy_slot);
                if state.pins.get(&id).copied() != slot {
                    return Some(format!("the pin of endpoint {id} is not its policy"));
                }
                if !self.world.disk.with(|files| files.has(&format!("{id}/ep_config.json"))) {
                    return Some(format!("endpoint {id} has no state file"));
                }
            }
            None
        })
    }
}
