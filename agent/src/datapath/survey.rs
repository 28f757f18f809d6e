//! What Cilium left in the kernel, looked at before anything of it is touched: whose programs run at
//! which hooks, which maps can go on, and what is in force that this agent does not do. It changes
//! nothing.

use std::{collections::BTreeMap, fs, io, os::unix::fs::MetadataExt};

use volvox_actors::{
    model::EndpointId,
    ports::{HOST_DEVICE, HOST_PEER, Hook, KernelError, Link},
};
use volvox_bpf_progs::maps::{CONNECTIONS, MAPS, MapType, POLICY};
use volvox_maps::{
    error::{DatapathError, netlink, refused},
    pins::{Pins, names},
    programs::is_ours_by_id,
    sys::{self, Map, TCX_INGRESS},
    table::scan,
};
use volvox_system::netlink::Socket;

use super::{
    DatapathConfig, devices, hooks,
    maglev::TableMaps,
    maps::{describe_map, desired, is_named, new_map, same_layout, same_size},
    takeover::{cilium_at, cilium_program},
};

/// What was found, each line for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSurvey {
    /// Endpoints that run a program of Cilium at what they send, and at which interface.
    pub endpoints: BTreeMap<EndpointId, u32>,
    /// What goes on as it is.
    pub kept: Vec<String>,
    /// What is given ours, or is left.
    pub changed: Vec<String>,
    /// What is in force and would not be any more.
    pub lacking: Vec<String>,
    /// What keeps a takeover from being begun.
    pub refused: Vec<String>,
}

/// Maps of Cilium's that hold rows only while something is in force that this agent does not have.
const EVIDENCE: [(&str, &str); 11] = [
    ("cilium_egress_gw_policy_v4", "egress gateway: pods leave by their own node"),
    ("cilium_egress_gw_policy_v4_v2", "egress gateway: pods leave by their own node"),
    ("cilium_egress_gw_policy_v6", "egress gateway: pods leave by their own node"),
    ("cilium_l2_responder_v4", "L2 announcements: nobody answers for addresses of services"),
    ("cilium_l2_responder_v6", "L2 announcements: nobody answers for addresses of services"),
    ("cilium_vtep_map", "VTEP: there are no tunnels to other VXLAN endpoints"),
    ("cilium_throttle", "bandwidth manager: pods' bandwidth is not limited"),
    ("cilium_auth_map", "mutual authentication: rules that ask for it are refused"),
    ("cilium_skip_lb4", "local redirect policies are not read"),
    ("cilium_skip_lb6", "local redirect policies are not read"),
    ("cilium_srv6_policy_v4", "SRv6: there are no such tunnels"),
];
/// Interfaces that are there only while such a thing is in force.
const EVIDENCE_LINKS: [(&str, &str); 3] = [
    ("cilium_wg0", "WireGuard: traffic between nodes is not encrypted"),
    ("cilium_geneve", "Geneve: tunnels are VXLAN"),
    ("cilium_ipip4", "IPIP: services are not passed on by such tunnels"),
];
/// Flags of services' rows, `flags2`, that stand for such things.
const EVIDENCE_FLAGS: [(u8, &str); 3] = [
    (1, "local redirect policies are not read"),
    (2, "NAT46 and NAT64 of services: families are not translated"),
    (4, "services that lead to Envoy (ingress, gateway): there is no Envoy"),
];
/// Where `flags2` is in a row of a service, and the first byte of its count of backends.
const FLAGS2: usize = 9;

