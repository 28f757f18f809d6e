//! What stands in for Cilium where a node is taken over from it, and given back: programs of the lab's own,
//! at the pins and over the maps that Cilium has, and records of the form that it writes.

use std::{
    env, fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use anyhow::{Context, Result, anyhow, ensure};
use aya::{
    Ebpf, EbpfLoader,
    maps::ProgramArray,
    programs::{CgroupSockAddr, SchedClassifier},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map as Object, Value};
use volvox_actors::model::Mac;
use volvox_maps::{
    sys::{self, Map, NewMap, TCX_EGRESS},
    table::scan,
};
use volvox_system::netlink::Socket;

use super::{Node, ip};
use crate::compile;

/// The programs: the last one is compiled, and includes the others.
const SOURCES: [(&str, &str); 6] = [
    ("layouts.h", include_str!("former/layouts.h")),
    ("packet.h", include_str!("former/packet.h")),
    ("connections.h", include_str!("former/connections.h")),
    ("services.h", include_str!("former/services.h")),
    ("neighbours.h", include_str!("former/neighbours.h")),
    ("former.c", include_str!("former/former.c")),
];
/// By which whoever sends asks the receiver's policy. Only Cilium has it.
const CALLS: &str = "cilium_call_policy";
/// Maps over which they work, besides the policy of the one endpoint.
const MAPS: [&str; 11] = [
    "cilium_lxc",
    "cilium_ct4_global",
    "cilium_ct_any4_global",
    "cilium_ct6_global",
    "cilium_ct_any6_global",
    "cilium_lb4_services_v2",
    "cilium_lb4_backends_v3",
    "cilium_lb4_reverse_nat",
    "cilium_lb6_services_v2",
    "cilium_lb6_backends_v3",
    "cilium_lb6_reverse_nat",
];
/// Maps that Cilium allocates in advance.
const ALLOCATED: [&str; 7] = [
    "cilium_lb4_services_v2",
    "cilium_lb4_backends_v3",
    "cilium_lb4_reverse_nat",
    "cilium_lb6_services_v2",
    "cilium_lb6_backends_v3",
    "cilium_lb6_reverse_nat",
    "cilium_lb_affinity_match",
];
/// Maps of backends, whose rows end with a byte that Cilium leaves empty.
const BACKENDS: [&str; 2] = ["cilium_lb4_backends_v3", "cilium_lb6_backends_v3"];
/// Maps whose size Cilium draws from the machine's memory, and that of the lab.
const SIZED: [&str; 6] = [
    "cilium_ct4_global",
    "cilium_ct_any4_global",
    "cilium_snat_v4_external",
    "cilium_ct6_global",
    "cilium_ct_any6_global",
    "cilium_snat_v6_external",
];
const SIZE: u32 = 20_000;
/// What Cilium writes of an endpoint.
const MEMBERS: &str = "ID ContainerName dockerID ContainerNetnsPath DockerNetworkID DockerEndpointID \
    IfName IfIndex ParentIfIndex ContainerIfName DisableLegacyIdentifiers OpLabels LXCMAC IPv6 \
    IPv6IPAMPool IPv4 IPv4IPAMPool NodeMAC SecLabel Options DNSRules DNSRulesV2 DNSHistory DNSZombies \
    K8sPodName K8sNamespace K8sUID DatapathConfiguration CiliumEndpointUID Properties NetnsCookie";
/// The device that has the router's address, and its other end.
const HOST: [&str; 2] = ["cilium_host", "cilium_net"];

/// Numbers of one endpoint.
struct Numbers {
    id: u16,
    identity: u32,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    ifindex: u32,
    mac: Mac,
    node_mac: Mac,
}

/// A node as Cilium leaves it. Its programs go on serving until others take their places.
pub struct Former<'a> {
    node: &'a Node,
    version: String,
}

impl<'a> Former<'a> {
    /// The Cilium of a node that was settled before.
    pub fn at(node: &'a Node, version: &str) -> Self {
        Self { node, version: version.to_owned() }
    }

