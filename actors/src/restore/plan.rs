//! Decides which endpoints are restored, and settles disputes about interfaces and addresses.
//! It only compares disk and kernel; it changes neither.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    net::IpAddr,
    sync::Arc,
};

use super::{
    messages::RestoreCandidate,
    owned::Owned,
    rebuild,
    report::{EndpointReport, RestoreOutcome},
};
use crate::{
    endpoints::endpoint::{EndpointSpec, RestoredEndpoint, options},
    model::{EndpointId, IdentityId, IdentityScope, Labels},
    policy::identity::Identity,
    ports::{HOST_IFINDEX, KernelSnapshot, OwnedRows},
    state_directory::{Form, FoundRecord, IdentityTable, ScannedDirectory},
};

/// Who comes back, and who cannot.
#[derive(Debug, Default)]
pub struct RestorePlan {
    pub(super) candidates: BTreeMap<EndpointId, RestoreCandidate>,
    /// Endpoints whose interface is gone: what is left of them is to be removed.
    pub(super) failed: BTreeMap<EndpointId, EndpointReport>,
    /// Those of them whose record claims what is another's: it is put aside as evidence.
    pub(super) disputed: BTreeSet<EndpointId>,
    /// Endpoints that come back by what the kernel holds although they have a record, and why
    /// that one is put aside.
    pub(super) refuted: BTreeMap<EndpointId, String>,
}

impl RestorePlan {
    /// The endpoints that come back.
    pub fn endpoints(&self) -> impl Iterator<Item = &RestoredEndpoint> {
        self.candidates.values().map(|candidate| &candidate.endpoint)
    }

    /// The endpoints that cannot, and why.
    pub fn failed(&self) -> &BTreeMap<EndpointId, EndpointReport> {
        &self.failed
    }
}

/// Compares what the disk and the kernel hold and decides who comes back. The disk says what an
/// endpoint is; the kernel proves it, and stands in where the disk has nothing usable.
pub fn plan(
    disk: &ScannedDirectory,
    kernel: &KernelSnapshot,
    identities: &IdentityTable,
) -> RestorePlan {
    let mut plan = RestorePlan::default();
    let owned = Owned { kernel, rows: OwnedRows::of(kernel) };
    for found in &disk.records {
        plan.consider(found.record.id, from_record(found, &owned, identities), kernel);
    }
    let known: BTreeSet<EndpointId> = disk.records.iter().map(|found| found.record.id).collect();
    let in_kernel = kernel.endpoints.keys().chain(&kernel.torn_rows).copied();
    let configured = kernel.config.values().map(|row| row.endpoint);
    let orphans: BTreeSet<EndpointId> = in_kernel.chain(configured).collect();
    for &id in orphans.difference(&known) {
        plan.consider(id, rebuild::from_kernel(id, &owned, identities), kernel);
    }
    plan.settle_interfaces(kernel);
    plan.settle_addresses(kernel);
    for found in &disk.records {
        plan.refute(found, &owned, identities);
    }
    plan
}

impl RestorePlan {
    /// Leaves the host endpoint out: what the kernel has of it is nobody's.
    pub(super) fn leave_host_out(&mut self) {
        self.candidates.retain(|_, candidate| !candidate.endpoint.spec.is_host());
    }

    /// The host endpoint, if it comes back.
    pub(super) fn host(&self) -> Option<EndpointId> {
        self.endpoints().find(|endpoint| endpoint.spec.is_host()).map(|endpoint| endpoint.id)
    }

    /// Gives endpoints the options of this life, besides those that were set for one alone; with
    /// `keep`, only endpoints that have none.
    pub(super) fn set_options(&mut self, options: &Arc<BTreeMap<String, i64>>, keep: bool) {
        for candidate in self.candidates.values_mut() {
            let endpoint = &mut candidate.endpoint;
            if keep && !endpoint.options.is_empty() {
                continue;
            }
            // Nearly all have those of the agent: they share them.
            let mut desired = Arc::clone(options);
            if !endpoint.own_options.is_empty() {
                let own = endpoint.own_options.iter().map(|(name, value)| (name.clone(), *value));
                Arc::make_mut(&mut desired).extend(own);
            }
            endpoint.on_disk &= endpoint.options == desired;
            endpoint.options = desired;
        }
    }

    fn consider(
        &mut self,
        id: EndpointId,
        candidate: Result<RestoreCandidate, EndpointReport>,
        kernel: &KernelSnapshot,
    ) {
        match candidate.and_then(|candidate| validate(candidate, kernel)) {
            Ok(candidate) => {
                self.candidates.insert(id, candidate);
            }
            Err(report) => {
                self.failed.insert(id, report);
            }
        }
    }

