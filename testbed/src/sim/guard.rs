//! The node's own endpoint: whether agents are started with one, and what then has to be.

use serde_json::{Value, json};
use volvox_actors_simulated::{
    endpoints::endpoint::EndpointState,
    model::{Direction, EndpointId, EndpointKind, IdentityId},
    ports::{FsOp, HOST_IFINDEX},
    state_directory::scan,
};

use super::{model::App, node::Node};

/// The manifest of its policy.
const MANIFEST: &str = "guard";
/// Who may reach the node.
const FRIEND: App = App::Web;

/// If that is the manifest, the object that it may have.
pub(super) fn object_of(name: &str) -> Option<Value> {
    (name == MANIFEST).then(|| {
        json!({
            "apiVersion": "cilium.io/v2", "kind": "CiliumClusterwideNetworkPolicy",
            "metadata": { "name": MANIFEST },
            "spec": {
                "nodeSelector": {},
                "ingress": [{ "fromEndpoints": [{ "matchLabels": { "app": FRIEND.name() } }] }],
            },
        })
    })
}

impl Node {
    /// From now on agents are started with a policy of the node, or without one.
    pub(super) fn guard(&mut self, expected: bool) {
        if self.world.settings.policy.host_firewall == expected {
            return;
        }
        self.kill();
        self.world.settings.policy.host_firewall = expected;
        let objects = object_of(MANIFEST).filter(|_| expected);
        self.world.manifests.insert(MANIFEST.to_owned(), objects.into_iter().collect());
        self.changed(MANIFEST.to_owned(), false);
        if self.world.cluster.is_some() {
            self.tell(&[MANIFEST.to_owned()]);
        }
        self.boot(true);
    }

    /// At rest: the node has an endpoint of its own if it is to have one, always of the same number,
    /// that lets in its friends and no other pods.
    pub(super) fn unguarded(&self) -> Option<String> {
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
        if let Some(known) = self.host_number.filter(|known| *known != view.id) {
            return Some(format!("the node was endpoint {known}, now it is {}", view.id));
        }
        self.misguarded(view.id, row.policy_slot)
    }

    /// The number of the node's own endpoint is meant to stay, also where it has none.
    pub(super) fn forget_own_records(&self) {
        self.world.disk.tamper(|files| {
            let found = scan(files);
            let of_host =
                found.records.into_iter().filter(|it| it.record.kind() == EndpointKind::Host);
            for record in of_host {
                let _ = files.apply(&FsOp::Remove(record.dir.into()));
            }
        });
    }

    fn misguarded(&self, id: EndpointId, slot: u32) -> Option<String> {
        let oracle = self.oracle.borrow();
        let lives = oracle.subjects.values().any(|it| it.apps.last() == Some(&FRIEND));
        let friend = self.numbers.get(&FRIEND).copied();
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
            let others = self.numbers.iter().filter(|(app, _)| **app != FRIEND);
            let mut others = others.map(|(_, identity)| *identity).chain([IdentityId::UNKNOWN]);
            if let Some(other) = others.find(|it| allowed.contains(it)) {
                return Some(format!("the node lets in {other}, which is no friend"));
            }
            let missed = friend.filter(|it| lives && !allowed.contains(it));
            missed.map(|friend| format!("the node does not let in its friend {friend}"))
        })
    }
}
