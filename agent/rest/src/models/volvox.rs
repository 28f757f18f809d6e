//! Shapes of the answers below `/volvox` about actors, waits, repairs, garbage collection,
//! addresses and the flight recorder.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use volvox_actors::{
    endpoints::ipam::AddressLease,
    host::{CellId, CellInfo, Time, Wait, Whom},
    model::drift::Drift,
    node::conntrack::ConntrackStatus,
};

use super::Endpoint;

/// An actor, and how it does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Actor {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Number of the actor that spawned it.
    pub parent: Option<u32>,
    /// Messages that wait in its mailbox.
    pub waiting: usize,
    /// Messages it handled.
    pub handled: u64,
    /// Messages its mailbox refused.
    pub refused: u64,
    /// Time that messages spent in its mailbox, seconds.
    pub waited_seconds: f64,
    /// Time it spent in handlers, seconds.
    pub busy_seconds: f64,
    /// How often it crashed.
    pub crashes: u32,
    /// What the last crash said.
    pub last_crash: Option<String>,
}

/// An endpoint that was built again, and what was put right on the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Regenerated {
    /// The endpoint.
    #[serde(flatten)]
    pub endpoint: Endpoint,
    /// Rows that somebody else had changed, by map: the endpoint's, and those around it.
    #[serde(default)]
    pub repaired: Vec<Repaired>,
}

/// Rows of a map that somebody else had changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Repaired {
    /// The map.
    pub map: String,
    /// How many were missing.
    pub missing: u64,
    /// How many had another value.
    pub changed: u64,
    /// How many nobody had written.
    pub foreign: u64,
    /// The same in words, with examples.
    pub text: String,
}

impl From<&Drift> for Repaired {
    fn from(drift: &Drift) -> Self {
        Self {
            map: drift.map.to_owned(),
            missing: drift.missing,
            changed: drift.changed,
            foreign: drift.foreign,
            text: drift.to_string(),
        }
    }
}

/// Somebody who waits for somebody.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct WaitEntry {
    /// Who waits; `outside` is a client.
    pub who: String,
    /// For whom: an actor, or a port as `port kernel`.
    pub whom: String,
    /// What it is about.
    pub why: String,
    /// For how long already, seconds.
    pub since_seconds: f64,
    /// For how long at most from now, seconds.
    pub left_seconds: f64,
}

/// All waits, and whether some of them wait for each other in a ring.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitList {
    /// The waits, oldest first.
    pub waits: Vec<WaitEntry>,
    /// The ring, if there is one.
    pub cycle: Vec<WaitEntry>,
    /// Whom pruning waits for that has no deadline.
    pub pruning: Vec<PruningWait>,
    /// What the waits come down to.
    pub causes: Vec<RootCause>,
    /// Nodes that cannot be reached, and how.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<String>,
}

/// What waits come down to, and who waits because of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct RootCause {
    /// For whom all wait in the end.
    pub whom: String,
    /// What failed, if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it is about, if nothing failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// For how long already, seconds.
    pub since_seconds: f64,
    /// How many waits these are.
    pub waits: usize,
    /// Sources that fail by it.
    pub sources: BTreeSet<String>,
    /// Endpoints that go on with the policy that they have.
    pub keeping: BTreeSet<String>,
    /// Endpoints that wait otherwise.
    pub endpoints: BTreeSet<String>,
    /// New pods that wait.
    pub pods: usize,
    /// Other actors that wait, and `outside`.
    pub others: BTreeSet<String>,
}

/// Something of an earlier run that stays until somebody has said all that it knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PruningWait {
    /// What stays.
    pub what: String,
    /// Who has not said all yet.
    pub whom: String,
}

