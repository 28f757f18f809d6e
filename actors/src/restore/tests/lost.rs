//! Tests: records, rows or interfaces are lost, torn or disputed when the agent starts.

use std::time::Duration;

use crate::{
    endpoints::{
        endpoint::{EndpointSpec, Patch},
        supervisor::{EndpointReference, EndpointsMsg},
    },
    model::{Direction, EndpointId, IdentityId},
    policy::rules::lookup,
    ports::{FsOp, KernelOp, LxcRow},
    restore::{RestoreMsg, RestoreOutcome},
    testing::{Turn, World, crash, pod, spec},
};

const ID: EndpointId = EndpointId(1);

/// A dead agent's node with two endpoints.
pub(super) fn node() -> World {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    world.create(spec(1)).unwrap();
    world.create(spec(2)).unwrap();
    world.advance(Duration::from_secs(1));
    world
}

pub(super) fn back(world: &mut World) {
    world.boot();
    world.advance(Duration::from_secs(60));
    assert!(world.report().finished, "{:?}", world.report());
    world.audit();
}

pub(super) fn remove(world: &World, path: &str) {
    world.disk.tamper(|files| files.apply(&FsOp::Remove(path.into())).unwrap());
}

#[test]
fn c_12367_a_torn_record_is_put_aside_and_made_anew_from_the_kernel() {
    let mut world = node();
    let view = world.get(ID);
    world.crash();
    world.disk.tamper(|files| {
        files.write("1/ep_config.json", b"{ torn");
        files.write("1/ep_config.h", b"torn");
    });
    back(&mut world);
    let report = world.report();
    assert_eq!(report.endpoints[&ID].fate, RestoreOutcome::Rebuilt);
    assert!(!report.endpoints[&ID].notes.is_empty());
    assert_eq!(report.quarantined.len(), 1);
    let now = world.get(ID);
    assert_eq!((now.identity, now.spec.addresses), (view.identity, view.spec.addresses));
    assert_eq!(now.spec.container_id, view.spec.container_id);
    assert_eq!(now.identity_labels, view.identity_labels);
    // The next restart finds a whole record.
    world.restart();
    world.advance(Duration::from_secs(60));
    assert_eq!(world.report().endpoints[&ID].fate, RestoreOutcome::Restored);
    assert_eq!(world.delete(EndpointReference::ContainerId(spec(1).container_id)), Some(0));
}

#[test]
fn a_lost_directory_and_a_lost_table_of_identities_change_no_number() {
    for lost in [vec!["1", "3"], vec!["identities.0.json", "identities.1.json"]] {
        let mut world = node();
        let pools = |spec: &EndpointSpec| (spec.ipv4_pool.clone(), spec.ipv6_pool.clone());
        let pool = "default".to_owned();
        let of_plugin = EndpointSpec { ipv4_pool: pool.clone(), ipv6_pool: pool, ..spec(3) };
        world.create(of_plugin).unwrap();
        world.advance(Duration::from_secs(1));
        let view = world.get(ID);
        let third = world.get(EndpointId(3));
        world.crash();
        let paths: Vec<String> = lost.iter().map(|name| (*name).to_owned()).collect();
        for path in paths {
            remove(&world, &path);
            remove(&world, &format!("lib/{path}"));
        }
        back(&mut world);
        let now = world.get(ID);
        assert_eq!((now.identity, &now.spec.addresses), (view.identity, &view.spec.addresses));
        assert_eq!(pools(&world.get(EndpointId(3)).spec), pools(&third.spec));
    }
}

#[test]
fn a_record_without_any_row_in_the_kernel_is_programmed_anew() {
    let mut world = node();
    let view = world.get(ID);
    world.crash();
    world.kernel.tamper(|state| {
        let links = state.rows.links.clone();
        *state = crate::testing::KernelState::default();
        state.rows.links = links;
    });
    back(&mut world);
    assert!(world.all_ready());
    assert_eq!(world.get(ID).identity, view.identity);
}

