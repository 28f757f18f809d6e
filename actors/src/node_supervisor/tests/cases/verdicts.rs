//! Tests: no packet meets a third verdict during a restart, and programs stay attached.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use serde_json::{Value, json};

use crate::{
    model::{Direction, IdentityId},
    node_supervisor::tests::dice::Dice,
    policy::rules::lookup,
    ports::{FsOp, HookState},
    testing::{KernelState, World, pod, spec},
};

const PODS: [(u8, &str); 5] = [(1, "web"), (2, "db"), (3, "mail"), (4, "web"), (5, "db")];
const OUTSIDE: [&str; 3] = ["192.0.2.7", "198.51.100.7", "203.0.113.7"];

/// A way for packets that is open: the pod, seen from it, the other side, the port.
type Way = (u8, Direction, IpAddr, u16);

/// What the kernel says of an address: the longest prefix of the ipcache.
fn identity_of(state: &KernelState, address: IpAddr) -> IdentityId {
    let holding = state.rows.ipcache.iter().filter(|(net, _)| net.contains(&address));
    let longest = holding.max_by_key(|(net, _)| net.prefix_len());
    longest.map_or(IdentityId::WORLD_IPV4, |(_, row)| row.identity)
}

/// Every way that is open by what the kernel holds.
fn open(state: &KernelState) -> BTreeSet<Way> {
    let outside = OUTSIDE.iter().map(|text| text.parse().unwrap());
    let pods = PODS.iter().map(|(number, _)| spec(*number).addresses.iter().next().unwrap());
    let others: Vec<IpAddr> = pods.chain(outside).collect();
    let mut open = BTreeSet::new();
    for (number, _) in PODS {
        let Some(rows) = state.policy_of(100 + u32::from(number)) else { continue };
        for &other in &others {
            let peer = identity_of(state, other);
            for way in [Direction::Ingress, Direction::Egress] {
                for port in [80, 443] {
                    if lookup(rows, way, peer, 6, port).passes() {
                        open.insert((number, way, other, port));
                    }
                }
            }
        }
    }
    open
}

fn policy(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["endpointSelector"] = json!({ "matchLabels": { "app": name } });
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "name": name, "namespace": "ns" }, "spec": spec,
    })
}

/// `web` gets packets of `db`, of `mail` and of one API server outside, and may reach that server.
fn policies(web_from: &[&str]) -> Vec<Value> {
    let app = |app: &&str| json!({ "matchLabels": { "app": app } });
    let from = web_from.iter().map(app).collect::<Vec<_>>();
    let port = json!([{ "ports": [{ "port": "80", "protocol": "TCP" }] }]);
    let server = json!(["192.0.2.0/24"]);
    vec![
        policy(
            "web",
            json!({
                "ingress": [{ "fromEndpoints": from, "toPorts": port }, { "fromCIDR": server }],
                "egress": [{ "toCIDR": server }],
            }),
        ),
        policy("db", json!({ "ingress": [{ "fromEndpoints": [app(&"web")] }] })),
    ]
}

fn pods(apps: [(u8, &str); 5]) -> Vec<Value> {
    apps.into_iter().map(|(number, app)| pod(number, app)).collect()
}

fn node() -> World {
    let mut world = World::new();
    world.apply("pods", pods(PODS));
    world.apply("policy", policies(&["db", "mail"]));
    for (number, _) in PODS {
        world.create(spec(number)).unwrap();
    }
    world.advance(Duration::from_secs(1));
    world
}

/// Does what there is to do in the order of the dice.
fn settle_in_any_order(world: &World, dice: &mut Dice) {
    loop {
        let runnable = world.life().universe.runnable().len();
        let jobs = world.kernel.jobs();
        let disk = usize::from(world.disk.jobs() > 0);
        if runnable + jobs + disk == 0 {
            return;
        }
        let chosen = dice.roll(runnable + jobs + disk);
        if chosen < runnable {
            world.life().universe.step(chosen);
        } else if chosen < runnable + jobs {
            world.kernel.step(chosen - runnable);
        } else {
            world.disk.step();
        }
    }
}

/// Has every write of the kernel from now on checked: what is open in all of these stays open, what
/// is open in none stays shut.
fn watch(world: &World, models: [BTreeSet<Way>; 2]) {
    let [old, new] = models;
    world.kernel.watch(move |state, op| {
        let now = open(state);
        let shut = old.intersection(&new).find(|way| !now.contains(*way));
        assert_eq!(shut, None, "shut by {op:?}");
        let opened = now.iter().find(|way| !old.contains(*way) && !new.contains(*way));
        assert_eq!(opened, None, "opened by {op:?}");
    });
}

/// What changed while no agent lived.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meanwhile {
    Nothing,
    Labels,
    Policy,
    RowsLost,
}

