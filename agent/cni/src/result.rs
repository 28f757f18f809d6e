//! Results of ADD: written in the shape of each version of the specification, and read back from
//! `prevResult`.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value, json};
use volvox_actors::model::Mac;

use super::{CniError, CniVersion, config::undecodable};

/// What an ADD made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddResult {
    /// The host side's name.
    pub(super) host_name: String,
    /// The host side's Ethernet address.
    pub(super) host_mac: Mac,
    /// The interface's name inside the container.
    pub(super) ifname: String,
    /// Its Ethernet address.
    pub(super) mac: Mac,
    /// Its maximum transmission unit, bytes.
    pub(super) mtu: u32,
    /// File that names the container's network namespace.
    pub(super) sandbox: String,
    /// Its addresses, and the router of each.
    pub(super) addresses: Vec<(IpAddr, IpAddr)>,
    /// Those of the routers through which everything goes.
    pub(super) routers: Vec<IpAddr>,
    /// As the configuration had it.
    pub(super) dns: Map<String, Value>,
}

/// Place of the container's interface in the list of interfaces.
const CONTAINER_INTERFACE: usize = 1;

impl AddResult {
    /// In the shape of a version of the specification.
    pub(super) fn to_json(&self, version: CniVersion) -> Value {
        json!({
            "cniVersion": version.as_str(),
            "interfaces": self.interfaces(version),
            "ips": self.addresses.iter().map(|pair| ip(*pair, version)).collect::<Vec<_>>(),
            "routes": self.routers.iter().flat_map(|router| self.routes(*router, version)).collect::<Vec<_>>(),
            "dns": self.dns,
        })
    }

    fn interfaces(&self, version: CniVersion) -> Value {
        let mut host = json!({"name": self.host_name, "mac": self.host_mac.to_string()});
        let mut container = json!({
            "name": self.ifname,
            "mac": self.mac.to_string(),
            "sandbox": self.sandbox,
        });
        if version >= CniVersion::V1_1_0 {
            host["mtu"] = self.mtu.into();
            container["mtu"] = self.mtu.into();
        }
        json!([host, container])
    }

    /// The router on the link, and everything else through it.
    fn routes(&self, router: IpAddr, version: CniVersion) -> [Value; 2] {
        let everything = if router.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        let mut routes =
            [json!({"dst": IpNet::from(router)}), json!({"dst": everything, "gw": router})];
        if version >= CniVersion::V1_1_0 {
            for route in &mut routes {
                route["mtu"] = self.mtu.into();
            }
        }
        routes
    }
}

fn ip((address, router): (IpAddr, IpAddr), version: CniVersion) -> Value {
    let mut ip = json!({
        "address": IpNet::from(address),
        "gateway": router,
        "interface": CONTAINER_INTERFACE,
    });
    if version < CniVersion::V1_0_0 {
        ip["version"] = if address.is_ipv4() { "4" } else { "6" }.into();
    }
    ip
}

/// What of an earlier result is compared with what is there, or handed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreviousResult {
    /// Name and Ethernet address of each interface inside the container.
    pub interfaces: Vec<(String, Option<Mac>)>,
    /// Each address.
    pub addresses: Vec<IpNet>,
    /// The name of the interface inside the container that each of them is said to be on.
    pub(super) places: Vec<Option<String>>,
    /// All of it, as it came.
    pub(super) whole: Map<String, Value>,
}

impl PreviousResult {
    /// Reads `prevResult`, of any version.
    pub(super) fn parse(result: &Map<String, Value>) -> Result<Self, CniError> {
        let interfaces = list(result, "interfaces")?;
        let place = |ip: &Value| {
            let at = ip.get("interface").and_then(Value::as_u64)?;
            let one = interfaces.get(usize::try_from(at).ok()?)?;
            Some(text(one, "name").to_owned())
        };
        Ok(Self {
            places: list(result, "ips")?.iter().map(place).collect(),
            whole: result.clone(),
            interfaces: interfaces
                .iter()
                .filter(|one| !text(one, "sandbox").is_empty())
                .map(|one| (text(one, "name").to_owned(), text(one, "mac").parse().ok()))
                .collect(),
            addresses: list(result, "ips")?
                .iter()
                .map(|ip| {
                    text(ip, "address")
                        .parse()
                        .map_err(|error| undecodable("prevResult.ips.address", error))
                })
                .collect::<Result<_, _>>()?,
        })
    }
}

impl PreviousResult {
    /// The addresses that are said to be on that interface, or on none in particular.
    pub(super) fn addresses_of(&self, ifname: &str) -> impl Iterator<Item = &IpNet> {
        let at =
            move |place: &&Option<String>| place.as_deref().is_none_or(|place| place == ifname);
        let all = self.addresses.iter().zip(&self.places);
        all.filter(move |(_, place)| at(place)).map(|(address, _)| address)
    }

    /// The whole of it as a result: nothing is added, and nothing lost.
    pub(super) fn hand_on(&self, version: CniVersion) -> Value {
        let mut whole = self.whole.clone();
        whole.entry("cniVersion").or_insert_with(|| version.as_str().into());
        Value::Object(whole)
    }
}

fn list<'a>(result: &'a Map<String, Value>, key: &str) -> Result<&'a [Value], CniError> {
    match result.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(undecodable(&format!("prevResult.{key}"), "a list is expected")),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
