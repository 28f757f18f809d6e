//! A store, an API server or another cluster that goes, changes and comes back.

use super::{Scenario, label, remote, steps};
use crate::{
    history::{
        action::Action,
        events::{ApiServerEvent, StoreEvent},
    },
    model::policies::App,
};

/// Leases end while the store is out of reach.
pub(super) const LEASES_END: Scenario = Scenario {
    name: "c_42596_what_a_lease_held_is_announced_again_when_it_ends",
    make: |random| {
        vec![
            Action::ShareStore,
            Action::Rest,
            remote(1, App::Web),
            Action::Time { ms: 1_000, seed: random.number() },
            Action::Store(random.one_of(&[
                StoreEvent::HungUp,
                StoreEvent::Silent,
                StoreEvent::Lost,
            ])),
            Action::Add(4),
            steps(random, 100),
            Action::Store(StoreEvent::Expired),
            steps(random, 100),
            Action::Store(StoreEvent::Up),
            steps(random, 100),
        ]
    },
};

/// A store is restored from a snapshot.
pub(super) const STORE_RESTORED: Scenario = Scenario {
    name: "e_14303_a_restored_store_is_heard",
    make: |random| {
        vec![
            Action::ShareStore,
            Action::Rest,
            remote(1, App::Db),
            remote(2, App::Web),
            Action::Rest,
            Action::Store(StoreEvent::Restored),
            remote(1, App::Web),
            steps(random, 100),
            Action::RemotePod { number: 2, app: None },
            remote(3, App::Mail),
        ]
    },
};

/// An API server comes back from a backup.
pub(super) const SERVER_RESTORED: Scenario = Scenario {
    name: "k_107457_a_server_back_from_a_backup_is_heard",
    make: |random| {
        let restored = Action::ApiServer(ApiServerEvent::Restored);
        vec![
            Action::FollowApiServer,
            Action::Rest,
            restored,
            label(1, App::Mail),
            steps(random, 200),
        ]
    },
};

/// A pod of another node changes while no agent runs.
pub(super) const PEER_CHANGED: Scenario = Scenario {
    name: "c_28645_a_peer_that_changed_while_the_agent_was_dead",
    make: |random| {
        vec![
            Action::ShareStore,
            Action::Rest,
            remote(1, App::Db),
            Action::Rest,
            Action::Kill,
            remote(1, App::Web),
            remote(2, App::Db),
            Action::Boot { reported: random.roll(2) == 0 },
            steps(random, 300),
        ]
    },
};

/// The agent starts while another cluster cannot be reached.
pub(super) const REMOTE_CLUSTER_AWAY: Scenario = Scenario {
    name: "a_restart_while_another_cluster_is_away",
    make: |random| {
        vec![
            Action::MeshClusters,
            Action::ShareStore,
            remote(5, App::Db),
            remote(6, App::Web),
            Action::Rest,
            Action::RemoteStore(random.one_of(&[StoreEvent::Down, StoreEvent::Silent])),
            Action::Kill,
            remote(5, App::Web),
            Action::Boot { reported: true },
            steps(random, 300),
            Action::Time { ms: 60_000, seed: random.number() },
            Action::ConfigureRemoteCluster(random.roll(2) == 0),
            steps(random, 100),
            Action::RemoteStore(StoreEvent::Up),
            steps(random, 300),
        ]
    },
};