    /// Where a record cannot be true and the kernel's rows of that number are about another
    /// interface, which nobody else claims, the endpoint is the one behind that.
    fn refute(&mut self, found: &FoundRecord, owned: &Owned<'_>, table: &IdentityTable) {
        let id = found.record.id;
        let Some(error) = self.failed.get(&id).and_then(|failed| failed.error.clone()) else {
            return;
        };
        let rebuilt = rebuild::from_kernel(id, owned, table);
        let Ok(mut rebuilt) = rebuilt.and_then(|candidate| validate(candidate, owned.kernel))
        else {
            return;
        };
        let spec = &rebuilt.endpoint.spec;
        let is_taken = |other: &EndpointSpec| {
            other.config_ifindex() == spec.config_ifindex()
                || other.addresses.iter().any(|one| spec.addresses.iter().any(|own| own == one))
        };
        let claimed = EndpointSpec::from(&found.record).config_ifindex();
        if spec.config_ifindex() == claimed || self.endpoints().any(|other| is_taken(&other.spec)) {
            return;
        }
        rebuilt.notes.push(format!("its state directory was put aside: {error}"));
        self.failed.remove(&id);
        self.disputed.remove(&id);
        self.refuted.insert(id, error);
        self.candidates.insert(id, rebuilt);
    }

    /// Two that claim one interface cannot both be behind it: what proves most decides, else the
    /// lower number.
    fn settle_interfaces(&mut self, kernel: &KernelSnapshot) {
        let mut owners: BTreeMap<u32, Vec<EndpointId>> = BTreeMap::new();
        for (&id, candidate) in &self.candidates {
            owners.entry(candidate.endpoint.spec.config_ifindex()).or_default().push(id);
        }
        for (ifindex, claimants) in owners.into_iter().filter(|(_, ids)| ids.len() > 1) {
            let proof = |id: &EndpointId| Proof::of(&self.candidates[id].endpoint, kernel);
            let winner = claimants.iter().copied().max_by_key(|id| (proof(id), Reverse(*id)));
            let Some(winner) = winner else { continue };
            let why = proof(&winner);
            for id in claimants.into_iter().filter(|id| *id != winner) {
                let error = match ifindex {
                    HOST_IFINDEX => format!("the node is endpoint {winner}, for which {why}"),
                    _ => format!(
                        "its interface number {ifindex} belongs to endpoint {winner}, for which {why}"
                    ),
                };
                self.dispute(id, error);
            }
        }
    }

    /// Its record claims what is another's.
    fn dispute(&mut self, id: EndpointId, error: String) {
        let Some(candidate) = self.candidates.remove(&id) else { return };
        if candidate.source != rebuild::SOURCE {
            self.disputed.insert(id);
        }
        self.failed.insert(id, failed(&candidate, error));
    }

    /// Two that claim one address cannot both have it: the kernel's row decides, else the lower
    /// number.
    fn settle_addresses(&mut self, kernel: &KernelSnapshot) {
        let mut owners: BTreeMap<IpAddr, BTreeSet<EndpointId>> = BTreeMap::new();
        for (&id, candidate) in &self.candidates {
            for address in candidate.addresses().iter() {
                owners.entry(address).or_default().insert(id);
            }
        }
        for (address, claimants) in owners.into_iter().filter(|(_, ids)| ids.len() > 1) {
            let proven = kernel.lxc.get(&address).map(|row| EndpointId(row.endpoint));
            let winner =
                proven.filter(|id| claimants.contains(id)).or_else(|| claimants.first().copied());
            for id in claimants.into_iter().filter(|id| Some(*id) != winner) {
                let winner = winner.map_or_else(String::new, |winner| winner.to_string());
                self.dispute(id, format!("its address {address} belongs to endpoint {winner}"));
            }
        }
    }
}

/// Which of [`WITNESSES`] speak for an endpoint's claim of its interface; the first that differs
/// decides.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Proof([bool; 5]);

const WITNESSES: [&str; 5] = [
    "volvox_config",
    "the network namespace",
    "the Ethernet address",
    "volvox_endpoint",
    "cilium_lxc",
];

impl Proof {
    fn of(endpoint: &RestoredEndpoint, kernel: &KernelSnapshot) -> Self {
        let spec = &endpoint.spec;
        let link = kernel.links.get(&spec.ifindex);
        let has_mac = link.is_some_and(|link| link.mac == spec.node_mac);
        Self([
            endpoint.config.is_some(),
            kernel.netns_cookies.get(&endpoint.id) == Some(&spec.netns_cookie),
            !spec.node_mac.is_zero() && has_mac,
            endpoint.recorded,
            endpoint.lxc.values().any(|row| row.ifindex == spec.ifindex),
        ])
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.into_iter().zip(WITNESSES);
        let proofs: Vec<_> = all.filter(|(holds, _)| *holds).map(|(_, what)| what).collect();
        match proofs.is_empty() {
            true => f.write_str("only its lower number speaks"),
            false => write!(f, "{} speaks", proofs.join(", ")),
        }
    }
}

pub(super) fn failed(candidate: &RestoreCandidate, error: String) -> EndpointReport {
    EndpointReport {
        pod: candidate.endpoint.spec.pod(),
        fate: RestoreOutcome::Failed,
        source: candidate.source.clone(),
        notes: candidate.notes.clone(),
        error: Some(error),
    }
}