/// Looks at the kernel, at the interfaces of endpoints that have links or, by their records, are there.
pub fn survey(
    config: &DatapathConfig,
    recorded: &BTreeMap<EndpointId, u32>,
) -> Result<KernelSurvey, DatapathError> {
    let pins = Pins::at(&config.bpf_root);
    let mut socket = Socket::open()?;
    let links = socket.links()?;
    let mut survey = KernelSurvey::default();
    let mut places = recorded.clone();
    places.extend(endpoints(&pins)?);
    for (endpoint, ifindex) in places {
        if cilium_at(&mut socket, ifindex, hooks::spot(Hook::FromContainer))?.is_some() {
            survey.endpoints.insert(endpoint, ifindex);
        }
    }
    if survey.endpoints.is_empty() {
        return Ok(survey);
    }
    survey.look_at_hooks(&mut socket, &links)?;
    survey.look_at_devices(&pins)?;
    survey.look_at_sockets(&pins, config);
    survey.look_at_maps(&pins, config)?;
    survey.look_at_connections(&pins);
    survey.look_at_policies(&pins)?;
    survey.look_for_evidence(&pins, &mut socket, &links)?;
    Ok(survey)
}

/// Endpoints that have links, and at which interface.
fn endpoints(pins: &Pins) -> Result<BTreeMap<EndpointId, u32>, KernelError> {
    let mut found = BTreeMap::new();
    for id in pins.linked_endpoints()? {
        if let Some(ifindex) = hooks::linked_ifindex(pins, id)? {
            found.insert(id, ifindex);
        }
    }
    Ok(found)
}

impl KernelSurvey {
    /// Who else runs at endpoints.
    fn look_at_hooks(
        &mut self,
        socket: &mut Socket,
        links: &BTreeMap<u32, Link>,
    ) -> Result<(), KernelError> {
        for (endpoint, ifindex) in self.endpoints.clone() {
            let name = links.get(&ifindex).map_or("an interface", |link| link.name.as_str());
            for spot in hooks::all() {
                let running = sys::running(ifindex, spot.attach_type).unwrap_or_default();
                let filters = socket.filter_show(ifindex, spot.direction()).map_err(netlink)?;
                let all = running.into_iter().map(|it| it.program);
                let (mut cilium, mut others) = (Vec::new(), Vec::new());
                for id in all.chain(filters.into_iter().map(|filter| filter.prog_id)) {
                    match cilium_program(id)? {
                        Some(found) => {
                            cilium.push(format!("program {} ({})", found.id, found.name))
                        }
                        None if is_ours_by_id(id)? => {}
                        None => others.push(format!("program {id} ({})", program_name(id))),
                    }
                }
                if cilium.len() > 1 {
                    self.refused.push(format!(
                        "endpoint {endpoint}: {} of Cilium at one hook of {name}: {}; remove the one \
                         that is not its agent's (`bpftool net`)",
                        cilium.len(),
                        cilium.join(", ")
                    ));
                }
                if !others.is_empty() {
                    let others = others.join(", ");
                    self.refused.push(format!(
                        "endpoint {endpoint}: {others} runs at {name}, too, and is neither Cilium's \
                         nor ours; stop who attached it, and remove it"
                    ));
                }
            }
        }
        let count = self.endpoints.len();
        self.changed.push(format!("{count} endpoints: their links get our programs, in place"));
        Ok(())
    }

