//! Actors that always say the same.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use ipnet::IpNet;
use serde_json::json;
use volvox_actors::{
    cluster::remote_nodes::{
        NodeAddress, NodeEntry, RemoteNodesList, RemoteNodesMsg, RemoteNodesSource, RemoteNodesView,
    },
    endpoints::{
        build_queue::{BuildQueueMsg, Queued},
        ipam::{AddressLease, Allocated, IpamError, IpamMsg, Pools},
    },
    model::{
        Addresses, BackendId, Direction, EndpointId, Frontend, IdentityId, L4Address, Labels,
        LookupScope, NodeFacts, NodeKey, ServiceId, Transport,
    },
    node::{
        auditor::{AuditView, AuditorMsg},
        conntrack::{ConntrackMsg, ConntrackStatus, FullSignals, Signals},
        devices::{DeviceStatus, DevicesMsg, DevicesStatus},
        local_node::{NodeMsg, NodeStatus},
        routes::{RoutesMsg, RoutesView, RoutingMode},
    },
    policy::{
        identity::{Identity, IdentityMsg},
        ipcache::{IpcacheEntry, IpcacheMsg, IpcacheSource, IpcacheView},
        rules::{
            ClauseOrigin, DerivedFilter, PolicyKind, PolicyMsg, PolicyName, PolicySelector,
            PolicyStatus, PolicyView, WrittenPolicies, WrittenRule,
        },
    },
    ports::{BackendState, Swept, service_flags},
    restore::{PhaseReport, RestoreMsg, RestoreReport},
    services::{
        health_checks::{HealthCheck, HealthCheckView, HealthChecksMsg},
        service_cache::{
            BackendView, ServiceSource, ServiceView, ServicesMsg, ServicesStatus, UnknownBackend,
        },
    },
};

pub(super) fn fake_ipam() -> impl FnMut(IpamMsg) {
    let mut leases: BTreeMap<IpAddr, AddressLease> = BTreeMap::new();
    move |msg| match msg {
        IpamMsg::Allocate { owner, expires, reply, .. } if owner != "greedy" => {
            let address = [10, 1, 0, 7].into();
            let lease = AddressLease { owner, pool: "default".into(), expires_in: expires };
            leases.insert(IpAddr::V4(address), lease);
            reply.send(Ok(Allocated {
                ipv4: Some(address),
                ipv4_pool: "default".into(),
                ..Allocated::default()
            }));
        }
        IpamMsg::Allocate { reply, .. } => {
            reply.send(Err(IpamError::Exhausted { pool: "10.1.0.0/16".into(), size: 65534 }));
        }
        IpamMsg::Reserve { address, owner, reply } => match leases.get(&address) {
            Some(lease) => {
                let owner = lease.owner.clone();
                reply.send(Err(IpamError::InUse { address, owner }));
            }
            None => {
                let lease = AddressLease { owner, pool: "default".into(), expires_in: None };
                leases.insert(address, lease);
                reply.send(Ok(()));
            }
        },
        IpamMsg::Withdraw { address, reply } => match leases.remove(&address) {
            Some(_) => reply.send(Ok(())),
            None => reply.send(Err(IpamError::NotAllocated(address))),
        },
        IpamMsg::Dump(reply) => reply.send(leases.clone()),
        _ => {}
    }
}

pub(super) fn fake_identities(msg: IdentityMsg) {
    let identity = Identity {
        id: IdentityId(300),
        labels: Arc::new(Labels::parse(["k8s:app=web"]).unwrap()),
        prefix: None,
        references: 1,
    };
    match msg {
        IdentityMsg::List(reply) => reply.send(vec![identity]),
        IdentityMsg::Get { id, reply } => reply.send((id == identity.id).then_some(identity)),
        _ => {}
    }
}

pub(super) fn fake_ipcache(msg: IpcacheMsg) {
    let entry = |identity, source| IpcacheEntry::of(IdentityId(identity), source);
    match msg {
        IpcacheMsg::List(reply) => reply.send(BTreeMap::from([
            (
                "10.1.0.7/32".parse::<IpNet>().unwrap(),
                entry(300, IpcacheSource::Endpoint(EndpointId(1))),
            ),
            ("0.0.0.0/0".parse().unwrap(), entry(2, IpcacheSource::Node)),
        ])),
        IpcacheMsg::Show(reply) => {
            reply.send(IpcacheView { rows: 2, open: 0, failures: 0, last_error: None });
        }
        _ => {}
    }
}