    /// Makes a node that an agent of ours left into one that Cilium left: nothing stays that only ours
    /// has, in the kernel or on the disk. `routers` are the addresses that pods route through. No agent runs.
    pub fn settle(node: &'a Node, version: &str, routers: &[IpAddr]) -> Result<Self> {
        let former = Self::at(node, version);
        // Only before there is traffic: what is tracked while rows are copied is lost, as Cilium loses it.
        if former.make_host(routers)? {
            former.resize()?;
        }
        former.empty_tags()?;
        former.serve()?;
        former.forget_ours()?;
        former.write_records()?;
        Ok(former)
    }

    /// An agent of Cilium that starts where one was: each link that is pinned is given a program of its
    /// own in place, and endpoints have none at what the stack sends to them. Routes of others it leaves.
    pub fn serve(&self) -> Result<()> {
        for numbers in self.numbers()? {
            let policy = self.pin(&format!("cilium_policy_v2_{:05}", numbers.id));
            let mut object = self.load(Some((&numbers, &policy)))?;
            let tail = classifier(&mut object, "cil_lxc_policy")?;
            let calls = object.take_map(CALLS).context("it has no calls")?;
            let mut calls = ProgramArray::try_from(calls)?;
            calls.set(numbers.id.into(), &aya_fd(&object, "cil_lxc_policy")?, 0)?;
            drop(tail);
            let from = classifier(&mut object, "cil_from_container")?;
            let links = self.root().join(format!("cilium/endpoints/{}/links", numbers.id));
            put(&links.join("cil_from_container"), &from)?;
            for to in ["cil_to_container", "cil_to_container_unsettled"] {
                let _ = fs::remove_file(links.join(to));
            }
        }
        let mut object = self.load(None)?;
        for device in fs::read_dir(self.root().join("cilium/devices")).into_iter().flatten() {
            for link in fs::read_dir(device?.path().join("links")).into_iter().flatten() {
                let path = link?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                put(&path, &classifier(&mut object, &name)?)?;
            }
        }
        Ok(())
    }

