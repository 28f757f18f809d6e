//! The comparison itself: who is compared with whom, in which order.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    desired::{DesiredEndpoint, DesiredNode, PolicyDigest},
    difference::{Guarantee, NodeDifference},
    endpoints, leftovers, services,
};
use crate::{
    endpoints::endpoint::{EndpointSpec, OwnRows},
    model::EndpointId,
    ports::KernelSnapshot,
    state_directory::{FoundRecord, ScannedDirectory},
};

/// What was seen of a node.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Rows, hooks, interfaces and routes, with policies and services.
    pub kernel: Arc<KernelSnapshot>,
    /// The state directory.
    pub disk: Arc<ScannedDirectory>,
    /// What the agent wants, if one answered.
    pub desired: Option<DesiredNode>,
}

/// All that is not as it is to be.
///
/// Without an agent records on disk say what is wanted of endpoints; of policies and services nobody does
/// then.
pub fn differences(evidence: &Evidence) -> Vec<NodeDifference> {
    let Evidence { kernel, disk, desired } = evidence;
    let mut found = Vec::new();
    let recorded = recorded(disk);
    let wanted = desired.as_ref().map_or(&recorded, |desired| &desired.endpoints);
    for endpoint in wanted.iter().filter(|endpoint| !endpoint.leaving) {
        if endpoint.served {
            endpoints::compare(endpoint, kernel, &mut found);
        } else {
            found.push(unserved(endpoint));
        }
    }
    endpoints::shared(wanted, &mut found);
    if let Some(desired) = desired {
        for endpoint in wanted.iter().filter(|it| it.served) {
            let policy = kernel
                .config
                .get(&endpoint.config.ifindex)
                .and_then(|row| kernel.policies.get(&row.policy_slot))
                .map(|rows| PolicyDigest::of(rows));
            endpoints::compare_policy(endpoint, policy, &mut found);
        }
        on_disk(&recorded, desired, &mut found);
        endpoints::compare_leases(desired, &mut found);
        services::compare(desired, &kernel.services, &mut found);
        said_by_agent(desired, &mut found);
    }
    unreadable(kernel, disk, &mut found);
    leftovers::find(kernel, disk, desired.as_ref(), &mut found);
    found.sort();
    found.dedup();
    found
}

/// Endpoints as records on disk have them.
fn recorded(disk: &ScannedDirectory) -> Vec<DesiredEndpoint> {
    disk.records.iter().map(of_record).collect()
}

fn of_record(found: &FoundRecord) -> DesiredEndpoint {
    let record = &found.record;
    let spec = EndpointSpec::from(record);
    let OwnRows { config, lxc } = OwnRows::of_record(record);
    let interface = spec.interface_of_its_own();
    DesiredEndpoint {
        id: record.id,
        pod: spec.pod(),
        state: "recorded".to_owned(),
        // A node's own endpoint may be switched off: then nothing of it is in the kernel.
        served: !spec.is_host(),
        leaving: spec.is_host(),
        error: None,
        interface: interface.map(|it| (it, spec.ifname.clone())),
        routed: interface.is_some() && !spec.is_chained(),
        config,
        lxc,
        policy: PolicyDigest::default(),
    }
}

fn unserved(endpoint: &DesiredEndpoint) -> NodeDifference {
    let error = endpoint.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    NodeDifference {
        guarantee: Guarantee::Ready,
        about: endpoint.name(),
        found: format!("it is {}{error}", endpoint.state),
        remedy: format!("`volvox why {}` says what it waits for", endpoint.id),
    }
}

/// Records are what the next agent begins with.
fn on_disk(recorded: &[DesiredEndpoint], desired: &DesiredNode, found: &mut Vec<NodeDifference>) {
    let by_id: BTreeMap<EndpointId, &DesiredEndpoint> =
        recorded.iter().map(|record| (record.id, record)).collect();
    let mut add = |guarantee, endpoint: &DesiredEndpoint, what: String| {
        found.push(NodeDifference {
            guarantee,
            about: endpoint.name(),
            found: what,
            remedy:
                "it is written again with the next build: see whether the state directory can be \
                     written (`volvox status`), then `volvox endpoint regenerate`"
                    .to_owned(),
        });
    };
    for endpoint in desired.endpoints.iter().filter(|it| it.served) {
        match by_id.get(&endpoint.id) {
            None => add(Guarantee::Recorded, endpoint, "it has no record on disk".to_owned()),
            Some(record) if record.lxc != endpoint.lxc => {
                let what = "its record on disk has other addresses, or another identity";
                add(Guarantee::Numbers, endpoint, what.to_owned());
            }
            Some(record) if record.config != endpoint.config => {
                let what = "its record on disk has another configuration";
                add(Guarantee::Numbers, endpoint, what.to_owned());
            }
            Some(_) => {}
        }
    }
}

/// What the agent's auditor and recorder say themselves.
fn said_by_agent(desired: &DesiredNode, found: &mut Vec<NodeDifference>) {
    for (invariant, all) in &desired.broken {
        found.extend(all.iter().map(|what| NodeDifference {
            guarantee: Guarantee::Numbers,
            about: format!("the agent's own look ({invariant})"),
            found: what.clone(),
            remedy: "keep a recording (`volvox trace --export`) and report it".to_owned(),
        }));
    }
    found.extend(desired.recorder.iter().map(|trouble| NodeDifference {
        guarantee: Guarantee::Explained,
        about: "the flight recorder".to_owned(),
        found: trouble.clone(),
        remedy: "make room on the state directory's disk, or the directory writable".to_owned(),
    }));
}

/// What cannot be read back.
fn unreadable(kernel: &KernelSnapshot, disk: &ScannedDirectory, found: &mut Vec<NodeDifference>) {
    let mut add = |about: String, what: String, remedy: &str| {
        let guarantee = Guarantee::Recorded;
        found.push(NodeDifference { guarantee, about, found: what, remedy: remedy.to_owned() });
    };
    for put_aside in &disk.quarantined {
        let remedy =
            "a restart of the agent puts it aside and builds the endpoint from the kernel's rows";
        add(format!("endpoint {}", put_aside.id), format!("{}", put_aside.reason), remedy);
    }
    for (id, error) in &disk.unread {
        let remedy = "see what is wrong with the disk; nothing is written over it";
        add(format!("endpoint {id}"), format!("its record cannot be read: {error}"), remedy);
    }
    if let Some(error) = &disk.unlisted {
        let remedy = "see what is wrong with the disk";
        add("the state directory".to_owned(), error.to_string(), remedy);
    }
    for record in &disk.records {
        for error in &record.passed_over {
            let remedy = "the agent writes it again with the endpoint's next build";
            add(format!("endpoint {}", record.record.id), error.to_string(), remedy);
        }
    }
    for id in &kernel.torn_rows {
        let remedy = "the agent writes it again with the endpoint's next build";
        let what = "its row of volvox_endpoint has a wrong checksum".to_owned();
        add(format!("endpoint {id}"), what, remedy);
    }
}