pub(super) fn fake_policy(msg: PolicyMsg) {
    let origin = ClauseOrigin {
        source: "web.yaml".into(),
        policy: PolicyName {
            kind: PolicyKind::CiliumNetworkPolicy,
            namespace: Some("default".into()),
            name: "web".into(),
        },
        direction: Direction::Ingress,
        path: "spec.ingress[0]".into(),
        ranked: None,
    };
    match msg {
        PolicyMsg::Written(reply) => reply.send(WrittenPolicies {
            revision: 3,
            rules: vec![WrittenRule {
                labels: BTreeMap::from([("filename".into(), "web.yaml".into())]),
                value: json!({"endpointSelector": {}}),
            }],
        }),
        PolicyMsg::Selectors { subjects, reply } => reply.send(vec![PolicySelector {
            selector: if subjects { "subject" } else { "peer" }.into(),
            identities: [IdentityId(300)].into(),
            users: 1,
        }]),
        PolicyMsg::Derived { reply, .. } => reply.send(vec![DerivedFilter {
            direction: Direction::Ingress,
            port: 80,
            end_port: None,
            port_name: None,
            protocol: "TCP".into(),
            deny: false,
            selectors: BTreeMap::from([("peer".into(), [origin].into())]),
        }]),
        PolicyMsg::Remarks { reply, .. } => reply.send(vec!["web.yaml is refused".to_owned()]),
        PolicyMsg::Refused(reply) => reply.send(Vec::new()),
        PolicyMsg::Enforcement { reply, .. } | PolicyMsg::Idle(reply) => reply.send(()),
        PolicyMsg::Origins(reply) => reply.send(BTreeMap::from([(7, vec![origin])])),
        PolicyMsg::Show { endpoints, reply } => reply.send(PolicyView {
            revision: 3,
            policies: vec![PolicyStatus {
                source: "web.yaml".into(),
                policy: Some(origin.policy),
                selects: endpoints.len(),
                unsupported: Vec::new(),
                departures: Vec::new(),
                unresolved_ports: Vec::new(),
                missing_groups: Vec::new(),
                missing_services: Vec::new(),
                same_priority: Vec::new(),
                error: None,
            }],
        }),
        _ => {}
    }
}

pub(super) fn fake_restore(msg: RestoreMsg) {
    if let RestoreMsg::Report(reply) = msg {
        reply.send(Arc::new(RestoreReport {
            phases: vec![PhaseReport { name: "read".into(), seconds: 0.5 }],
            finished: true,
            ..RestoreReport::default()
        }));
    }
}

pub(super) fn fake_build_queue(msg: BuildQueueMsg) {
    if let BuildQueueMsg::Show(reply) = msg {
        reply.send(Queued { permits: 2, building: vec![EndpointId(4)], waiting: Vec::new() });
    }
}

pub(super) fn fake_conntrack(msg: ConntrackMsg) {
    if let ConntrackMsg::Show(reply) = msg {
        reply.send(ConntrackStatus {
            interval: Duration::from_secs(300),
            rounds: 2,
            rounds_by_signal: 1,
            translations_full: FullSignals {
                ipv4: Signals { received: 5, coalesced: 6 },
                ipv6: Signals { received: 1, coalesced: 2 },
            },
            connections_full: FullSignals {
                ipv4: Signals { received: 7, coalesced: 8 },
                ipv6: Signals { received: 3, coalesced: 4 },
            },
            connections: Swept { seen: 10, deleted: 1 },
            translations: Swept { seen: 6, deleted: 2 },
            deleted_total: 3,
            translations_deleted_total: 4,
            last_error: None,
        });
    }
}

pub(super) fn fake_auditor(msg: AuditorMsg) {
    if let AuditorMsg::Show(reply) = msg {
        reply.send(Arc::new(AuditView { looks: 4, ..AuditView::default() }));
    }
}

pub(super) fn fake_nodes(msg: RemoteNodesMsg) {
    match msg {
        RemoteNodesMsg::List(reply) => {
            let key = NodeKey { cluster: "default".to_owned(), name: "there".to_owned() };
            let address = |kind: &str, last| NodeAddress {
                kind: kind.to_owned(),
                ip: [192, 0, 2, last].into(),
            };
            let entry = NodeEntry {
                addresses: vec![address("ExternalIP", 8), address("InternalIP", 7)],
                pools: Pools { ipv4: "10.7.0.0/24".parse().ok(), ipv6: None },
                health: Addresses { ipv4: Some([10, 7, 0, 3].into()), ipv6: None },
                ..NodeEntry::default()
            };
            let nodes = [(key, entry)].into();
            reply.send(RemoteNodesList { source: RemoteNodesSource::Store, nodes });
        }
        RemoteNodesMsg::Show(reply) => reply.send(RemoteNodesView::default()),
        _ => {}
    }
}

