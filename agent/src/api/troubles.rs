//! What is not as it should be, of all that the parts of the agent say.

mod definitions;
mod drift;

use std::time::Duration;

use volvox_actors::{
    cluster::{
        api_server::{SourceState, SourceStatus},
        publish::Unpublished,
        remote_nodes::RemoteNodesView,
    },
    endpoints::endpoint::EndpointView,
    host::{CellInfo, Host, Time, WaitCycle, Waits},
    node::{auditor::AuditView, local_node::NodeStatus, routes::RoutesView},
    policy::{ipcache::IpcacheView, rules::RefusedPolicy},
    restore::RestoreReport,
};

use super::{Api, devices, mesh, services, services_by, sharing::Sharing, sources, views::Views};
use crate::{wait_cycles, watchdog};

/// What names begin with that are about sources of a cluster.
pub(super) const SOURCE: &str = "cluster-";
/// Of so many refused policies each is named.
const REFUSED_NAMED: usize = 16;
/// How long a refused message is held against a mailbox.
const REFUSAL_MEMORY: Duration = Duration::from_secs(60);
/// Actors may ask each other for a moment; who does so longer waits in a ring.
const CYCLE_AGE: Duration = Duration::from_millis(500);

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// Its name, as one of Cilium's controllers where it has one.
    pub(super) name: String,
    /// How often in a row.
    pub(super) failures: u64,
    /// What it is, and what to do.
    pub(super) text: String,
}

impl Trouble {
    pub(super) fn new(name: impl Into<String>, failures: u64, text: impl Into<String>) -> Self {
        Self { name: name.into(), failures, text: text.into() }
    }
}

/// A handler that does not return. Whoever asks an actor meanwhile waits too.
pub(super) fn stuck(api: &Api) -> Option<Trouble> {
    let (handling, since) = watchdog::stuck(&api.beat)?;
    let text = format!(
        "actor {} has handled message {:?} for {} s and every actor waits for it: if that stays \
         so, restart the agent and report its log",
        handling.actor,
        handling.message,
        since.as_secs()
    );
    Some(Trouble::new("actors", 1, text))
}

/// All else that is known to be wrong.
pub(super) fn all(api: &Api, views: &Views) -> Vec<Trouble> {
    let failing = views.endpoints.iter().filter(|view| view.failing || view.lost.is_some());
    let failing = failing.map(|view| endpoint(view));
    let listed = views.listed.iter().flatten().filter_map(|status| source(status, views.now));
    let unpublished = views.unpublished.iter().flatten().map(unpublished);
    let sources = listed.chain(sources::troubles(&views.sources)).chain(unpublished);
    let awaited = api.opening.awaited().map(|text| Trouble::new("node-information", 1, text));
    let own = api.disk.now().map(disk).into_iter().chain(awaited);
    let parts = own.chain(views.host.iter().cloned()).chain(sources).chain(failing);
    let sharing = views.sharing.iter().flat_map(Sharing::troubles);
    let alone = views.nodes.as_ref().filter(|_| views.sharing.is_none()).and_then(of_own_numbers);
    let shared = sharing.chain(alone).chain(views.nodes.iter().flat_map(of_nodes));
    let plain = views.nodes.as_ref().zip(views.listed.as_ref());
    let plain = plain.and_then(|(nodes, listed)| definitions::plain_nodes(nodes, listed));
    let brought = views.definitions.iter().flat_map(|all| definitions::troubles(all));
    let shared = shared.chain(plain).chain(brought);
    let shared = shared.chain(views.mesh.iter().flatten().filter_map(mesh::trouble));
    let shared = shared.chain(services::troubles(&views.services));
    let shared = shared.chain(services_by::trouble(&api.facts, &views.services, &views.kube_proxy));
    let shared = shared.chain(devices::troubles(&views.devices)).chain(of_routes(&views.routes));
    let shared = shared.chain(of_rows(&views.ipcache)).chain(of_node(&views.node));
    let shared = shared.chain(of_policies(&views.refused));
    let shared = shared.chain(drift::troubles(&views.audit, views.now));
    let parts = parts.chain(ipcache(&views.restore)).chain(another_node(&views.restore));
    let parts = parts.chain(left_alone(&views.restore));
    let parts = parts.chain(invariants(&views.audit));
    parts.chain(shared).collect()
}

