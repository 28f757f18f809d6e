//! What the datapath of a node at rest does, in a form that two nodes can be compared by.

use std::collections::{BTreeMap, BTreeSet};

use volvox_actors_simulated::policy::identity::IdentityMsg;

use crate::world::node::Node;

/// What the datapath does, told without numbers that were handed out: for each pod its label and
/// the rows of its policy, with what stands behind their identities.
pub type Realised = BTreeMap<u8, (String, BTreeSet<String>)>;

impl Node {
    pub(crate) fn realised(&self) -> Realised {
        let identities =
            self.world.ask(&self.world.node_supervisor().identities, IdentityMsg::List);
        let behind: BTreeMap<_, _> =
            identities.iter().map(|it| (it.id, it.labels.to_string())).collect();
        let oracle = self.oracle.borrow();
        let pods = oracle.expected.pods.iter().map(|(number, subject)| {
            let policy = self.world.kernel.with(|state| state.policy_of(subject.ifindex).cloned());
            let rows = policy.unwrap_or_default().into_iter().map(|(key, row)| {
                let other = behind.get(&key.identity);
                let other = other.cloned().unwrap_or_else(|| key.identity.to_string());
                let (way, protocol, port, bits) = (key.direction, key.protocol, key.port, key.bits);
                format!("{way:?} {other} {protocol}/{port}/{bits} {}", row.deny)
            });
            let app = subject.apps.last().map_or("none", |app| app.name());
            (*number, (app.to_owned(), rows.collect()))
        });
        pods.collect()
    }
}
