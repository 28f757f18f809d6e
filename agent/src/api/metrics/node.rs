//! Metrics of what the node has once: addresses, identities, policy, audits, and garbage collection
//! of connections.

use std::{collections::BTreeMap, net::IpAddr};

use volvox_actors::{
    endpoints::ipam::AddressLease,
    model::{
        IdentityScope,
        drift::{self, DriftKind},
    },
    node::{
        auditor::{AuditView, Drifted},
        conntrack::{ConntrackStatus, FullSignals, Signals},
        invariants::{ALWAYS, AT_REST},
    },
    policy::{identity::Identity, rules::PolicyView},
    ports::Swept,
};

use volvox_rest::models::{PodPool, PodPools};

use super::sheet::{Sheet, bare, row};
use crate::api::Facts;

pub(super) fn write_addresses(
    sheet: &mut Sheet,
    leases: &BTreeMap<IpAddr, AddressLease>,
    facts: &Facts,
) {
    let count = |v4: bool| leases.keys().filter(|ip| ip.is_ipv4() == v4).count() as f64;
    let rows = [
        facts.ipv4_range.map(|_| row([("family", "ipv4")], count(true))),
        facts.ipv6_range.map(|_| row([("family", "ipv6")], count(false))),
    ];
    let help = "Addresses that are handed out";
    sheet.gauge("cilium_ip_addresses", help, rows.into_iter().flatten());
}

/// How much of each pool is used and needed.
pub(super) fn write_pools(sheet: &mut Sheet, pools: &PodPools) {
    let rows = |of: fn(&PodPool) -> u64| {
        let one = move |it: &PodPool| {
            row([("family", it.family.as_str()), ("pool", &it.pool)], of(it) as f64)
        };
        pools.pools.iter().map(one).collect::<Vec<_>>()
    };
    let help = "Addresses that this node can hand out, those that somebody has among them";
    sheet.gauge("cilium_ipam_capacity", help, rows(|it| it.capacity));
    let help = "Addresses of each pool that somebody has";
    sheet.gauge("volvox_ipam_pool_used", help, rows(|it| it.used));
    let help = "Addresses of each pool that this node asks for";
    sheet.gauge("volvox_ipam_pool_needed", help, rows(|it| it.needed));
    let help = "Pods that wait for an address of each pool, or did so minutes ago";
    sheet.gauge("volvox_ipam_pool_pending", help, rows(|it| it.pending));
    let help = "Prefixes of pools that this node gave back";
    sheet.counter("volvox_ipam_prefixes_given_back", help, bare(pools.given_back as f64));
}

pub(super) fn write_identities(sheet: &mut Sheet, identities: &[Identity]) {
    let count = |expected: &str| {
        let kinds = identities.iter().map(|identity| kind(identity));
        kinds.filter(|kind| *kind == expected).count() as f64
    };
    let rows = ["reserved", "cluster_local", "node_local", "remote_node"]
        .map(|kind| row([("type", kind)], count(kind)));
    sheet.gauge("cilium_identity", "Identities that are known", rows);
}

fn kind(identity: &Identity) -> &'static str {
    match identity.id.scope() {
        IdentityScope::Global if identity.id.is_reserved() => "reserved",
        IdentityScope::Global => "cluster_local",
        IdentityScope::LocalCidr => "node_local",
        IdentityScope::RemoteNode => "remote_node",
    }
}

pub(super) fn write_policy(sheet: &mut Sheet, policy: &PolicyView) {
    let help = "Policies in force";
    let in_force = policy.policies.iter().filter(|status| status.policy.is_some()).count();
    sheet.gauge("cilium_policy", help, bare(in_force as f64));
    let help = "Revision of the policy";
    sheet.gauge("cilium_policy_max_revision", help, bare(policy.revision as f64));
    let help = "Documents that were refused";
    let refused = policy.policies.iter().filter(|status| status.error.is_some()).count();
    sheet.gauge("volvox_policy_refused", help, bare(refused as f64));
}

pub(super) fn write_audit(sheet: &mut Sheet, audit: &AuditView) {
    let help = "Looks at the node that compared it with what must be true";
    sheet.counter("volvox_audits", help, bare(audit.looks as f64));
    let each = || ALWAYS.iter().chain(AT_REST).map(|invariant| invariant.name);
    let help = "What broke each invariant at the last look";
    let now = |name: &str| audit.broken.get(name).map_or(0, Vec::len) as f64;
    let rows = each().map(|name| row([("invariant", name)], now(name)));
    sheet.gauge("volvox_invariant_broken", help, rows);
    let help = "What broke each invariant since the agent's start";
    let ever = |name: &str| audit.found.get(name).copied().unwrap_or_default() as f64;
    let rows = each().map(|name| row([("invariant", name)], ever(name)));
    sheet.counter("volvox_invariant_violations", help, rows);
    let help = "Rows of maps that somebody else had changed, and that were put right";
    let none = Drifted::default();
    let rows = drift::MAPS.iter().flat_map(|map| {
        let counted = audit.drift.get(*map).unwrap_or(&none);
        let name = map.strip_prefix("cilium_").unwrap_or(map);
        DriftKind::ALL.map(|kind| {
            row([("map_name", name), ("kind", kind.name())], counted.count(kind) as f64)
        })
    });
    sheet.counter("volvox_bpf_map_drift", help, rows);
}

pub(super) fn write_conntrack(sheet: &mut Sheet, status: &ConntrackStatus) {
    let help = "Rounds of collecting dead connections";
    sheet.counter("cilium_datapath_conntrack_gc_runs", help, bare(status.rounds as f64));
    let help = "Rounds that were begun because a table was full";
    sheet.counter("volvox_conntrack_rounds_by_signal", help, bare(status.rounds_by_signal as f64));
    let help = "Signals of the datapath that a table is full: the first ones (received), and further ones before the round that they began (coalesced)";
    let of = |signal, FullSignals { ipv4, ipv6 }| {
        [("ipv4", ipv4), ("ipv6", ipv6)].into_iter().flat_map(move |(data, reported)| {
            let Signals { received, coalesced } = reported;
            [("received", received), ("coalesced", coalesced)].map(|(status, count)| {
                row([("signal", signal), ("data", data), ("status", status)], count as f64)
            })
        })
    };
    let nat = of("nat_fill_up", status.translations_full);
    let ct = of("ct_fill_up", status.connections_full);
    sheet.counter("cilium_datapath_signals_handled", help, nat.chain(ct));
    let help = "Connections that the last round of collecting over both families saw";
    let by_status = |swept: Swept| {
        [
            row([("status", "alive")], swept.seen.saturating_sub(swept.deleted) as f64),
            row([("status", "deleted")], swept.deleted as f64),
        ]
    };
    sheet.gauge("cilium_datapath_conntrack_gc_entries", help, by_status(status.connections));
    let help = "Dead connections that were removed";
    sheet.counter("volvox_conntrack_deleted", help, bare(status.deleted_total as f64));
    let help = "Translations of addresses that the last round of collecting over both families saw";
    sheet.gauge("cilium_datapath_nat_gc_entries", help, by_status(status.translations));
    let help = "Translations of addresses without a connection that were removed";
    let removed = bare(status.translations_deleted_total as f64);
    sheet.counter("volvox_nat_deleted", help, removed);
    let help = "Time between two rounds of collecting dead connections";
    let interval = bare(status.interval.as_secs_f64());
    sheet.gauge("cilium_datapath_conntrack_gc_interval_seconds", help, interval);
}