#[test]
fn antrea_313_rows_of_nobody_go_once_everybody_has_settled_and_not_by_time() {
    let mut world = node();
    world.crash();
    let address = "10.0.0.77".parse().unwrap();
    world.kernel.tamper(|state| {
        let row = LxcRow { endpoint: 77, ifindex: 77, ..LxcRow::default() };
        state.rows.lxc.insert(address, row);
        state.pins.insert(EndpointId(77), 154);
        state.slots.insert(154, Default::default());
    });
    // Nobody gets that number while something of it is left.
    world.wake();
    world.settle();
    let used = EndpointSpec { id: Some(EndpointId(77)), ..spec(3) };
    assert!(world.create(used.clone()).is_err());
    // However long the policy takes to speak: they go when it is proven that nobody claims them.
    world.advance(Duration::from_secs(3600));
    assert!(world.kernel.state().rows.lxc.contains_key(&address) && !world.report().finished);
    world.tell_manifests(&["pods".to_owned()]);
    world.advance(Duration::from_secs(60));
    let state = world.kernel.state();
    assert!(!state.rows.lxc.contains_key(&address));
    assert!(!state.slots.contains_key(&154) && !state.pins.contains_key(&EndpointId(77)));
    let report = world.report();
    assert!(report.finished && report.pruned.len() >= 2, "{report:?}");
    assert!(world.create(used).is_ok());
    world.audit();
}

#[test]
fn c_9599_an_endpoint_without_its_interface_goes_and_its_numbers_are_free_behind_it() {
    let mut world = node();
    world.crash();
    world.kernel.tamper(|state| state.unplug(101));
    world.fate.refuses("PutIpcache");
    world.boot();
    let again = EndpointSpec { id: Some(ID), ..spec(3) };
    assert!(world.create(again.clone()).is_err());
    let addresses = spec(1).addresses;
    assert!(world.create(EndpointSpec { addresses, ..spec(3) }).is_err());
    back_later(&world);
    let report = world.report();
    assert_eq!(report.endpoints[&ID].fate, RestoreOutcome::Failed);
    assert!(!world.disk.files().has("1"));
    let with_its_address = EndpointSpec { addresses: spec(1).addresses, ..again };
    assert!(world.create(with_its_address).is_ok());
    world.audit();
}

fn back_later(world: &World) {
    world.fate.is_kind();
    world.advance(Duration::from_secs(120));
    assert!(world.report().finished, "{:?}", world.report());
}

#[test]
fn an_address_that_two_records_claim_is_the_one_s_that_the_kernel_names() {
    let mut world = node();
    world.crash();
    copy_record(&world, |record| {
        record.id = EndpointId(9);
        record.ifindex = 109;
        record.ifname = spec(9).ifname;
        record.node_mac = spec(9).node_mac;
    });
    back(&mut world);
    let report = world.report();
    assert_eq!(report.endpoints[&EndpointId(9)].fate, RestoreOutcome::Failed);
    assert_eq!(report.endpoints[&ID].fate, RestoreOutcome::Restored);
}

/// Puts a copy of the record of endpoint 1 beside it, changed.
fn copy_record(world: &World, change: impl FnOnce(&mut crate::state_directory::EndpointRecord)) {
    world.disk.tamper(|files| {
        let mut record = crate::state_directory::scan(files).records[0].record.clone();
        change(&mut record);
        for op in crate::state_directory::commit_plan(&record) {
            files.apply(&op).unwrap();
        }
    });
}

