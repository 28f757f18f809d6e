//! The maps that balance load.

use std::collections::BTreeMap;

use serde::Serialize;
use volvox_actors::{
    model::{BackendId, Frontend, L4Address, ServiceId},
    ports::{BackendRow, BackendState, SlotRow, service_flags},
};
use volvox_maps::Client;
use volvox_rest::models::{backend_state, frontend_kind};

use super::{ClientError, Dump, Output};
use crate::args::LbTables;

const SLOTS: [&str; 2] = ["cilium_lb4_services_v2", "cilium_lb6_services_v2"];
const BACKENDS: [&str; 2] = ["cilium_lb4_backends_v3", "cilium_lb6_backends_v3"];
const REVERSE: [&str; 2] = ["cilium_lb4_reverse_nat", "cilium_lb6_reverse_nat"];
const RANGES: [&str; 2] = ["cilium_lb4_source_range", "cilium_lb6_source_range"];
const MATCHES: [&str; 1] = ["cilium_lb_affinity_match"];

pub(super) fn list(out: &mut Output<'_>, dump: &Dump, tables: LbTables) -> Result<(), ClientError> {
    match tables {
        LbTables { backends: true, .. } => backends(out, dump),
        LbTables { revnat: true, .. } => reverse(out, dump),
        LbTables { affinity: true, .. } => affinity(out, dump),
        LbTables { source_ranges: true, .. } => ranges(out, dump),
        LbTables { maglev: true, .. } => maglev(out, dump),
        _ => slots(out, dump),
    }
}

/// A slot of a frontend; the first is the frontend itself.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Slot {
    frontend: Frontend,
    slot: u16,
    service: ServiceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<First>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<Target>,
}

/// What only the first slot says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct First {
    kind: &'static str,
    flags: Vec<&'static str>,
    /// Slots of backends that are used, and of quarantined ones behind.
    used: u16,
    quarantined: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<&'static str>,
    /// For how many seconds a client stays with its backend; 0 if it need not.
    affinity_seconds: u32,
}

/// Where another slot leads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Target {
    id: BackendId,
    /// Nothing if the map of backends lacks it.
    at: Option<L4Address>,
    state: Option<BackendState>,
}

fn slots(out: &mut Output<'_>, dump: &Dump) -> Result<(), ClientError> {
    let maps: Vec<_> = SLOTS.into_iter().chain(BACKENDS).collect();
    let found = dump.services(&maps)?;
    let backends: BTreeMap<_, _> = found.backends.into_iter().collect();
    let slot = |((frontend, slot), row): &((Frontend, u16), SlotRow)| Slot {
        frontend: *frontend,
        slot: *slot,
        service: row.id,
        first: (*slot == 0).then(|| First::new(row)),
        backend: (*slot > 0).then(|| {
            let there = backends.get(&BackendId(row.word));
            let (at, state) = (there.map(|it| it.at), there.map(|it| it.state));
            Target { id: BackendId(row.word), at, state }
        }),
    };
    let slots: Vec<_> = found.slots.iter().map(slot).collect();
    out.answer(&slots, |out, slots| {
        out.table(["FRONTEND", "SLOT", "ID", "BACKEND"], slots.iter().map(columns))?;
        reported(out, &found.foreign)
    })
}

/// Rows that have no other form.
fn reported(out: &mut Output<'_>, foreign: &[String]) -> Result<(), ClientError> {
    foreign.iter().try_for_each(|text| out.line(format!("not understood: {text}")))
}

fn columns(slot: &Slot) -> [String; 4] {
    let what = match (&slot.first, &slot.backend) {
        (Some(first), _) => first.to_string(),
        (None, Some(target)) => target.to_string(),
        (None, None) => String::new(),
    };
    [slot.frontend.to_string(), slot.slot.to_string(), slot.service.to_string(), what]
}

impl First {
    fn new(row: &SlotRow) -> Self {
        let names = [
            (service_flags::AFFINITY, "affinity"),
            (service_flags::ROUTABLE, "routable"),
            (service_flags::SOURCE_RANGE, "source-ranges"),
            (service_flags::EXTERNAL_LOCAL, "external-local"),
            (service_flags::INTERNAL_LOCAL, "internal-local"),
            (service_flags::TWO_SCOPES, "two-scopes"),
            (service_flags::DENY_RANGE, "deny-ranges"),
            (service_flags::DSR, "dsr"),
        ];
        let set = names.into_iter().filter(|(bit, _)| row.flags & bit != 0);
        let SlotRow { word, count, quarantined, flags, .. } = *row;
        Self {
            kind: frontend_kind(flags),
            flags: set.map(|(_, name)| name).collect(),
            used: count,
            quarantined,
            algorithm: match word >> 24 {
                1 => Some("random"),
                2 => Some("maglev"),
                _ => None,
            },
            affinity_seconds: word & 0xff_ffff,
        }
    }
}