    /// Has connecting sockets below a cgroup run a program of Cilium's name, too.
    pub fn balance_sockets(&self, cgroup: &Path) -> Result<()> {
        let mut object = self.load(None)?;
        let program = object.program_mut("cil_sock4_connect").context("it has no such program")?;
        let program: &mut CgroupSockAddr = program.try_into()?;
        program.load()?;
        let program = program.fd()?.as_fd().try_clone_to_owned()?;
        let directory = self.root().join("cilium/socketlb/links/cgroup");
        fs::create_dir_all(&directory)?;
        let cgroup = fs::File::open(cgroup)?;
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&cgroup).cast_unsigned();
        const CONNECT4: u32 = 10;
        let link = sys::link_create(&program, descriptor, CONNECT4)?;
        Ok(sys::pin(&link, &directory.join("cil_sock4_connect"))?)
    }

    fn root(&self) -> &Path {
        self.node.bpf_root()
    }

    fn pin(&self, map: &str) -> PathBuf {
        self.root().join("tc/globals").join(map)
    }

    /// Loads the programs of an endpoint, or those of devices.
    fn load(&self, endpoint: Option<(&Numbers, &Path)>) -> Result<Ebpf> {
        let mut loader = EbpfLoader::new();
        // Those of a family that is off are not there.
        for map in MAPS.iter().filter(|map| self.pin(map).exists()).chain([&CALLS]) {
            loader.map_pin_path(map, self.pin(map));
        }
        let none = Numbers {
            id: 0,
            identity: 0,
            ipv4: None,
            ipv6: None,
            ifindex: 0,
            mac: Mac::default(),
            node_mac: Mac::default(),
        };
        let numbers = endpoint.map_or(&none, |(numbers, _)| numbers);
        if let Some((_, policy)) = endpoint {
            loader.map_pin_path("cilium_policy_v2", policy);
        }
        let id = u32::from(numbers.id);
        let (mut ipv4, ipv6) = ([0; 16], numbers.ipv6.map_or([0; 16], |it| it.octets()));
        ipv4[..4].copy_from_slice(&numbers.ipv4.map_or([0; 4], |it| it.octets()));
        let [mac, node_mac] =
            [numbers.mac, numbers.node_mac].map(|Mac([a, b, c, d, e, f])| [a, b, c, d, e, f, 0, 0]);
        loader.override_global("EP_ID", &id, true);
        loader.override_global("IDENTITY", &numbers.identity, true);
        loader.override_global("IPV4", &ipv4, true);
        loader.override_global("IPV6", &ipv6, true);
        loader.override_global("IFINDEX", &numbers.ifindex, true);
        loader.override_global("MAC", &mac, true);
        loader.override_global("NODE_MAC", &node_mac, true);
        loader.load(object()?).context("load what stands in for Cilium")
    }

    /// What Cilium's maps are like where ours are another size, or not allocated in advance.
    fn resize(&self) -> Result<()> {
        for name in ALLOCATED.iter().chain(&SIZED) {
            let path = self.pin(name);
            let Ok(before) = Map::pinned(&path) else { continue };
            let info = before.info();
            let max_entries = if SIZED.contains(name) { SIZE } else { info.max_entries };
            if (info.max_entries, info.flags) == (max_entries, 0) {
                continue;
            }
            let map = Map::create(&NewMap {
                name,
                map_type: info.map_type,
                key_size: info.key_size,
                value_size: info.value_size,
                max_entries,
                flags: 0,
                inner: None,
            })?;
            let mut copied = Ok(());
            scan(&before, |keys, values| {
                copied = map.update_batch(keys, values).1;
                copied.is_ok()
            })?;
            copied?;
            fs::remove_file(&path)?;
            sys::pin(&map, &path)?;
        }
        Ok(())
    }

    /// Takes out of backends' rows what only we write there.
    fn empty_tags(&self) -> Result<()> {
        for name in BACKENDS {
            let Ok(map) = Map::pinned(&self.pin(name)) else { continue };
            let size = map.info().value_size as usize;
            let mut rows = Vec::new();
            scan(&map, |keys, values| {
                let all = keys.chunks(4).zip(values.chunks(size));
                rows.extend(all.map(|(key, value)| (key.to_vec(), value.to_vec())));
                true
            })?;
            for (key, mut value) in rows {
                if let Some(tag) = value.last_mut() {
                    *tag = 0;
                }
                map.update(&key, &value)?;
            }
        }
        Ok(())
    }

    /// Cilium's device: routers' addresses, and the ways by which the node reaches pods. False if it is there.
    fn make_host(&self, routers: &[IpAddr]) -> Result<bool> {
        let [host, peer] = HOST;
        let mut netlink = Socket::open()?;
        if netlink.link_by_name(host)?.is_some() {
            return Ok(false);
        }
        ip(&format!("link add {host} type veth peer name {peer}"))?;
        for name in HOST {
            ip(&format!("link set {name} arp off up"))?;
        }
        for router in routers {
            if router.is_ipv4() {
                ip(&format!("addr add {router}/32 dev {host}"))?;
                ip(&format!("route add {router}/32 dev {host} scope link"))?;
                ip(&format!("route add 10.11.0.0/16 via {router} dev {host} src {router}"))?;
            } else {
                // The address brings a route, and may be no gateway.
                ip(&format!("addr add {router}/128 dev {host} nodad"))?;
                ip(&format!("route add fd11::/96 dev {host} src {router}"))?;
            }
        }
        let ifindex = netlink.link_by_name(host)?.context("it was just made")?.ifindex;
        let program = classifier(&mut self.load(None)?, "cil_from_host")?;
        let directory = self.root().join("cilium/devices").join(host).join("links");
        fs::create_dir_all(&directory)?;
        let link = sys::link_create(&program, ifindex, TCX_EGRESS)?;
        sys::pin(&link, &directory.join("cil_from_host"))?;
        Ok(true)
    }

    /// Removes what Cilium does not have.
    fn forget_ours(&self) -> Result<()> {
        let mut netlink = Socket::open()?;
        for (address, ifindex) in netlink.routes()? {
            netlink.delete_route(address, ifindex)?;
        }
        for entry in fs::read_dir(self.root().join("tc/globals"))? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("volvox_") {
                fs::remove_file(entry.path())?;
            }
        }
        let ours = self.root().join("volvox");
        if ours.is_dir() {
            remove_pins(&ours)?;
        }
        for path in [self.node.path("lib"), self.node.path("cilium")] {
            for entry in fs::read_dir(&path)? {
                let entry = entry?;
                if entry.file_name() == "state" {
                    continue;
                }
                match entry.file_type()?.is_dir() {
                    true => fs::remove_dir_all(entry.path())?,
                    false => fs::remove_file(entry.path())?,
                }
            }
        }
        Ok(())
    }

    /// Directories of endpoints' records.
    fn directories(&self) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.node.path("cilium/state"))? {
            let path = entry?.path();
            let is_number = |name: &std::ffi::OsStr| name.to_string_lossy().parse::<u16>().is_ok();
            if path.is_dir() && path.file_name().is_some_and(is_number) {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }

    fn write_records(&self) -> Result<()> {
        let known: Vec<&str> = MEMBERS.split_whitespace().collect();
        for directory in self.directories()? {
            let text = fs::read(directory.join("ep_config.json"))?;
            let all: Object<String, Value> = serde_json::from_slice(&text)?;
            let all = all.into_iter().filter(|(name, _)| known.contains(&name.as_str()));
            let json = serde_json::to_vec(&all.collect::<Object<_, _>>())?;
            let version = format!("\"{} 01234567 2026-01-01T00:00:00+00:00 go\"", self.version);
            let header = format!(
                "/*\n * CILIUM_BASE64_{}:{}\n */\n",
                BASE64_STANDARD.encode(version),
                BASE64_STANDARD.encode(&json)
            );
            fs::write(directory.join("ep_config.json"), &json)?;
            fs::write(directory.join("ep_config.h"), header)?;
        }
        for entry in fs::read_dir(self.node.path("cilium/state"))? {
            let path = entry?.path();
            if path.is_file() {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn numbers(&self) -> Result<Vec<Numbers>> {
        let mut all = Vec::new();
        for directory in self.directories()? {
            let record: Value =
                serde_json::from_slice(&fs::read(directory.join("ep_config.json"))?)?;
            let text = |name: &str| record[name].as_str().unwrap_or_default();
            let number = |value: &Value| value.as_u64().and_then(|it| u32::try_from(it).ok());
            let mac = |name: &str| text(name).parse().map_err(|_| anyhow!("{name} is no address"));
            all.push(Numbers {
                id: number(&record["ID"]).and_then(|id| u16::try_from(id).ok()).context("no ID")?,
                identity: number(&record["SecLabel"]["id"]).context("no identity")?,
                ipv4: text("IPv4").parse().ok(),
                ipv6: text("IPv6").parse().ok(),
                ifindex: number(&record["IfIndex"]).context("no interface")?,
                mac: mac("LXCMAC")?,
                node_mac: mac("NodeMAC")?,
            });
        }
        ensure!(!all.is_empty(), "there are no records");
        Ok(all)
    }
}

/// Gives a pinned link a program, in place of the one that it runs.
fn put(path: &Path, program: &OwnedFd) -> Result<()> {
    let link =
        sys::get(path).with_context(|| format!("nothing is pinned at {}", path.display()))?;
    let old = sys::program_by_id(sys::link_info(&link)?.prog_id)?;
    Ok(sys::link_update(&link, program, &old)?)
}

/// A program of that name, loaded.
fn classifier(object: &mut Ebpf, name: &str) -> Result<OwnedFd> {
    let program = object.program_mut(name).with_context(|| format!("there is no {name}"))?;
    let program: &mut SchedClassifier = program.try_into()?;
    if program.fd().is_err() {
        program.load()?;
    }
    Ok(program.fd()?.as_fd().try_clone_to_owned()?)
}

fn aya_fd(object: &Ebpf, name: &str) -> Result<aya::programs::ProgramFd> {
    let program = object.program(name).context("it was just loaded")?;
    let program: &SchedClassifier = program.try_into()?;
    Ok(program.fd()?.try_clone()?)
}

fn remove_pins(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => remove_pins(&entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(fs::remove_dir(directory)?)
}

/// The compiled programs.
fn object() -> Result<&'static [u8]> {
    static OBJECT: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(object) = OBJECT.get() {
        return Ok(object);
    }
    let directory = tempfile::tempdir()?;
    for (name, text) in SOURCES {
        fs::write(directory.path().join(name), text)?;
    }
    let (source, object) = (directory.path().join("former.c"), directory.path().join("former.o"));
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let path = source.to_str().context("the path is no text")?;
    compile::compile((&clang, "", env::consts::ARCH), path, &object).map_err(|e| anyhow!(e))?;
    let bytes = fs::read(&object)?;
    Ok(OBJECT.get_or_init(|| bytes))
}