fn disk(error: volvox_actors::ports::DiskError) -> Trouble {
    Trouble::new("state-directory", 1, format!("the last write failed: {error}"))
}

/// A source that is not synced, or does not follow the cluster any more.
fn source(status: &SourceStatus, now: Time) -> Option<Trouble> {
    let name = status.name;
    let since = now.since(status.since).as_secs();
    let (failures, what) = match &status.state {
        SourceState::Listing => (0, format!("are being listed since {since} s")),
        SourceState::Broken { error, tries } => {
            (u64::from(*tries), format!("are not followed since {since} s: {error}"))
        }
        SourceState::Undefined if status.feed.needs_definition() => {
            (0, format!("are not defined since {since} s: {}", definitions::REMEDY))
        }
        SourceState::Synced(_) | SourceState::Undefined => return None,
    };
    let retained = match status.synced {
        true => "what they said before stays",
        false => status.feed.waiting(),
    };
    Some(Trouble::new(format!("{SOURCE}{name}"), failures, format!("{name} {what}; {retained}")))
}

/// Something that this node does not say of itself in the cluster.
fn unpublished(unpublished: &Unpublished) -> Trouble {
    let Unpublished { what, tries, why } = unpublished;
    let text = match tries {
        0 => format!("{what}: {why}"),
        tries => {
            format!("{what} is not as it should be in the cluster: {why}; tried {tries} times")
        }
    };
    Trouble::new(format!("publish {what}"), (*tries).into(), text)
}

/// Policies that are refused: whom they select is open, or held to an older one. Of many the first
/// ones are named.
fn of_policies(refused: &[RefusedPolicy]) -> impl Iterator<Item = Trouble> {
    let named =
        refused.iter().take(REFUSED_NAMED).map(|RefusedPolicy { error, earlier_in_force }| {
            let name = error.object.as_deref().unwrap_or(&error.file);
            let what = match earlier_in_force {
                true => "its newest version is refused, the one before stays in force",
                false => "it is refused, and nothing of it is in force",
            };
            Trouble::new(format!("policy {name}"), 1, format!("policy: {what}: {error}"))
        });
    let more = refused.len().checked_sub(REFUSED_NAMED).filter(|more| *more > 0).map(|more| {
        let text = format!("{more} more policies are refused: `volvox policy status` names them");
        Trouble::new("policies", more as u64, text)
    });
    named.chain(more)
}

/// Nodes that are not told apart.
fn of_nodes(view: &RemoteNodesView) -> impl Iterator<Item = Trouble> + use<> {
    let usurped = view.usurped.then(|| {
        let text = "another node has this node's name in the kvstore: give it another one";
        Trouble::new("node-name", 1, text.to_owned())
    });
    let contested = view.contested.iter().map(|(prefix, nodes)| {
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let text = format!(
            "nodes {} all say that they have {}: it stays a node's until none does; give them \
             addresses of their own",
            nodes.join(" and "),
            prefix.addr()
        );
        Trouble::new(format!("node-address-{}", prefix.addr()), 1, text)
    });
    usurped.into_iter().chain(contested.collect::<Vec<_>>())
}

/// Other nodes of a cluster whose nodes each number identities for themselves.
fn of_own_numbers(view: &RemoteNodesView) -> Option<Trouble> {
    let text = format!(
        "identities are numbers of this node alone, and other nodes are known ({}): rules that \
         select pods mean none of theirs; have all nodes share identities by \
         --identity-allocation-mode=crd or --kvstore=etcd",
        view.known
    );
    (view.known > 0).then(|| Trouble::new("identities", 1, text))
}