#[test]
fn an_interface_that_two_records_claim_is_the_one_s_for_which_more_speaks() {
    for lost in [false, true] {
        let mut world = node();
        world.crash();
        // A lower number decides only if nothing else does.
        copy_record(&world, |record| {
            record.id = EndpointId(9);
            record.ipv4 = "10.0.0.9".parse().ok();
            record.ipv6 = None;
        });
        if lost {
            world.kernel.tamper(|state| {
                let row = state.rows.config.get_mut(&101).unwrap();
                let before = row.policy_slot;
                (row.endpoint, row.policy_slot) = (EndpointId(9), EndpointId(9).slot(0));
                let rows = state.slots[&before].clone();
                state.slots.insert(EndpointId(9).slot(0), rows);
            });
        }
        back(&mut world);
        let report = world.report();
        let (winner, loser) = if lost { (EndpointId(9), ID) } else { (ID, EndpointId(9)) };
        assert_eq!(report.endpoints[&winner].fate, RestoreOutcome::Restored, "{report:?}");
        assert_eq!(report.endpoints[&loser].fate, RestoreOutcome::Failed);
        let error = report.endpoints[&loser].error.clone().unwrap();
        let expected = format!("its interface number 101 belongs to endpoint {winner}, for which");
        assert!(error.starts_with(&expected) && error.contains("volvox_config"), "{error}");
        // The loser's record is evidence.
        assert_eq!(report.quarantined, [format!("{loser}: {error}")]);
        assert!(world.disk.files().has(&format!("quarantine/{loser}.1")));
        assert!(!world.disk.files().has(&loser.to_string()));
    }
}

#[test]
fn an_interface_of_the_same_name_in_another_network_namespace_is_not_taken() {
    let mut world = World::new();
    let spec = EndpointSpec { netns_cookie: 5, ..spec(1) };
    world.create(spec).unwrap();
    world.advance(Duration::from_secs(1));
    for (cookie, fate) in [
        (None, RestoreOutcome::Restored),
        (Some(5), RestoreOutcome::Restored),
        (Some(7), RestoreOutcome::Failed),
    ] {
        world.crash();
        world.kernel.tamper(|state| {
            state.rows.netns_cookies = cookie.map(|cookie| (ID, cookie)).into_iter().collect();
        });
        back(&mut world);
        assert_eq!(world.report().endpoints[&ID].fate, fate, "{cookie:?}");
    }
    let error = world.report().endpoints[&ID].error.clone().unwrap();
    assert!(error.contains("interface lxc0001") && error.contains("cookie is 7, not 5"), "{error}");
}

#[test]
fn a_record_that_names_no_interface_says_so() {
    let mut world = node();
    world.crash();
    copy_record(&world, |record| {
        (record.ifindex, record.ifname) = (0, String::new());
    });
    world.kernel.tamper(|state| {
        state.rows.config.remove(&101);
        state.rows.endpoints.remove(&ID);
    });
    back(&mut world);
    let error = world.report().endpoints[&ID].error.clone().unwrap();
    assert_eq!(error, "its record does not say which interface is its own");
}

#[test]
fn the_ipcache_is_pruned_once_those_that_could_not_be_built_are_built_or_gone() {
    let orphan = "10.0.0.77/32".parse().unwrap();
    let mapped = |world: &World| world.kernel.state().rows.ipcache.contains_key(&orphan);
    for deleted in [false, true] {
        let mut world = node();
        world.crash();
        world.kernel.tamper(|state| {
            state.rows.ipcache.insert(orphan, Default::default());
            // Something must be written, or nothing can fail.
            state.rows.config.clear();
        });
        world.fate.refuses("PutConfig");
        world.boot();
        world.advance(Duration::from_secs(600));
        let report = world.report();
        assert!(report.finished, "{report:?}");
        assert_eq!(report.ipcache_waits_for, [ID, EndpointId(2)].into());
        // It is not forgotten over a crash either.
        let crashed = world.node_supervisor().restore.tell(RestoreMsg::Report(crash()));
        assert!(crashed.is_ok());
        world.advance(Duration::from_secs(60));
        assert!(mapped(&world));
        if deleted {
            for number in [1, 2] {
                let target = EndpointReference::ContainerId(spec(number).container_id);
                assert_eq!(world.delete(target), Some(0));
            }
        } else {
            world.fate.is_kind();
            world.advance(Duration::from_secs(120));
            assert!(world.all_ready());
        }
        world.settle();
        assert!(world.report().ipcache_waits_for.is_empty());
        assert!(!mapped(&world));
        world.fate.is_kind();
        world.audit();
    }
}