    fn look_at_devices(&mut self, pins: &Pins) -> Result<(), KernelError> {
        let known: Vec<_> = devices::all().map(|spot| spot.program).collect();
        for device in names(&pins.devices()).unwrap_or_default() {
            let directory = pins.device(&device).join("links");
            let all = names(&directory).unwrap_or_default();
            let (ours, others): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|name| known.contains(&name.as_str()));
            if !ours.is_empty() {
                let ours = ours.join(", ");
                self.changed.push(format!("device {device}: {ours} get our programs, in place"));
            }
            if !others.is_empty() && [HOST_DEVICE, HOST_PEER].contains(&device.as_str()) {
                let others = others.join(", ");
                self.changed.push(format!(
                    "device {device}: {others} stay as they are; packets have other ways"
                ));
            } else if !others.is_empty() {
                let others = others.join(", ");
                self.refused
                    .push(format!("device {device} has links that are not known: {others}"));
            }
        }
        Ok(())
    }

    /// Programs of sockets are Cilium's: are they to be ours?
    fn look_at_sockets(&mut self, pins: &Pins, config: &DatapathConfig) {
        let directory = pins.socket_links();
        let links = names(&directory).unwrap_or_default();
        let found = links.iter().filter_map(|name| {
            let link = sys::get(&directory.join(name)).and_then(sys::link_cgroup).ok()?;
            cilium_program(link.prog_id).ok().flatten().map(|_| link.cgroup)
        });
        let found: Vec<u64> = found.collect();
        let Some(first) = found.first() else {
            if config.sockets.is_some() {
                self.changed.push("sockets: they are balanced from now on".to_owned());
            }
            return;
        };
        let wanted =
            config.sockets.as_ref().map(|path| (path, fs::metadata(path).map(|it| it.ino())));
        match wanted {
            None => self.lacking.push(
                "load balancing by socket is on in Cilium and off here: say --bpf-lb-sock=true, or \
                 Cilium's programs stay there as they are"
                    .to_owned(),
            ),
            Some((path, inode)) if inode.as_ref().ok() != Some(first) => self.refused.push(format!(
                "programs of sockets run at another cgroup than {}: name Cilium's with --cgroup-root",
                path.display()
            )),
            Some(_) => self
                .changed
                .push(format!("sockets: {} links get our programs, in place", found.len())),
        }
    }

    fn look_at_maps(&mut self, pins: &Pins, config: &DatapathConfig) -> Result<(), DatapathError> {
        let mut same = Vec::new();
        let cilium = MAPS.iter().filter(|spec| spec.name.starts_with("cilium_"));
        for spec in cilium.filter(|spec| config.features.uses(spec.of)) {
            let Ok(map) = Map::pinned(&pins.map(spec.name)) else { continue };
            let desired = desired(spec, config.sizes)?;
            if !same_layout(map.info(), &desired) {
                self.refused.push(format!(
                    "map {} is of another layout, and its rows cannot be used: {}",
                    spec.name,
                    describe_map(&map)
                ));
                continue;
            }
            if spec.map_type == MapType::HashOfMaps
                && has_rows(&map)
                && !TableMaps::of(pins, config.sizes)?.are_those_of(&map)?
            {
                self.refused.push(format!(
                    "map {} has tables of another size: give --bpf-lb-maglev-table-size Cilium's value",
                    spec.name
                ));
            }
            match same_size(map.info(), &desired) {
                true => same.push(spec.name),
                false => {
                    self.kept.push(format!("map {} as it is: {}", spec.name, describe_map(&map)));
                }
            }
        }
        if !same.is_empty() {
            self.kept.push(format!("maps with their rows: {}", same.join(" ")));
        }
        Ok(())
    }

    /// Whether programs track connections in the maps that are pinned: those that Cilium replaced are lost.
    fn look_at_connections(&mut self, pins: &Pins) {
        for (name, ..) in CONNECTIONS {
            let Ok(pinned) = Map::pinned(&pins.map(name)).map(|map| map.info().id) else {
                continue;
            };
            let elsewhere = |ifindex: &u32| {
                let running = sys::running(*ifindex, TCX_INGRESS).unwrap_or_default();
                let programs =
                    running.into_iter().filter_map(|it| sys::program_by_id(it.program).ok());
                let maps = programs.filter_map(|it| sys::program_info(it).ok());
                let maps = maps.flat_map(|info| info.map_ids).filter_map(|id| Map::by_id(id).ok());
                maps.into_iter().any(|map| is_named(map.info(), name) && map.info().id != pinned)
            };
            let count = self.endpoints.values().filter(|ifindex| elsewhere(ifindex)).count();
            if count > 0 {
                self.lacking.push(format!(
                    "connections of {count} endpoints: their programs have another map {name} than the one \
                     that is pinned; start Cilium until it is ready again, and they go on"
                ));
            }
        }
    }

    /// What stands in policies that is not enforced here, and endpoints that have none.
    fn look_at_policies(&mut self, pins: &Pins) -> Result<(), KernelError> {
        let (mut proxied, mut authenticated) = (Vec::new(), Vec::new());
        for endpoint in self.endpoints.keys() {
            let Ok(map) = Map::pinned(&pins.policy(*endpoint)) else {
                self.refused.push(format!(
                    "endpoint {endpoint} has no policy map: start Cilium until it is ready again"
                ));
                continue;
            };
            if !same_layout(map.info(), &new_map(&POLICY, POLICY.max_entries))
                || map.info().flags != POLICY.flags
            {
                let found = describe_map(&map);
                self.refused.push(format!(
                    "endpoint {endpoint}: its policy map is of another layout: {found}"
                ));
                continue;
            }
            let (mut proxy, mut auth) = (false, false);
            let scanned = scan(&map, |_, values| {
                for row in values.chunks_exact(POLICY.value_size as usize) {
                    proxy |= row[..2] != [0, 0];
                    auth |= row[3] & 0x7f != 0;
                }
                true
            });
            scanned.map_err(|error| refused("read", "a policy map", &error))?;
            proxied.extend(proxy.then(|| endpoint.to_string()));
            authenticated.extend(auth.then(|| endpoint.to_string()));
        }
        if !proxied.is_empty() {
            let all = proxied.join(", ");
            self.lacking.push(format!(
                "rules for L7 or DNS: what they let through is dropped, at endpoints {all}"
            ));
        }
        if !authenticated.is_empty() {
            let all = authenticated.join(", ");
            self.lacking.push(format!(
                "rules that ask for authentication: what they let through is dropped, at endpoints {all}"
            ));
        }
        Ok(())
    }

    fn look_for_evidence(
        &mut self,
        pins: &Pins,
        socket: &mut Socket,
        links: &BTreeMap<u32, Link>,
    ) -> Result<(), KernelError> {
        let mut found: Vec<&str> = Vec::new();
        for (name, what) in EVIDENCE {
            let Ok(map) = Map::pinned(&pins.map(name)) else { continue };
            found.extend(has_rows(&map).then_some(what));
        }
        for (name, what) in EVIDENCE_LINKS {
            found.extend(links.values().any(|link| link.name == name).then_some(what));
        }
        for name in ["cilium_lb4_services_v2", "cilium_lb6_services_v2"] {
            let Ok(map) = Map::pinned(&pins.map(name)) else { continue };
            let value = map.value_bytes();
            let mut flags = 0;
            let scanned = scan(&map, |_, values| {
                let all = values.chunks_exact(value);
                flags = all.fold(flags, |all, row| all | row.get(FLAGS2).copied().unwrap_or(0));
                true
            });
            scanned.map_err(|error: io::Error| refused("read", name, &error))?;
            found.extend(EVIDENCE_FLAGS.iter().filter(|(bit, _)| flags & bit != 0).map(|it| it.1));
        }
        for ifindex in self.endpoints.values() {
            let name = links.get(ifindex).map(|link| link.name.clone()).unwrap_or_default();
            let device = socket.device(&name).map_err(netlink)?;
            if device.is_some_and(|device| device.kind == "netkit") {
                self.refused.push(format!(
                    "{name} is a netkit interface, at which no program of ours runs: give pods veth \
                     interfaces first (datapath-mode)"
                ));
            }
        }
        found.dedup();
        self.lacking.extend(found.into_iter().map(str::to_owned));
        Ok(())
    }
}

fn program_name(id: u32) -> String {
    sys::program_by_id(id).and_then(sys::program_info).map(|info| info.text()).unwrap_or_default()
}

fn has_rows(map: &Map) -> bool {
    let mut any = false;
    let scanned = scan(map, |keys, _| {
        any |= !keys.is_empty();
        !any
    });
    scanned.is_ok() && any
}
