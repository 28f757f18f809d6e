//! What a cluster does for services: each has addresses, and the pods that its selector means are behind it.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Member, World, broken, cluster::OWN_ADDRESS};
use crate::{
    chaos::history::{ManifestName, Name},
    lab::objects::list,
    traffic::{Kind, Responder},
};

/// The file that has all services, and who is behind them.
const FILE: &str = "services.yaml";

/// Which pods a service means, and where.
pub(super) struct Service {
    selector: Vec<(String, String)>,
    ports: Vec<Value>,
}

impl Service {
    fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let selector = spec["selector"].as_object().cloned().unwrap_or_default();
        let selector = selector.iter().map(|(key, value)| {
            (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        });
        Self {
            selector: selector.collect(),
            ports: spec["ports"].as_array().cloned().unwrap_or_default(),
        }
    }

    /// One without a selector means nobody.
    fn means(&self, labels: &super::Labels) -> bool {
        !self.selector.is_empty()
            && self.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

/// The port at the pods, and whether it is UDP.
fn target(port: &Value) -> (u16, bool) {
    let number = port["targetPort"].as_u64().or_else(|| port["port"].as_u64()).unwrap_or(80);
    (u16::try_from(number).unwrap_or(80), port["protocol"] == "UDP")
}

impl World<'_> {
    /// Gives a service addresses of both families, unless it has some.
    pub(super) fn give_addresses(&self, name: &ManifestName, object: &mut Value) {
        if object["spec"]["clusterIPs"].is_array() || object["spec"]["clusterIP"].is_string() {
            return;
        }
        let known = self.manifests.get(name).map(|it| it["spec"]["clusterIPs"].clone());
        let number = 1 + self.manifests.keys().filter(|it| it.kind == "service").count();
        if self.around.servers.cluster.is_some() {
            // The first is that of the server itself, which has one family.
            let known = known.map(|all| all[0].clone());
            object["spec"]["clusterIP"] =
                known.unwrap_or_else(|| json!(format!("10.96.0.{}", number + 1)));
            return;
        }
        let new = || json!([format!("10.96.0.{number}"), format!("fd96::{number:x}")]);
        object["spec"]["clusterIPs"] = known.unwrap_or_else(new);
    }

    fn services(&self) -> impl Iterator<Item = (&Name, &Value)> {
        let services = self.manifests.iter().filter(|(name, _)| name.kind == "service");
        services.map(|(name, object)| (&name.name, object))
    }

    /// Writes down who is behind each service, once the new ones answer.
    pub(super) fn follow_services(&mut self) -> Result<()> {
        let services: Vec<_> =
            self.services().map(|(name, object)| (name.clone(), object.clone())).collect();
        if services.is_empty() {
            // There may have been none.
            let _ = self.node.remove_manifest(FILE);
            return Ok(());
        }
        let (mut objects, mut slices) = (Vec::new(), Vec::new());
        for (name, object) in services {
            let service = Service::of(&object);
            for (pod, member) in &mut self.pods {
                if pod.namespace == name.namespace && service.means(&member.labels) {
                    member.answer(&service.ports)?;
                }
            }
            objects.push(object);
            slices.extend([false, true].map(|ipv6| self.slice(&name, &service, ipv6)));
        }
        if let Some(cluster) = &mut self.around.servers.cluster {
            return cluster.follow(&slices);
        }
        objects.extend(slices);
        self.node.write_manifest(FILE, &list(&objects))
    }

    fn slice(&self, name: &Name, service: &Service, ipv6: bool) -> Value {
        let means = |(pod, member): &(&Name, &Member)| {
            pod.namespace == name.namespace && service.means(&member.labels)
        };
        let behind = self.pods.iter().filter(means);
        let addresses = behind.filter_map(|(_, member)| member.pod.address(ipv6).ok());
        let ports = service.ports.iter().map(|port| {
            let (number, is_udp) = target(port);
            let transport = if is_udp { "UDP" } else { "TCP" };
            json!({ "name": port["name"], "port": number, "protocol": transport })
        });
        let family = if ipv6 { "IPv6" } else { "IPv4" };
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "namespace": name.namespace, "name": format!("{}-{family}", name.name).to_lowercase(),
                "labels": { "kubernetes.io/service-name": name.name },
            },
            "addressType": family,
            "ports": ports.collect::<Vec<_>>(),
            "endpoints": addresses.map(|address| json!({ "addresses": [address] })).collect::<Vec<_>>(),
        })
    }

    /// Whether a pod with these labels is behind a service.
    pub(super) fn is_behind_a_service(&self, labels: &super::Labels, namespace: &str) -> bool {
        let mut services = self.services().filter(|(name, _)| name.namespace == namespace);
        services.any(|(_, object)| Service::of(object).means(labels))
    }

    /// Waits until the kernel has every service with those that are behind it, and no other one.
    pub(super) fn wait_for_services(&mut self) -> Result<()> {
        let mut wanted = BTreeSet::new();
        let own = if self.around.servers.cluster.is_some() { OWN_ADDRESS } else { "" };
        for (name, object) in self.services() {
            let service = Service::of(object);
            let addresses = object["spec"]["clusterIPs"].as_array().cloned().unwrap_or_default();
            for address in addresses.iter().filter_map(Value::as_str) {
                for port in &service.ports {
                    let means = |(pod, member): &(&Name, &Member)| {
                        pod.namespace == name.namespace && service.means(&member.labels)
                    };
                    let behind = self.pods.iter().filter(means);
                    let behind: BTreeSet<_> = behind
                        .filter_map(|(_, it)| it.pod.address(address.contains(':')).ok())
                        .map(|backend| (backend.to_string(), target(port).0))
                        .collect();
                    wanted.insert((address.to_owned(), port["port"].as_u64(), behind));
                }
            }
        }
        let waited = self.node.wait("services are not as they were applied", |node| {
            let served = node.served()?;
            let served = served.iter().map(as_served).filter(|it| it.0 != own);
            let served: BTreeSet<_> = served.collect();
            Ok(served == wanted)
        });
        broken(waited.map(drop))
    }

    /// Where a service is reached.
    pub(super) fn service_at(
        &self,
        name: &Name,
        ipv6: bool,
    ) -> Option<(std::net::IpAddr, Vec<&Name>)> {
        let (_, object) = self.services().find(|(it, _)| *it == name)?;
        let service = Service::of(object);
        let single = object["spec"]["clusterIP"].as_str();
        let several = object["spec"]["clusterIPs"].as_array().into_iter().flatten();
        let mut all = several.filter_map(Value::as_str).chain(single);
        let address = all.find(|address| address.contains(':') == ipv6)?.parse().ok()?;
        let behind = self.pods.iter().filter(|(pod, member)| {
            pod.namespace == name.namespace && service.means(&member.labels)
        });
        Some((address, behind.map(|(name, _)| name).collect()))
    }
}

type Served = (String, Option<u64>, BTreeSet<(String, u16)>);

/// The address, the port and who is behind it.
fn as_served(spec: &Value) -> Served {
    let at = &spec["frontend-address"];
    let backends = spec["backend-addresses"].as_array().into_iter().flatten();
    let behind = backends.map(|backend| {
        let port = backend["port"].as_u64().and_then(|port| port.try_into().ok());
        (backend["ip"].as_str().unwrap_or_default().to_owned(), port.unwrap_or_default())
    });
    (at["ip"].as_str().unwrap_or_default().to_owned(), at["port"].as_u64(), behind.collect())
}

impl Member {
    /// Answers at these ports.
    fn answer(&mut self, ports: &[Value]) -> Result<()> {
        for (port, is_udp) in ports.iter().map(target) {
            if !self.responders.contains_key(&(is_udp, port)) {
                let kind = if is_udp { Kind::Udp } else { Kind::Tcp };
                let responder = Responder::start(&self.pod.netns, kind, port)?;
                self.responders.insert((is_udp, port), responder);
            }
        }
        Ok(())
    }
}