#[test]
fn with_restoring_switched_off_nothing_reaches_what_there_is_and_nothing_of_it_is_lost() {
    let mut world = node();
    let mut before = (world.kernel.state(), world.disk.files());
    world.crash();
    world.restores = false;
    world.boot();
    world.advance(Duration::from_secs(600));
    assert_eq!(world.list().len(), 0);
    assert!(!before.0.rows.lxc.is_empty());
    before.0.rows.lxc.clear();
    before.0.rows.routes.clear();
    assert_eq!((world.kernel.state(), world.disk.files()), before);
    // Neither its number nor its addresses are given to anybody.
    let number = EndpointSpec { id: Some(ID), ..spec(3) };
    assert!(world.create(number).is_err());
    let address = EndpointSpec { addresses: spec(1).addresses, ..spec(3) };
    assert!(world.create(address).is_err());
    assert!(world.create(spec(3)).is_ok());
    world.restores = true;
    world.restart();
    world.advance(Duration::from_secs(60));
    assert!(world.all_ready() && world.list().len() == 3);
    world.audit();
}

#[test]
fn labels_that_changed_while_no_agent_lived_are_taken_in() {
    let mut world = node();
    let before = world.get(ID).identity;
    world.crash();
    world.apply("pods", [pod(1, "shop"), pod(2, "db")]);
    back(&mut world);
    let now = world.get(ID);
    assert_ne!(now.identity, before);
    assert_eq!(now.identity_labels.get("app").unwrap().value, "shop");
    assert!(world.all_ready());
}

#[test]
fn options_of_one_endpoint_stay_and_those_of_all_are_the_flags_again() {
    let mut world = node();
    let source_check = "SourceIPVerification";
    let set =
        |world: &World, id, patch| {
            let (target, patch) = (EndpointReference::Id(id), Box::new(patch));
            let patched = world.ask(&world.node_supervisor().endpoints, |reply| {
                EndpointsMsg::Patch { target, patch, reply }
            });
            assert!(patched.is_ok());
        };
    let off = Some([(source_check.to_owned(), 0), ("Debug".to_owned(), 1)].into());
    set(&world, ID, Patch { options: off.clone(), ..Patch::default() });
    set(&world, EndpointId(2), Patch { shared_options: off, ..Patch::default() });
    let shown = |world: &World, id| world.get(id).options.get(source_check).copied();
    assert_eq!((shown(&world, ID), shown(&world, EndpointId(2))), (Some(0), Some(0)));
    world.keeps_options = false;
    for _ in 0..2 {
        world.restart();
        assert_eq!((shown(&world, ID), shown(&world, EndpointId(2))), (Some(0), Some(1)));
        assert_eq!(world.get(ID).options.get("Debug"), Some(&1));
        assert_eq!(world.kernel.state().rows.config[&101].flags, 0);
    }
    // The later word counts, also when it is for all.
    let on = Some([(source_check.to_owned(), 1)].into());
    set(&world, ID, Patch { shared_options: on, ..Patch::default() });
    world.restart();
    assert_eq!(shown(&world, ID), Some(1));
    assert_eq!(world.get(ID).options.get("Debug"), Some(&1));
}

#[test]
fn options_of_one_endpoint_outlive_its_record() {
    let mut world = node();
    let own = [("SourceIPVerification".to_owned(), 0), ("MonitorAggregationLevel".to_owned(), 2)];
    let patch = Patch { options: Some(own.clone().into()), ..Patch::default() };
    let (target, patch) = (EndpointReference::Id(ID), Box::new(patch));
    let patched = world.ask(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Patch {
        target,
        patch,
        reply,
    });
    assert!(patched.is_ok());
    world.advance(Duration::from_secs(1));
    world.keeps_options = false;
    let keeps = |world: &World| {
        own.iter().all(|(name, value)| world.get(ID).options.get(name) == Some(value))
    };
    // The row alone remembers them, and then the record that was made of it; and an older agent's
    // row, which does not hold them, is brought up to date by the record.
    for without in ["record", "nothing", "row"] {
        world.crash();
        match without {
            "record" => remove(&world, "1"),
            "row" => world.kernel.tamper(|state| {
                state.rows.endpoints.get_mut(&ID).unwrap().own_options = 0;
            }),
            _ => {}
        }
        back(&mut world);
        assert!(keeps(&world), "without {without}: {:?}", world.get(ID).options);
        assert_ne!(world.kernel.state().rows.endpoints[&ID].own_options, 0, "without {without}");
    }
    // Without both they are lost, and the report says so.
    world.crash();
    remove(&world, "1");
    world.kernel.tamper(|state| drop(state.rows.endpoints.remove(&ID)));
    back(&mut world);
    let notes = &world.report().endpoints[&ID].notes;
    assert!(
        !keeps(&world) && notes.iter().any(|note| note.contains("endpoint config")),
        "{notes:?}"
    );
}