impl Meanwhile {
    const ALL: [Self; 4] = [Self::Nothing, Self::Labels, Self::Policy, Self::RowsLost];

    fn happen(self, world: &mut World) {
        match self {
            Self::Nothing => {}
            Self::Labels => {
                let apps = [(1, "web"), (2, "mail"), (3, "db"), (4, "web"), (5, "db")];
                world.manifests.insert("pods".into(), pods(apps));
            }
            Self::Policy => {
                world.manifests.insert("policy".into(), policies(&["mail"]));
            }
            Self::RowsLost => world.kernel.tamper(|state| {
                state.rows.lxc.clear();
                state.rows.routes.clear();
                state.pins.clear();
            }),
        }
    }
}

/// c 7120: the first endpoint that came back rewrote what others' policies rest on.
#[test]
fn c_7120_the_order_of_restore_makes_no_third_verdict() {
    for meanwhile in Meanwhile::ALL {
        let after = {
            let mut world = node();
            world.crash();
            meanwhile.happen(&mut world);
            world.boot();
            world.advance(Duration::from_secs(60));
            open(&world.kernel.state())
        };
        for seed in 0..12 {
            let mut world = node();
            let before = open(&world.kernel.state());
            assert!(!before.is_empty());
            world.crash();
            meanwhile.happen(&mut world);
            world.start();
            watch(&world, [before.clone(), after.clone()]);
            settle_in_any_order(&world, &mut Dice(seed));
            world.advance(Duration::from_secs(60));
            assert!(world.all_ready() && world.report().finished, "{meanwhile:?} {seed}");
            assert_eq!(open(&world.kernel.state()), after, "{meanwhile:?} {seed}");
            if meanwhile == Meanwhile::Policy {
                assert_ne!(before, after);
            } else {
                // A pod with other labels may do other things; the rest stays as it was.
                let moved = |way: &&Way| ![2, 3].contains(&way.0);
                assert!(before.iter().filter(moved).eq(after.iter().filter(moved)));
            }
            world.audit();
        }
    }
}

/// c 28645: an API server outside was denied while endpoints regenerated after a restart.
#[test]
fn c_28645_what_was_allowed_is_never_denied_by_a_restart() {
    for lost in ["nothing", "records", "identities", "programs"] {
        let mut world = node();
        let before = open(&world.kernel.state());
        let server: IpAddr = OUTSIDE[0].parse().unwrap();
        assert!(before.contains(&(1, Direction::Egress, server, 443)));
        world.crash();
        let remove = |path: String| {
            world.disk.tamper(|files| files.apply(&FsOp::Remove(path.into())).unwrap());
        };
        match lost {
            "records" => PODS.iter().for_each(|(number, _)| remove(number.to_string())),
            "identities" => ["lib/identities.0.json", "lib/identities.1.json"]
                .map(String::from)
                .into_iter()
                .filter(|path| world.disk.files().has(path))
                .for_each(remove),
            "programs" => world.kernel.tamper(|state| {
                for at in state.rows.attachments.values_mut() {
                    at.from_container = HookState::Stale;
                }
            }),
            _ => {}
        }
        world.start();
        watch(&world, [before.clone(), before.clone()]);
        world.settle();
        world.advance(Duration::from_secs(60));
        assert!(world.all_ready() && world.report().finished, "{lost}");
        assert_eq!(open(&world.kernel.state()), before, "{lost}");
        world.audit();
    }
}

/// c 24191: a restart stripped all pods of their programs until each was built.
#[test]
fn c_24191_the_count_of_attached_programs_never_dips() {
    let attached = |state: &KernelState| {
        let all = state.rows.attachments.values();
        let hooks = all.flat_map(|at| [at.from_container, at.to_container]);
        hooks.filter(|hook| *hook != HookState::Empty).count()
    };
    for left in [HookState::Link, HookState::Filter, HookState::Stale] {
        for seed in 0..5 {
            let mut world = node();
            world.crash();
            world.kernel.tamper(|state| {
                for at in state.rows.attachments.values_mut() {
                    (at.from_container, at.to_container) = (left, left);
                }
            });
            let before = attached(&world.kernel.state());
            assert_eq!(before, 2 * PODS.len());
            world.start();
            world.kernel.watch(move |state, op| assert!(attached(state) >= before, "{op:?}"));
            settle_in_any_order(&world, &mut Dice(seed));
            world.advance(Duration::from_secs(60));
            assert!(world.all_ready());
            let state = world.kernel.state();
            let hooks = state.rows.attachments.values();
            assert!(
                hooks
                    .flat_map(|at| [at.from_container, at.to_container])
                    .all(|hook| hook == HookState::Link)
            );
            world.audit();
        }
    }
}