/// Why an endpoint is not further than it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Why {
    /// The endpoint's number.
    pub id: u16,
    /// Its state.
    pub state: String,
    /// For how long already, seconds.
    pub since_seconds: f64,
    /// Why its last build failed, if it did.
    pub last_error: Option<String>,
    /// What keeps the kernel from serving it, by what was just seen.
    pub not_served: Option<String>,
    /// What keeps policies from being, for it, what their authors wrote: refused ones that may mean
    /// it, and parts that are not supported.
    pub policies: Vec<String>,
    /// That its identity is of an earlier numbering, and until when.
    pub numbering: Option<String>,
    /// What it waits for, and what those wait for, nearest first.
    pub chain: Vec<WaitEntry>,
    /// What that comes down to.
    pub causes: Vec<RootCause>,
    /// Where it waits for a permit to build: who has one, longest first.
    pub building: Vec<String>,
    /// What those wait for.
    pub building_waits: Vec<WaitEntry>,
    /// Actors that wait for each other in a ring, if there are such.
    pub cycle: Vec<WaitEntry>,
}

/// How collecting dead connections goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Collecting {
    /// Time between two rounds, as it is now, seconds.
    pub interval_seconds: f64,
    /// Rounds so far.
    pub rounds: u64,
    /// Rounds that were begun because a table was full.
    pub rounds_by_signal: u64,
    /// Connections looked at in the last round.
    pub seen: u64,
    /// Connections removed in the last round.
    pub deleted: u64,
    /// Connections removed in all rounds.
    pub deleted_total: u64,
    /// Translations of addresses looked at in the last round.
    pub translations_seen: u64,
    /// Translations removed in the last round: they had no connection.
    pub translations_deleted: u64,
    /// Translations removed in all rounds.
    pub translations_deleted_total: u64,
    /// Why the last round failed.
    pub last_error: Option<String>,
}

impl From<ConntrackStatus> for Collecting {
    fn from(status: ConntrackStatus) -> Self {
        Self {
            interval_seconds: status.interval.as_secs_f64(),
            rounds: status.rounds,
            rounds_by_signal: status.rounds_by_signal,
            seen: status.connections.seen,
            deleted: status.connections.deleted,
            deleted_total: status.deleted_total,
            translations_seen: status.translations.seen,
            translations_deleted: status.translations.deleted,
            translations_deleted_total: status.translations_deleted_total,
            last_error: status.last_error,
        }
    }
}

/// An address that is handed out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct IpamLease {
    /// The address.
    pub address: String,
    /// Who has it.
    pub owner: String,
    /// Pool that it comes from.
    pub pool: String,
    /// Given back in so many seconds unless an endpoint claims it.
    pub expires_seconds: Option<f64>,
}

/// Where what the actors do is recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Recorder {
    /// The file; without one it is in memory only, or switched off.
    pub file: Option<String>,
    /// Records of this life.
    pub records: u64,
    /// Why there is no file, or not the one of the run before.
    pub troubles: Vec<String>,
}

impl From<&CellInfo> for Actor {
    fn from(cell: &CellInfo) -> Self {
        Self {
            id: cell.id.0,
            name: cell.name.clone(),
            parent: cell.parent.map(|parent| parent.0),
            waiting: cell.waiting,
            handled: cell.handled,
            refused: cell.refused,
            waited_seconds: cell.waited.as_secs_f64(),
            busy_seconds: cell.busy.as_secs_f64(),
            crashes: cell.crashes,
            last_crash: cell.last_crash.clone(),
        }
    }
}

impl WaitEntry {
    /// A wait in words.
    pub fn new(wait: &Wait, names: &BTreeMap<CellId, String>, now: Time) -> Self {
        let name = |cell: CellId| names.get(&cell).cloned().unwrap_or_else(|| cell.to_string());
        Self {
            who: wait.who.map_or_else(|| "outside".to_owned(), name),
            whom: match &wait.whom {
                Whom::Cell(cell) => name(*cell),
                Whom::Port(port) => format!("port {port}"),
            },
            why: wait.why.to_string(),
            since_seconds: now.since(wait.since).as_secs_f64(),
            left_seconds: wait.until.since(now).as_secs_f64(),
        }
    }
}

impl IpamLease {
    /// An address and who has it.
    pub fn new(address: std::net::IpAddr, lease: &AddressLease) -> Self {
        Self {
            address: address.to_string(),
            owner: lease.owner.clone(),
            pool: lease.pool.clone(),
            expires_seconds: lease.expires_in.map(|span| span.as_secs_f64()),
        }
    }
}