#[test]
fn a_new_identity_outlives_a_restart_although_its_record_could_not_be_written() {
    let mut world = node();
    world.fate.is(|step| if step == "Exchange" { Turn::Fail } else { Turn::Work });
    world.apply("pods", [pod(1, "db"), pod(2, "db")]);
    let now = world.get(ID).identity;
    assert_eq!(now, world.get(EndpointId(2)).identity);
    assert!(world.kernel.state().rows.endpoints[&ID].unsaved);
    // Nobody says again what its labels are.
    world.crash();
    world.manifests.clear();
    back(&mut world);
    assert_eq!(world.get(ID).identity, now);
    assert!(world.report().endpoints[&ID].notes.iter().any(|note| note.contains("identity")));
    // By now it is written.
    assert!(!world.kernel.state().rows.endpoints[&ID].unsaved);
    let writes = world.kernel.writes().len();
    world.crash();
    back(&mut world);
    assert_eq!((world.get(ID).identity, world.kernel.writes().len()), (now, writes));
}

#[test]
fn as_long_as_something_unseen_is_left_of_an_endpoint_a_restart_finds_it() {
    for refused in ["ClearSlot", "ScrubConntrack"] {
        let mut world = node();
        let slots = [ID.slot(0), ID.slot(1)];
        let left = |world: &World| {
            let state = world.kernel.state();
            let connected = spec(1).addresses.iter().any(|it| state.connections.contains_key(&it));
            connected || slots.iter().any(|slot| state.slots.contains_key(slot))
        };
        world.crash();
        world.kernel.tamper(|state| {
            state.unplug(101);
            state.connections.extend(spec(1).addresses.iter().map(|own| (own, 1)));
        });
        world.fate.refuses(refused);
        world.boot();
        world.advance(Duration::from_secs(1));
        assert!(left(&world) && world.report().finished, "{refused}");
        world.restart();
        assert!(!left(&world), "{refused}");
        world.advance(Duration::from_secs(120));
        assert!(!world.disk.files().has("1"), "{refused}");
        assert!(!world.kernel.state().rows.endpoints.contains_key(&ID), "{refused}");
        world.audit();
    }
}

#[test]
fn pods_that_no_manifest_describes_any_more_keep_what_they_had() {
    let mut world = node();
    let before = (world.get(ID).identity, world.kernel.writes().len());
    world.crash();
    world.manifests.clear();
    back(&mut world);
    assert_eq!((world.get(ID).identity, world.kernel.writes().len()), before);
}

#[test]
fn a_prefix_that_is_new_after_a_restart_never_meets_a_third_verdict() {
    let mut world = node();
    world.crash();
    let cidr = serde_json::json!({ "fromCIDR": ["192.0.2.0/24"] });
    world.apply("policy", [crate::testing::allow_from("web", cidr)]);
    world.start();
    let prefix = "192.0.2.0/24".parse().unwrap();
    world.kernel.watch(move |state, op| {
        if let KernelOp::PutIpcache(rows) = op
            && let Some((_, row)) = rows.iter().find(|(other, _)| *other == prefix)
        {
            assert_ne!(row.identity, IdentityId::WORLD_IPV4);
            // The policy that an earlier run left allows it, and so do the new rules.
            let policy = state.policy_of(101).unwrap();
            assert!(lookup(policy, Direction::Ingress, row.identity, 6, 80).passes());
        }
    });
    world.settle();
    world.advance(Duration::from_secs(60));
    assert!(world.kernel.state().rows.ipcache.contains_key(&prefix));
    assert!(world.report().finished);
    world.audit();
}