fn from_record(
    found: &FoundRecord,
    owned: &Owned<'_>,
    identities: &IdentityTable,
) -> Result<RestoreCandidate, EndpointReport> {
    let record = &found.record;
    let source = match found.form {
        Form::Json => "ep_config.json",
        Form::Header => "ep_config.h",
        Form::OldHeader => "lxc_config.h",
    };
    let mut notes: Vec<String> = found.passed_over.iter().map(ToString::to_string).collect();
    let on_disk = found.form == Form::Json && record.generation > 0;
    let mut endpoint = owned.with_kernel(record.id, EndpointSpec::from(record));
    endpoint.identity = record.security.id;
    endpoint.identity_labels = record.security.labels.clone();
    if endpoint.spec.is_host() {
        endpoint.identity = IdentityId::HOST;
        endpoint.identity_labels = endpoint.spec.labels.clone();
    }
    endpoint.user_labels = (record.labels.custom.clone(), record.labels.disabled.clone());
    endpoint.options = Arc::clone(&record.options.map);
    let row = owned.kernel.endpoints.get(&record.id);
    let newer = row.filter(|row| row.unsaved && endpoint.recorded);
    let in_kernel = row.map_or(0, |row| row.own_options);
    endpoint.own_options = match found.form {
        Form::Json if newer.is_none() => record.own_options.clone(),
        // Headers have no place for them.
        _ => options::unpack(in_kernel),
    };
    if let Some(row) = newer {
        let info = &record.labels.orchestration_info;
        notes.extend(take_identity(&mut endpoint, row.identity, info, identities));
    }
    // An older agent's row does not hold them.
    endpoint.recorded &= in_kernel == options::pack(&endpoint.own_options);
    endpoint.on_disk = on_disk && !endpoint.unsaved;
    Ok(RestoreCandidate { endpoint, source: source.to_owned(), notes })
}

/// Gives an endpoint the identity of a newer row, if it is another one; what is to be said of it.
fn take_identity(
    endpoint: &mut RestoredEndpoint,
    newer: IdentityId,
    info: &Labels,
    table: &IdentityTable,
) -> Option<String> {
    let before = endpoint.identity;
    // A number is told to nobody before it is on disk.
    let labels = table.labels_of(newer).filter(|_| newer != before)?;
    endpoint.spec.labels = labels.iter().chain(info.iter()).cloned().collect();
    endpoint.identity = newer;
    endpoint.identity_labels = labels;
    Some(format!(
        "its record could not be written when its identity changed from {before} to {newer}: the \
         kernel's is taken"
    ))
}

/// Whether its interface is there and is still its own.
fn validate(
    mut candidate: RestoreCandidate,
    kernel: &KernelSnapshot,
) -> Result<RestoreCandidate, EndpointReport> {
    let spec = &candidate.endpoint.spec;
    if spec.is_host() {
        return Ok(candidate);
    }
    let Some(link) = kernel.links.get(&spec.ifindex) else {
        let error = match spec.ifindex {
            0 => "its record does not say which interface is its own".to_owned(),
            _ => format!("{} is gone", spec.interface()),
        };
        return Err(failed(&candidate, error));
    };
    if let Some(difference) = link.differs(&spec.ifname, spec.node_mac) {
        let error = format!("interface number {} is another one now: {difference}", spec.ifindex);
        return Err(failed(&candidate, error));
    }
    if let Some(&now) = kernel.netns_cookies.get(&candidate.endpoint.id)
        && spec.netns_cookie != 0
        && now != spec.netns_cookie
    {
        let error = format!(
            "{} is another one now: network namespace {} was made anew (its cookie is {now}, not \
             {})",
            spec.interface(),
            spec.container_netns_path,
            spec.netns_cookie
        );
        return Err(failed(&candidate, error));
    }
    if spec.addresses.iter().next().is_none() {
        candidate.notes.push("it has no address".to_owned());
    }
    Ok(candidate)
}

/// The identities that rows of the kernel give endpoints beside those that they have: where the
/// agent died after an identity was recorded and before it was in force. One whose labels nobody
/// knows any more is not among them.
pub(super) fn carried(
    plan: &RestorePlan,
    kernel: &KernelSnapshot,
    table: &IdentityTable,
) -> VecDeque<(EndpointId, Identity)> {
    let mut all = VecDeque::new();
    for endpoint in plan.endpoints() {
        let addresses = endpoint.spec.addresses.iter();
        let mapped = addresses.filter_map(|address| kernel.ipcache.get(&address.into()));
        let config = endpoint.config.iter().map(|row| row.identity);
        let local = endpoint.lxc.values().map(|row| row.identity);
        let shown: BTreeSet<IdentityId> =
            config.chain(local).chain(mapped.map(|row| row.identity)).collect();
        for id in shown.into_iter().filter(|&id| id != endpoint.identity) {
            let of_others = || plan.endpoints().find(|other| other.identity == id);
            let of_others = || of_others().map(|other| other.identity_labels.clone());
            let labels = table.labels_of(id).or_else(of_others);
            if let (IdentityScope::Global, Some(labels)) = (id.scope(), labels) {
                let labels = Arc::new(labels);
                all.push_back((endpoint.id, Identity { id, labels, prefix: None, references: 0 }));
            }
        }
    }
    all
}
