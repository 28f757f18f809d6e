//! One that cannot follow a change holds up nobody else's.

use super::{Scenario, restart, rules, steps};
use crate::{
    history::{action::Action, events::Victim},
    model::policies::{App, Policy, Way},
};

/// Nothing is written of a pod's policy while others' change.
pub(super) const HANGS: Scenario = Scenario {
    name: "one_that_hangs_holds_up_no_change",
    make: |random| {
        let from = |net| vec![Policy::from_net(App::Db, net), Policy::from_net(App::Mail, net)];
        let mut all = vec![rules(0, Vec::new()), rules(1, from("192.0.2.0/24")), Action::Rest];
        all.push(Action::HangPolicy(2));
        // The first one finds out that it hangs.
        for (net, ms) in [("198.51.100.0/24", 3_000), ("203.0.113.0/24", 20), ("192.0.2.0/24", 20)]
        {
            let seed = random.number();
            all.extend([rules(1, from(net)), Action::Time { ms, seed }, Action::InForce]);
        }
        all
    },
};

/// A policy has no room in its map while others change, over a restart, too.
pub(super) const HAS_NO_ROOM: Scenario = Scenario {
    name: "a_full_map_takes_away_and_holds_up_no_change",
    make: |random| {
        let nets = ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "192.0.2.0/25"];
        let many = nets.map(|net| Policy::from_net(App::Web, net)).into();
        let mut all = vec![
            Action::Kill,
            Action::PolicyRoom(Some(5)),
            Action::Boot { reported: true },
            Action::Time { ms: 1_000, seed: random.number() },
            rules(1, many),
            Action::Time { ms: 50, seed: random.number() },
        ];
        for (app, peer) in [(App::Web, App::Mail), (App::Mail, App::Web), (App::Web, App::Db)] {
            let seed = random.number();
            let rule = Policy::about(app, Way::In, false, peer, Some(80));
            all.extend([rules(0, vec![rule]), Action::Time { ms: 50, seed }, Action::InForce]);
        }
        all.extend(restart(random));
        all.extend([Action::Time { ms: 1_000, seed: random.number() }, Action::InForce]);
        all.extend([Action::Kill, Action::PolicyRoom(None), Action::Boot { reported: true }]);
        all
    },
};

/// Endpoints crash amid their builds, which were permitted.
pub(super) const CRASHES: Scenario = Scenario {
    name: "a_crash_amid_a_build_gives_its_permit_back",
    make: |random| {
        let mut all = Vec::new();
        for _ in 0..12 {
            all.extend([1, 2, 3].map(Action::Regenerate));
            all.push(steps(random, 12));
            all.extend((0..3).map(|_| Action::Crash(Victim::Any(random.number()))));
            all.push(steps(random, 60));
        }
        all
    },
};