/// What is in the way to other nodes.
fn of_routes(view: &RoutesView) -> impl Iterator<Item = Trouble> + use<> {
    let RoutesView { troubles, last_error, .. } = view;
    let named = |(what, why): (&String, &String)| {
        Trouble::new(format!("route-{what}"), 1, format!("{what}: {why}"))
    };
    let all: Vec<_> = troubles.iter().map(named).collect();
    // What failed is among them where it is about one of them.
    let other = last_error.iter().filter(|error| !troubles.values().any(|why| why == *error));
    let other: Vec<_> = other.map(|error| Trouble::new("routes", 1, error.clone())).collect();
    all.into_iter().chain(other)
}

/// Rows of the ipcache that cannot be written.
fn of_rows(view: &IpcacheView) -> Option<Trouble> {
    let error = view.last_error.as_ref()?;
    let text = format!(
        "{} rows of the ipcache differ from what is known of their addresses: {error}; tried again",
        view.open
    );
    Some(Trouble::new("ipcache", view.failures.into(), text))
}

/// The node's own addresses that are not taken in.
fn of_node(status: &NodeStatus) -> impl Iterator<Item = Trouble> {
    let failed = status
        .last_error
        .as_ref()
        .map(|error| format!("the node's own addresses are not taken in: {error}; tried again"));
    let texts = failed.into_iter().chain(status.facts.trouble.clone());
    texts.map(|text| Trouble::new("node", 1, text))
}

pub(super) fn of_host(host: &Host) -> Vec<Trouble> {
    let (cells, now) = (host.cells(), host.now());
    let cycle = host.with_waits(Waits::cycle).filter(|cycle| is_lasting(cycle, now));
    let cycle = cycle.map(|cycle| ring(&wait_cycles::words(host, &cycle), &cycle, now));
    cells.iter().flat_map(|cell| of_cell(cell, now)).chain(cycle).collect()
}

fn of_cell(cell: &CellInfo, now: Time) -> impl Iterator<Item = Trouble> {
    let refused = cell.last_refused.filter(|at| now.since(*at) < REFUSAL_MEMORY).map(|at| {
        let text = format!(
            "the mailbox of actor {} was full {} s ago ({} messages wait, {} were refused so far): \
             `volvox why` says what it waits for",
            cell.name,
            now.since(at).as_secs(),
            cell.waiting,
            cell.refused
        );
        Trouble::new(format!("mailbox {}", cell.name), cell.refused, text)
    });
    let crashing = cell.crash_looping.then(|| {
        let text = format!(
            "actor {} crashed {} times and rests: {}; report it with the agent's log",
            cell.name,
            cell.crashes,
            cell.last_crash.as_deref().unwrap_or_default()
        );
        Trouble::new(format!("actor {}", cell.name), cell.crashes.into(), text)
    });
    refused.into_iter().chain(crashing)
}

/// Whether actors have waited for each other for a while.
fn is_lasting(cycle: &WaitCycle, now: Time) -> bool {
    cycle.0.iter().all(|wait| now.since(wait.since) >= CYCLE_AGE)
}

fn ring(words: &str, cycle: &WaitCycle, now: Time) -> Trouble {
    let left = cycle.0.iter().map(|wait| wait.until.since(now)).min().unwrap_or_default();
    let text = format!(
        "actors wait for each other, until one gives up in {} s: {words}; report it",
        left.as_secs()
    );
    Trouble::new("waits", 1, text)
}

fn endpoint(view: &EndpointView) -> Trouble {
    if let Some(lost) = &view.lost {
        let text = format!("endpoint {} is not served: {}", view.id, lost.why);
        return Trouble::new(format!("endpoint-{}-datapath", view.id), 1, text);
    }
    let error = view.last_error.as_deref().unwrap_or("its last build failed");
    let serves = if view.short { "" } else { "; what it had before serves on" };
    let text = format!("endpoint {}: {error}{serves}", view.id);
    let name = format!("endpoint-{}-regeneration-recovery", view.id);
    Trouble::new(name, view.counts.failures_in_a_row.into(), text)
}

