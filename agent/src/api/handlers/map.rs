//! `/map`: the pinned BPF maps, and the rows of those that have a text form, read from the kernel.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use axum::extract::State;
use volvox_actors::{
    model::{Direction, EndpointId, Mac, PolicyEntry, PolicyKey},
    ports::{IpcacheRow, LxcRow, lxc_flags},
};
use volvox_bpf_progs::maps::POLICY;
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_maps::{DatapathError, Dump};
use volvox_rest::models::{BpfMap, BpfMapEntry, BpfMapList, protocol_name};

use super::{map_services, map_translations};
use crate::api::{Api, extract::Segment};

/// Every map that is pinned.
pub(crate) async fn list(State(api): State<Api>) -> Answer {
    let dir = pins(&api.facts.bpf_root);
    let mut maps = blocking(move || -> io::Result<Vec<BpfMap>> {
        let map = |entry: fs::DirEntry| BpfMap { cache: None, path: text(&entry.path()) };
        fs::read_dir(dir)?.map(|entry| entry.map(map)).collect()
    })
    .await?
    .map_err(|error| ApiError::failed(format!("pinned maps cannot be listed: {error}")))?;
    maps.sort_by(|a, b| a.path.cmp(&b.path));
    ok(&BpfMapList { maps })
}

/// A map with its rows, if they have a text form: local addresses, identities, policies, services,
/// translations.
pub(crate) async fn get(State(api): State<Api>, Segment(name): Segment) -> Answer {
    let bpf_root = api.facts.bpf_root.clone();
    let path = pins(&bpf_root).join(&name);
    let missing = || ApiError::not_found(format!("there is no map {name}: GET /map lists them"));
    if name.contains('/') || name.starts_with('.') || !path.exists() {
        return Err(missing());
    }
    let endpoint = name.strip_prefix(POLICY.name).and_then(|rest| rest.strip_prefix('_'));
    let endpoint = endpoint.and_then(|number| number.parse().ok()).map(EndpointId);
    let expected = name.clone();
    let rows = move || -> Result<Option<Vec<BpfMapEntry>>, DatapathError> {
        let dump = Dump::at(&bpf_root);
        Ok(match (expected.as_str(), endpoint) {
            ("cilium_lxc", _) => Some(dump.lxc()?.iter().map(lxc).collect()),
            ("cilium_ipcache_v2", _) => Some(dump.ipcache()?.iter().map(ipcache).collect()),
            (_, Some(id)) => dump.policy(id)?.map(|rows| rows.iter().map(policy).collect()),
            (name, None) => match map_services::rows(&dump, name)? {
                None => map_translations::rows(&dump, name)?,
                rows => rows,
            },
        })
    };
    let cache = blocking(rows).await?.map_err(ApiError::failed)?;
    ok(&BpfMap { cache, path: text(&path) })
}

/// Reads the kernel on a thread where it may take its time.
pub(super) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(read)
        .await
        .map_err(|error| ApiError::failed(format!("reading the kernel broke off: {error}")))
}

fn pins(bpf_root: &Path) -> PathBuf {
    bpf_root.join("tc/globals")
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

pub(super) fn lxc((address, row): (&std::net::IpAddr, &LxcRow)) -> BpfMapEntry {
    let key = SocketAddr::new(*address, 0);
    if row.flags & lxc_flags::HOST != 0 {
        return BpfMapEntry::new(key, "(localhost)");
    }
    let mac = |mac: Mac| mac.to_string().to_uppercase();
    BpfMapEntry::new(
        key,
        format!(
            "id={:<5} sec_id={:<5} flags={:#06x} ifindex={:<3} mac={} nodemac={} parent_ifindex={:<3}",
            row.endpoint,
            row.identity.0,
            row.flags,
            row.ifindex,
            mac(row.mac),
            mac(row.node_mac),
            row.parent_ifindex,
        ),
    )
}

pub(super) fn ipcache((prefix, row): (&ipnet::IpNet, &IpcacheRow)) -> BpfMapEntry {
    let tunnel = row.tunnel.map_or_else(|| "0.0.0.0".to_owned(), |ip| ip.to_string());
    let names = ["skiptunnel", "hastunnel", "ipv6tunnel", "remotecluster"];
    let set = names.into_iter().enumerate().filter(|(bit, _)| row.flags >> bit & 1 == 1);
    let flags: Vec<_> = set.map(|(_, name)| name).collect();
    let flags = if flags.is_empty() { "<none>".to_owned() } else { flags.join(",") };
    BpfMapEntry::new(
        prefix,
        format!(
            "identity={} encryptkey={} tunnelendpoint={tunnel} flags={flags}",
            row.identity, row.key
        ),
    )
}

pub(super) fn policy((key, entry): (&PolicyKey, &PolicyEntry)) -> BpfMapEntry {
    let direction = match key.direction {
        Direction::Ingress => "Ingress",
        Direction::Egress => "Egress",
    };
    let verdict = if entry.deny { "deny" } else { "allow" };
    BpfMapEntry::new(
        format!(
            "{direction}: {} {}/{} bits={}",
            key.identity,
            key.port,
            protocol_name(key.protocol),
            key.bits
        ),
        format!("{verdict} precedence={} cookie={:08x}", entry.precedence, entry.cookie),
    )
}

#[cfg(test)]
mod tests {
    use volvox_actors::model::IdentityId;

    use super::*;

    #[test]
    fn rows_are_written_as_cilium_writes_them() {
        let row = LxcRow {
            ifindex: 5,
            endpoint: 442,
            mac: Mac([0x16, 0xbe, 0x9d, 0x9e, 0x5a, 4]),
            node_mac: Mac([2; 6]),
            identity: IdentityId(6219),
            ..LxcRow::default()
        };
        let entry = lxc((&"10.0.0.7".parse().unwrap(), &row));
        assert_eq!(entry.key, "10.0.0.7:0");
        assert_eq!(
            entry.value,
            "id=442   sec_id=6219  flags=0x0000 ifindex=5   mac=16:BE:9D:9E:5A:04 \
             nodemac=02:02:02:02:02:02 parent_ifindex=0  "
        );
        let host = LxcRow { flags: lxc_flags::HOST, ..LxcRow::default() };
        let entry = lxc((&"fd00::1".parse().unwrap(), &host));
        assert_eq!((entry.key.as_str(), entry.value.as_str()), ("[fd00::1]:0", "(localhost)"));
        let row = IpcacheRow { identity: IdentityId(1), flags: 3, ..IpcacheRow::default() };
        assert_eq!(
            ipcache((&"10.0.0.0/8".parse().unwrap(), &row)).value,
            "identity=1 encryptkey=0 tunnelendpoint=0.0.0.0 flags=skiptunnel,hastunnel"
        );
    }
}
