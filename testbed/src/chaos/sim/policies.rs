//! Policies of manifests as the simulator's model has them.

use serde_json::Value;
use volvox_sim::model::policies::{App, Clause, Peers, Policy, Says, Way};

/// Which labels the simulator's pods stand for: values of the label `app`, in the order in which they came.
#[derive(Clone, Default)]
pub(super) struct Apps(Vec<String>);

impl Apps {
    /// Whom the simulator takes for those with this label.
    pub(super) fn get(&mut self, name: &str) -> Result<App, String> {
        let place = self.0.iter().position(|known| known == name).unwrap_or(self.0.len());
        if place == self.0.len() {
            self.0.push(name.to_owned());
        }
        App::NAMED.get(place).copied().ok_or_else(|| {
            format!("its pods have at most {} values of the label app", App::NAMED.len())
        })
    }

    /// The same of labels.
    pub(super) fn of<'a>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<App, String> {
        let labels: Vec<_> = labels.collect();
        match labels.as_slice() {
            [] => Ok(App::None),
            [("app", name)] => self.get(name),
            _ => Err("its pods have the label app, or none".into()),
        }
    }
}

/// Ports of a rule: protocol, port, and the last of a range.
type Port = Option<(u8, u16, Option<u16>)>;

/// What a policy means.
pub(super) fn policy(kind: &str, object: &Value, apps: &mut Apps) -> Result<Policy, String> {
    let spec = &object["spec"];
    if !spec.is_object() {
        return Err("it knows policies with a spec".into());
    }
    let is_cilium = match kind {
        "ciliumnetworkpolicy" => true,
        "networkpolicy" => false,
        _ => return Err(format!("it does not know the kind {kind}")),
    };
    let subject = &spec[if is_cilium { "endpointSelector" } else { "podSelector" }];
    let subject = selected(subject, apps)?;
    let mut clauses = Vec::new();
    for (field, way, says) in [
        ("ingress", Way::In, Says::Allow),
        ("ingressDeny", Way::In, Says::Deny),
        ("egress", Way::Out, Says::Allow),
        ("egressDeny", Way::Out, Says::Deny),
    ] {
        let Some(rules) = spec.get(field) else { continue };
        let rules = rules.as_array().filter(|rules| !rules.is_empty());
        let rules = rules.ok_or("a policy says with whom, or it is not known what it means")?;
        for rule in rules {
            let peers = peers(rule, way, is_cilium, apps)?;
            let ports = if is_cilium { cilium_ports(rule)? } else { plain_ports(rule)? };
            for peers in peers {
                let each = ports.iter().map(|port| Clause::new(way, says, peers.clone(), *port));
                clauses.extend(each);
            }
        }
    }
    if clauses.is_empty() {
        return Err("it knows no policy without a rule".into());
    }
    Ok(Policy::of(subject, clauses))
}

/// The pods of a selector; none are all.
fn selected(selector: &Value, apps: &mut Apps) -> Result<Option<App>, String> {
    let members = selector.as_object().cloned().unwrap_or_default();
    if members.is_empty() {
        return Ok(None);
    }
    let labels = selector["matchLabels"].as_object().filter(|_| members.len() == 1);
    let labels = labels.ok_or("it knows selectors of matchLabels alone")?;
    let pairs =
        labels.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    apps.of(pairs).map(Some)
}

fn peers(rule: &Value, way: Way, is_cilium: bool, apps: &mut Apps) -> Result<Vec<Peers>, String> {
    let side = if way == Way::Out { "to" } else { "from" };
    let field = if is_cilium { format!("{side}Endpoints") } else { side.to_owned() };
    let known = ["toPorts", "ports", field.as_str()];
    let members = rule.as_object().cloned().unwrap_or_default();
    if let Some(other) = members.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("it does not know rules with {other}"));
    }
    let Some(listed) = rule.get(&field) else { return Ok(vec![Peers::Any]) };
    let listed = listed.as_array().cloned().unwrap_or_default();
    let each = listed.iter().map(|peer| {
        let selector = if is_cilium { peer } else { &peer["podSelector"] };
        if !is_cilium && peer.as_object().is_none_or(|peer| peer.len() != 1 || selector.is_null()) {
            return Err("of NetworkPolicy it knows peers by podSelector alone".to_owned());
        }
        Ok(selected(selector, apps)?.map_or(Peers::Namespace, Peers::App))
    });
    each.collect()
}

fn protocol(name: Option<&str>) -> Result<u8, String> {
    match name.unwrap_or("TCP") {
        "TCP" => Ok(6),
        "UDP" => Ok(17),
        other => Err(format!("it knows no ports of {other}")),
    }
}

fn port(port: &Value) -> Result<Port, String> {
    let number = |value: &Value| -> Option<u16> {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.parse().ok()
    };
    let first = number(&port["port"]).ok_or("it knows ports by their numbers alone")?;
    Ok(Some((protocol(port["protocol"].as_str())?, first, number(&port["endPort"]))))
}

fn plain_ports(rule: &Value) -> Result<Vec<Port>, String> {
    match rule["ports"].as_array() {
        None => Ok(vec![None]),
        Some(ports) => ports.iter().map(port).collect(),
    }
}

fn cilium_ports(rule: &Value) -> Result<Vec<Port>, String> {
    let Some(groups) = rule["toPorts"].as_array() else { return Ok(vec![None]) };
    let all =
        groups.iter().flat_map(|group| group["ports"].as_array().cloned().unwrap_or_default());
    all.map(|it| port(&it)).collect()
}