fn ipcache(report: &RestoreReport) -> Option<Trouble> {
    if report.ipcache_waits_for.is_empty() {
        return None;
    }
    let ids: Vec<String> = report.ipcache_waits_for.iter().map(ToString::to_string).collect();
    let text = format!(
        "rows of the ipcache that nobody claims stay until these endpoints are built or deleted: {}",
        ids.join(", ")
    );
    Some(Trouble::new("ipcache-prune", 1, text))
}

fn another_node(report: &RestoreReport) -> Option<Trouble> {
    let node = report.of_another.as_ref()?;
    let text = format!(
        "the state directory that was found is of node {node}: its records are in quarantine, and \
         nothing of it is used; see that each node has a directory of its own"
    );
    Some(Trouble::new("state-directory", 1, text))
}

fn left_alone(report: &RestoreReport) -> Option<Trouble> {
    let left = report.left;
    let text = format!(
        "{left} endpoints of the life before were left alone (--restore=false): nothing reaches them from \
         this node; start with --restore=true to have them back, or delete their pods"
    );
    (left > 0).then(|| Trouble::new("restore", left as u64, text))
}

fn invariants(audit: &AuditView) -> impl Iterator<Item = Trouble> {
    audit.broken.iter().map(|(invariant, found)| {
        let text = format!(
            "invariant {invariant} does not hold: {}; report it with the agent's log",
            found.join("; ")
        );
        Trouble::new(format!("invariant {invariant}"), found.len() as u64, text)
    })
}

#[cfg(test)]
mod tests {
    use volvox_actors::{
        host::{CellId, Wait, WaitId, Whom},
        policy::rules::PolicyError,
    };

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    fn cell(id: u32, name: &str) -> CellInfo {
        CellInfo {
            id: CellId(id),
            name: name.to_owned(),
            parent: None,
            waiting: 25,
            handled: 0,
            refused: 3,
            last_refused: None,
            waited: Duration::ZERO,
            busy: Duration::ZERO,
            crashes: 5,
            last_crash: Some("broken".to_owned()),
            crash_looping: false,
        }
    }

    fn texts(cell: &CellInfo, now: Time) -> Vec<String> {
        of_cell(cell, now).map(|trouble| trouble.text).collect()
    }

    #[test]
    fn a_mailbox_that_refuses_and_an_actor_that_crashes_again_and_again_are_named() {
        let refusing = CellInfo { last_refused: Some(at(100)), ..cell(1, "endpoint 7") };
        let said = texts(&refusing, at(130));
        assert!(
            said[0].starts_with("the mailbox of actor endpoint 7 was full 30 s ago"),
            "{said:?}"
        );
        assert_eq!(texts(&refusing, at(161)), [""; 0], "long ago");
        let crashing = CellInfo { crash_looping: true, ..cell(1, "ipam") };
        let said = texts(&crashing, at(1));
        assert!(said[0].starts_with("actor ipam crashed 5 times and rests: broken"), "{said:?}");
        assert_eq!(texts(&cell(1, "ipam"), at(1)), [""; 0]);
    }

    #[test]
    fn nodes_that_are_not_told_apart_are_named() {
        let names = ["default/a", "default/b"].map(str::to_owned).into();
        let view = RemoteNodesView {
            usurped: true,
            contested: [("192.0.2.7/32".parse().unwrap(), names)].into(),
            ..RemoteNodesView::default()
        };
        let said: Vec<_> = of_nodes(&view).map(|trouble| trouble.text).collect();
        assert!(said[0].starts_with("another node has this node's name"), "{said:?}");
        let words = "nodes default/a and default/b all say that they have 192.0.2.7: ";
        assert!(said[1].starts_with(words), "{said:?}");
        assert_eq!(of_nodes(&RemoteNodesView::default()).count(), 0);
    }