impl std::fmt::Display for First {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}", self.kind)?;
        self.algorithm.iter().chain(&self.flags).try_for_each(|word| write!(f, ", {word}"))?;
        write!(f, "] {} used", self.used)?;
        match self.quarantined {
            0 => Ok(()),
            quarantined => write!(f, ", {quarantined} quarantined"),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.at, self.state) {
            (Some(at), None | Some(BackendState::Active)) => write!(f, "{at} ({})", self.id),
            (Some(at), Some(state)) => write!(f, "{at} ({}, {})", self.id, backend_state(state)),
            (None, _) => write!(f, "nothing ({})", self.id),
        }
    }
}

/// A row of a map of backends.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Backend {
    id: BackendId,
    at: L4Address,
    state: BackendState,
    /// Number of its zone, 0 if it has none.
    zone: u8,
}

fn backends(out: &mut Output<'_>, dump: &Dump) -> Result<(), ClientError> {
    let found = dump.services(&BACKENDS)?;
    let backend = |(id, BackendRow { at, state, zone })| Backend { id, at, state, zone };
    let rows: Vec<_> = found.backends.into_iter().map(backend).collect();
    out.answer(&rows, |out, rows| {
        let columns = |it: &Backend| {
            let zone = if it.zone == 0 { String::new() } else { it.zone.to_string() };
            [it.id.to_string(), it.at.to_string(), backend_state(it.state).to_owned(), zone]
        };
        out.table(["ID", "BACKEND", "STATE", "ZONE"], rows.iter().map(columns))?;
        reported(out, &found.foreign)
    })
}

/// Two columns: a service's number and what belongs to it.
fn by_service<T: Serialize + ToString>(
    out: &mut Output<'_>,
    member: &'static str,
    heading: &str,
    rows: impl IntoIterator<Item = (ServiceId, T)>,
) -> Result<(), ClientError> {
    let rows: Vec<_> = rows.into_iter().map(|(id, value)| (id, value.to_string())).collect();
    if out.is_for_programs() {
        let object =
            |(id, text): &(ServiceId, String)| serde_json::json!({ "service": id, member: text });
        return out.value(&rows.iter().map(object).collect::<Vec<_>>());
    }
    out.table(["ID", heading], rows.into_iter().map(|(id, text)| [id.to_string(), text]))
}

fn reverse(out: &mut Output<'_>, dump: &Dump) -> Result<(), ClientError> {
    by_service(out, "frontend", "FRONTEND", dump.services(&REVERSE)?.reverse_nat)
}

fn ranges(out: &mut Output<'_>, dump: &Dump) -> Result<(), ClientError> {
    let found = dump.services(&RANGES)?;
    by_service(out, "range", "RANGE", found.ranges)?;
    if out.is_for_programs() { Ok(()) } else { reported(out, &found.foreign) }
}

fn affinity(out: &mut Output<'_>, dump: &Dump) -> Result<(), ClientError> {
    let mut matches = dump.services(&MATCHES)?.affinity;
    matches.sort_unstable_by_key(|(backend, service)| (*service, *backend));
    let mut clients = dump.served_clients(true)?;
    clients.extend(dump.served_clients(false)?);
    if out.is_for_programs() {
        let object = |(backend, service): &(BackendId, ServiceId)| serde_json::json!({ "service": service, "backend": backend });
        let matches: Vec<_> = matches.iter().map(object).collect();
        return out.value(&serde_json::json!({ "matches": matches, "clients": clients }));
    }
    let may = matches.iter().map(|(backend, service)| {
        [service.to_string(), backend.to_string(), "(may stay)".to_owned(), String::new()]
    });
    let stay = clients.iter().map(|it| {
        let client = match it.client {
            Client::Address(address) => address.to_string(),
            Client::NetnsCookie(cookie) => format!("netns {cookie}"),
        };
        [it.service.to_string(), it.backend.to_string(), client, it.last_used.to_string()]
    });
    out.table(["ID", "BACKEND", "CLIENT", "LAST USED"], may.chain(stay))
}

/// A service's table of Maglev.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Table {
    service: ServiceId,
    family: &'static str,
    /// How many places each backend has.
    places: BTreeMap<BackendId, usize>,
}

fn maglev(out: &mut Output<'_>, dump: &Dump) -> Result<(), ClientError> {
    let mut tables = Vec::new();
    for (is_ipv4, family) in [(true, "ipv4"), (false, "ipv6")] {
        let found = dump.maglev(is_ipv4)?.into_iter();
        tables.extend(found.map(|(service, places)| Table { service, family, places }));
    }
    out.answer(&tables, |out, tables| {
        let columns = |it: &Table| {
            let size: usize = it.places.values().sum();
            let share = |(id, places): (&BackendId, &usize)| format!("{id}: {places}");
            let places: Vec<_> = it.places.iter().map(share).collect();
            [it.service.to_string(), it.family.to_owned(), size.to_string(), places.join("\n")]
        };
        let headings = ["ID", "FAMILY", "SIZE", "PLACES BY BACKEND"];
        out.table(headings, tables.iter().map(columns))
    })
}
