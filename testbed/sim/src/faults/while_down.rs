//! What happens to disk and kernel while no agent runs.

use base64::{Engine, prelude::BASE64_STANDARD};
use volvox_actors_simulated::{
    model::{EndpointId, IdentityId},
    ports::{ConfigRow, FsOp, IpcacheRow, LxcRow},
    state_directory::{EndpointRecord, StateFiles, scan},
    testing::MemoryFs,
};

use crate::{history::action::Version, world::node::Node};

/// As much of a record as was written.
const TORN: &[u8] = b"{ \"ID\": ";

/// Fields that came after 1.9.
const LATER: [&str; 4] = ["IPv4IPAMPool", "IPv6IPAMPool", "NetnsCookie", "Properties"];

impl Node {
    /// The state directory is as another version leaves it.
    pub(crate) fn rewrite_state(&mut self, version: Version) {
        if self.world.is_alive() {
            return;
        }
        self.world.disk.tamper(|files| {
            let found = scan(files);
            for found in found.records {
                // A torn record stays evidence, also where a build beside it could be read.
                let retained = files.read(&format!("{}/ep_config.json", found.record.id));
                if !matches!(retained, Ok(Some(bytes)) if bytes == TORN) {
                    write_as(files, &found.record, version);
                }
            }
        });
    }

    /// The record of a pod's endpoint is torn.
    pub(crate) fn tear_record(&mut self, number: u8) {
        let id =
            self.oracle.borrow().expected.pods.get(&number).and_then(|subject| subject.endpoint);
        let (false, Some(id)) = (self.world.is_alive(), id) else { return };
        let mut torn = false;
        self.world.disk.tamper(|files| {
            let read = files.read(&format!("{id}/ep_config.json"));
            torn = read.is_ok_and(|bytes| bytes.is_some_and(|bytes| bytes != TORN));
            if torn {
                files.write(&format!("{id}/ep_config.json"), TORN);
                for other in ["ep_config.h", "lxc_config.h"] {
                    files.write(&format!("{id}/{other}"), b"/*");
                }
            }
        });
        self.remembered.torn += usize::from(torn);
        self.remembered.tampered |= torn;
    }

    /// Another record claims the address of a pod's endpoint.
    pub(crate) fn duplicate_record(&mut self, number: u8, other: EndpointId) {
        let own =
            self.oracle.borrow().expected.pods.get(&number).and_then(|subject| subject.endpoint);
        let (false, Some(own)) = (self.world.is_alive(), own) else { return };
        self.world.disk.tamper(|files| {
            let found = scan(files);
            let Some(found) = found.records.iter().find(|found| found.record.id == own) else {
                return;
            };
            if !files.has(&other.to_string()) {
                write_as(
                    files,
                    &EndpointRecord { id: other, ..found.record.clone() },
                    Version::V1_19,
                );
            }
        });
    }

    /// The kernel holds rows of nobody.
    pub(crate) fn add_foreign_rows(&mut self) {
        if self.world.is_alive() {
            return;
        }
        let (id, address) = (EndpointId(3_000), "10.0.0.61");
        let address: std::net::IpAddr = address.parse().expect("an address");
        if self.oracle.borrow().expected.addresses().contains(&address) {
            return;
        }
        self.world.kernel.tamper(|state| {
            let row = LxcRow { endpoint: id.0, ifindex: 9_999, ..LxcRow::default() };
            state.rows.lxc.insert(address, row);
            state.pins.insert(id, id.slot(0));
            state.slots.insert(id.slot(0), Default::default());
            let config = ConfigRow {
                generation: 1,
                endpoint: id,
                flags: 0,
                identity: IdentityId(700),
                policy_slot: id.slot(0),
                ifindex: 9_999,
                addresses: Default::default(),
                mac: Default::default(),
                node_mac: Default::default(),
            };
            state.rows.config.insert(9_999, config);
            let row = IpcacheRow { identity: IdentityId(700), ..IpcacheRow::default() };
            state.rows.ipcache.insert("198.18.0.0/15".parse().expect("a prefix"), row);
        });
    }
}

/// Writes a record as that version does, in place of what there is.
fn write_as(files: &mut MemoryFs, record: &EndpointRecord, version: Version) {
    let mut document = serde_json::to_value(record).expect("a record is plain data");
    if let Some(fields) = document.as_object_mut()
        && version != Version::V1_19
    {
        LATER.iter().for_each(|field| drop(fields.remove(*field)));
    }
    let json = document.to_string();
    let number = match version {
        Version::V1_5 => "1.5.12",
        Version::V1_9 => "1.9.18",
        Version::V1_19 => "1.19.5",
    };
    let header = format!(
        "/*\n * Docker Container ID: {}\n * CILIUM_BASE64_{}:{}\n */\n",
        record.container_id,
        BASE64_STANDARD.encode(format!("\"{number}\"")),
        BASE64_STANDARD.encode(&json),
    );
    let id = record.id;
    // Removing what may be absent cannot fail in memory.
    let _ = files.apply(&FsOp::Remove(id.to_string().into()));
    match version {
        Version::V1_5 => files.write(&format!("{id}/lxc_config.h"), header.as_bytes()),
        Version::V1_9 => files.write(&format!("{id}/ep_config.h"), header.as_bytes()),
        Version::V1_19 => {
            files.write(&format!("{id}/ep_config.json"), json.as_bytes());
            files.write(&format!("{id}/ep_config.h"), header.as_bytes());
        }
    }
}