    #[test]
    fn identities_that_nobody_shares_are_named_once_there_is_another_node() {
        assert_eq!(of_own_numbers(&RemoteNodesView::default()), None);
        let text = of_own_numbers(&RemoteNodesView { known: 2, ..RemoteNodesView::default() })
            .unwrap()
            .text;
        assert!(text.starts_with("identities are numbers of this node alone"), "{text}");
        assert!(text.contains("are known (2)") && text.contains("=crd"), "{text}");
    }

    #[test]
    fn policies_that_are_refused_are_named_the_first_ones_each() {
        let refused = |number: usize| RefusedPolicy {
            error: PolicyError {
                file: "web.yaml".to_owned(),
                object: Some(format!("CiliumNetworkPolicy ns/{number}")),
                path: "spec".to_owned(),
                problem: "rubbish".to_owned(),
                remedy: "correct it".to_owned(),
            },
            earlier_in_force: number == 0,
        };
        let all: Vec<_> = (0..REFUSED_NAMED + 3).map(refused).collect();
        let said: Vec<_> = of_policies(&all).map(|trouble| trouble.text).collect();
        assert!(
            said[0].contains("the one before stays in force: web.yaml: CiliumNetworkPolicy ns/0")
        );
        assert!(said[1].contains("nothing of it is in force: web.yaml: CiliumNetworkPolicy ns/1"));
        assert!(said[REFUSED_NAMED].starts_with("3 more policies are refused"), "{said:?}");
        assert_eq!(said.len(), REFUSED_NAMED + 1);
        assert_eq!(of_policies(&all[..1]).count(), 1);
    }

    #[test]
    fn what_is_in_the_way_to_other_nodes_is_named_once() {
        let view = |error: &str| RoutesView {
            mode: volvox_actors::node::routes::RoutingMode::Tunnel { port: 8472 },
            nodes: 1,
            synced: true,
            routes: 0,
            tunnel: 0,
            troubles: [("10.2.0.0/24".to_owned(), "File exists".to_owned())].into(),
            skipped: Default::default(),
            last_error: Some(error.to_owned()),
        };
        let said = |view: &RoutesView| {
            of_routes(view).map(|trouble| trouble.text).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(said(&view("File exists")), "10.2.0.0/24: File exists");
        assert_eq!(said(&view("no memory")), "10.2.0.0/24: File exists; no memory");
    }

    #[test]
    fn rows_that_cannot_be_written_and_addresses_that_are_not_taken_in_are_named() {
        let error = Some("no room".to_owned());
        let view = IpcacheView { rows: 7, open: 2, failures: 3, last_error: error.clone() };
        let Trouble { name, failures, text } = of_rows(&view).unwrap();
        assert_eq!((name.as_str(), failures), ("ipcache", 3));
        assert!(text.starts_with("2 rows of the ipcache differ"), "{text}");
        assert!(text.contains("no room"), "{text}");
        assert_eq!(of_rows(&IpcacheView { last_error: None, ..view }), None);
        let status = NodeStatus { last_error: error, ..NodeStatus::default() };
        assert!(of_node(&status).next().unwrap().text.contains("not taken in: no room"));
        assert_eq!(of_node(&NodeStatus::default()).count(), 0);
    }

    #[test]
    fn a_ring_of_waits_is_named_once_it_is_older_than_a_moment() {
        let wait = |who, whom, why: &str| Wait {
            id: WaitId(1),
            who: Some(CellId(who)),
            whom: Whom::Cell(CellId(whom)),
            why: why.to_owned().into(),
            since: at(10),
            until: at(70),
        };
        let cycle = WaitCycle(vec![wait(1, 2, "an address"), wait(2, 1, "an endpoint")]);
        assert!(!is_lasting(&cycle, at(10)) && is_lasting(&cycle, at(11)));
        let text = ring("endpoints for ipam: an address, …", &cycle, at(12)).text;
        let expected = "actors wait for each other, until one gives up in 58 s: endpoints for ipam: \
                      an address, …; report it";
        assert_eq!(text, expected);
    }
}