pub(super) fn fake_devices(msg: DevicesMsg) {
    if let DevicesMsg::Show(reply) = msg {
        let device = DeviceStatus {
            name: "eth0".to_owned(),
            ifindex: 2,
            addresses: Addresses { ipv4: Some([192, 0, 2, 1].into()), ipv6: None },
            attached: true,
            trouble: None,
        };
        reply.send(DevicesStatus { devices: vec![device], ..DevicesStatus::default() });
    }
}

pub(super) fn fake_node(msg: NodeMsg) {
    if let NodeMsg::Show(reply) = msg {
        reply.send(NodeStatus {
            router: Addresses { ipv4: Some([10, 1, 0, 1].into()), ipv6: None },
            addresses: ["192.0.2.1".parse().unwrap()].into(),
            facts: NodeFacts { mtu: 1500, ..NodeFacts::default() },
            last_error: None,
        });
    }
}

/// One that reaches all.
pub(super) fn fake_routes(msg: RoutesMsg) {
    if let RoutesMsg::Show(reply) = msg {
        reply.send(RoutesView {
            mode: RoutingMode::Tunnel { port: 8472 },
            nodes: 1,
            synced: true,
            routes: 1,
            tunnel: 7,
            troubles: BTreeMap::new(),
            skipped: BTreeMap::new(),
            last_error: None,
        });
    }
}

/// A frontend for packets from everywhere, written, and another life's, which is being written.
pub(super) fn fake_services(msg: ServicesMsg) {
    let at = |last, port| L4Address {
        address: [10, 96, 0, last].into(),
        port,
        transport: Transport::TCP,
    };
    let frontend = |last, scope| Frontend { at: at(last, 80), scope };
    let (one, two) = ((BackendId(1), at(201, 8080)), (BackendId(2), at(202, 8080)));
    match msg {
        ServicesMsg::List(reply) => reply.send(vec![
            ServiceView {
                id: ServiceId(9),
                frontend: frontend(1, LookupScope::External),
                service: Some("default/web".into()),
                flags: service_flags::NODE_PORT | service_flags::EXTERNAL_LOCAL,
                affinity: 0,
                backends: vec![
                    (one.0, Some(one.1), BackendState::Active),
                    (two.0, Some(two.1), BackendState::Terminating),
                ],
                realised: true,
            },
            ServiceView {
                id: ServiceId(3),
                frontend: frontend(2, LookupScope::Internal),
                service: None,
                flags: service_flags::INTERNAL_LOCAL,
                affinity: 0,
                backends: vec![(BackendId(7), None, BackendState::Active)],
                realised: false,
            },
        ]),
        ServicesMsg::ListBackends(reply) => reply.send(vec![
            BackendView {
                id: two.0,
                at: two.1,
                state: BackendState::Terminating,
                left: ["default/db".to_owned()].into(),
            },
            BackendView { id: one.0, at: one.1, state: BackendState::Active, left: [].into() },
        ]),
        ServicesMsg::Quarantine { backend, reply, .. } => {
            let known = [one.1, two.1].contains(&backend);
            reply.send(if known { Ok(()) } else { Err(UnknownBackend(backend)) });
        }
        ServicesMsg::Show(reply) => reply.send(ServicesStatus {
            frontends: 2,
            backends: 2,
            quarantined: 1,
            room: 1000,
            rows: 5,
            maps: [("cilium_lb4_services_v2", 5), ("cilium_lb4_backends_v3", 2)].into(),
            open: 1,
            awaited: [ServiceSource::Mesh].into(),
            ..ServicesStatus::default()
        }),
        _ => {}
    }
}

pub(super) fn fake_health_checks(msg: HealthChecksMsg) {
    if let HealthChecksMsg::Show(reply) = msg {
        let check = HealthCheck { port: 31000, local_endpoints: 1 };
        reply.send(vec![HealthCheckView { service: "default/web".into(), check, problem: None }]);
    }
}
