//! Rebuilds an endpoint whose record on disk is lost or unusable, from the kernel's rows.

use serde_json::Value;

use super::{
    messages::RestoreCandidate,
    owned::Owned,
    report::{EndpointReport, RestoreOutcome},
};
use crate::{
    endpoints::endpoint::{
        EndpointSpec, chained_datapath, options, unmasqueraded_in_kernel, unmasqueraded_properties,
    },
    model::{Addresses, EndpointId, EndpointKind, IdentityId, Labels},
    ports::{ConfigRow, EndpointRow, HOST_IFINDEX, KernelSnapshot, config_flags},
    state_directory::IdentityTable,
};

/// Where such an endpoint comes from, in the report.
pub(super) const SOURCE: &str = "kernel";

/// Makes an endpoint from what the kernel holds: its own record there, its configuration row, its
/// local addresses, its interface. The notes say what sufficed and what did not.
pub(super) fn from_kernel(
    id: EndpointId,
    owned: &Owned<'_>,
    identities: &IdentityTable,
) -> Result<RestoreCandidate, EndpointReport> {
    let kernel = owned.kernel;
    let row = kernel.endpoints.get(&id);
    let config = owned.rows.config.get(&id);
    let mut notes = Vec::new();
    let mut spec = match (row, config) {
        _ if is_host(row, config) => {
            notes.push(
                "made from the kernel's rows: how the node is labelled is known once the cluster says it"
                    .to_owned(),
            );
            EndpointSpec::host()
        }
        (Some(row), _) => {
            notes.push("made from the kernel's record volvox_endpoint".to_owned());
            of_row(row, kernel)
        }
        (None, Some(config)) => {
            notes.push("made from the rows volvox_config and cilium_lxc".to_owned());
            notes.push(
                "its container and pod are not known: delete it by number or address".to_owned(),
            );
            notes.push(
                "options that were set for it alone are lost: set them again with `volvox endpoint \
                 config`"
                    .to_owned(),
            );
            of_config(config, kernel)
        }
        (None, None) => {
            return Err(EndpointReport {
                pod: None,
                fate: RestoreOutcome::Failed,
                source: SOURCE.to_owned(),
                notes,
                error: Some(
                    "its record in volvox_endpoint is torn, and volvox_config has no row \
                             for it: nothing says which interface is its own"
                        .to_owned(),
                ),
            });
        }
    };
    let identity = config.map(|config| config.identity).or(row.map(|row| row.identity));
    let identity = match spec.is_host() {
        true => IdentityId::HOST,
        false => identity.unwrap_or(IdentityId::INIT),
    };
    if identity == IdentityId::HEALTH {
        spec.kind = EndpointKind::Health;
        spec.labels = Labels::reserved("health");
    }
    let labels = match spec.kind {
        EndpointKind::Pod => identities.labels_of(identity),
        EndpointKind::Host | EndpointKind::Health => Some(spec.labels.clone()),
    };
    if labels.is_none() {
        notes.push(format!(
            "labels of identity {identity} are not known: its pod's manifest is asked, else it is \
             treated as reserved:init"
        ));
    }
    let labels = labels.unwrap_or_else(|| Labels::reserved("init"));
    let mut endpoint = owned.with_kernel(id, spec);
    if !labels.has_reserved("init") {
        endpoint.spec.labels = labels.clone();
    }
    endpoint.identity = identity;
    endpoint.identity_labels = labels;
    endpoint.unlabelled = endpoint.spec.is_host();
    endpoint.own_options = row.map(|row| options::unpack(row.own_options)).unwrap_or_default();
    Ok(RestoreCandidate { endpoint, source: SOURCE.to_owned(), notes })
}

/// Whether these rows are those of the node itself: nobody else has its identity.
fn is_host(row: Option<&EndpointRow>, config: Option<&ConfigRow>) -> bool {
    row.is_some_and(|row| row.identity == IdentityId::HOST)
        || config.is_some_and(|config| config.ifindex == HOST_IFINDEX)
}

fn of_row(row: &EndpointRow, kernel: &KernelSnapshot) -> EndpointSpec {
    EndpointSpec {
        container_id: row.container_id.clone(),
        container_ifname: row.container_ifname.clone(),
        ifname: row.ifname.clone(),
        ifindex: row.ifindex,
        mac: row.mac,
        node_mac: row.node_mac,
        addresses: row.addresses,
        namespace: row.namespace.clone(),
        pod_name: row.pod_name.clone(),
        pod_uid: row.pod_uid.clone(),
        netns_cookie: row.netns_cookie,
        datapath_configuration: datapath(row.chained),
        properties: properties(row.addresses, kernel),
        ..EndpointSpec::default()
    }
}

fn datapath(chained: bool) -> Value {
    if chained { chained_datapath() } else { Value::default() }
}

fn properties(addresses: Addresses, kernel: &KernelSnapshot) -> Value {
    unmasqueraded_properties(unmasqueraded_in_kernel(kernel, addresses.iter()))
}

fn of_config(config: &ConfigRow, kernel: &KernelSnapshot) -> EndpointSpec {
    let link = kernel.links.get(&config.ifindex);
    EndpointSpec {
        ifname: link.map(|link| link.name.clone()).unwrap_or_default(),
        ifindex: config.ifindex,
        mac: config.mac,
        node_mac: config.node_mac,
        addresses: config.addresses,
        datapath_configuration: datapath(config.flags & config_flags::CHAINED != 0),
        properties: properties(config.addresses, kernel),
        ..EndpointSpec::default()
    }
}
