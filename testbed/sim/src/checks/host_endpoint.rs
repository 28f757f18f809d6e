//! The node's own endpoint, if it is to have one.

use volvox_actors_simulated::{
    endpoints::endpoint::EndpointState,
    model::{Direction, EndpointId, IdentityId},
    ports::HOST_IFINDEX,
};

use crate::{model::manifests::HOST_CLIENT, world::node::Node};

impl Node {
    /// At rest: the node has an endpoint of its own if it is to have one, always of the same number,
    /// that lets in its friends and no other pods.
    pub(crate) fn host_endpoint_lacks(&self) -> Option<String> {
        let expected = self.world.settings.policy.host_firewall;
        let mut views = self.world.list().into_iter().filter(|view| view.spec.is_host());
        let (view, another) = (views.next(), views.next());
        if let Some(another) = another {
            return Some(format!("the node has a second endpoint, {}", another.id));
        }
        let row = self.world.kernel.with(|state| state.rows.config.get(&HOST_IFINDEX).copied());
        let (view, row) = match (expected, view, row) {
            (false, None, None) => return None,
            (false, view, row) => {
                return Some(format!("the node is not wanted, and is {view:?} with {row:?}"));
            }
            (true, Some(view), Some(row)) => (view, row),
            (true, view, row) => return Some(format!("the node is {view:?} with {row:?}")),
        };
        if view.state != EndpointState::Ready || view.failing {
            return Some(format!("the node is {}: {:?}", view.state, view.last_error));
        }
        if row.endpoint != view.id || row.identity != IdentityId::HOST {
            return Some(format!("the node is endpoint {}, its row is {row:?}", view.id));
        }
        if let Some(known) = self.remembered.host_number.filter(|known| *known != view.id) {
            return Some(format!("the node was endpoint {known}, now it is {}", view.id));
        }
        self.host_policy_lacks(view.id, row.policy_slot)
    }

    fn host_policy_lacks(&self, id: EndpointId, slot: u32) -> Option<String> {
        let oracle = self.oracle.borrow();
        let lives = oracle.expected.pods.values().any(|it| it.apps.last() == Some(&HOST_CLIENT));
        let friend = self.remembered.numbers.get(&HOST_CLIENT).copied();
        self.world.kernel.with(|state| {
            if state.pins.get(&id) != Some(&slot) {
                return Some(format!("the pin of the node, endpoint {id}, is not its policy"));
            }
            let Some(rows) = state.slots.get(&slot) else {
                return Some(format!("the node has no policy in slot {slot}"));
            };
            let inward = rows.iter().filter(|(key, _)| key.direction == Direction::Ingress);
            let allowed: Vec<_> =
                inward.filter(|(_, entry)| !entry.deny).map(|(key, _)| key.identity).collect();
            let others = self.remembered.numbers.iter().filter(|(app, _)| **app != HOST_CLIENT);
            let mut others = others.map(|(_, identity)| *identity).chain([IdentityId::UNKNOWN]);
            if let Some(other) = others.find(|it| allowed.contains(it)) {
                return Some(format!("the node lets in {other}, which is no friend"));
            }
            let missed = friend.filter(|it| lives && !allowed.contains(it));
            missed.map(|friend| format!("the node does not let in its friend {friend}"))
        })
    }
}
