//! Reads the ports of a clause in Cilium's policies: `toPorts` and `icmps`.

use super::{icmp, port, scope::ParseContext, side::Side};
use crate::{
    model::field::{Fault, Field, Mapping},
    policy::rules::{
        Effect,
        ports::protocol,
        rule::{ClausePorts, PortMatch},
    },
};

/// Fields of a port rule that make it more than a port.
const BEYOND_PORTS: &[&str] =
    &["listener", "originatingTLS", "rules", "serverNames", "terminatingTLS"];

/// Protocols that have ports.
const EVERY_PROTOCOL: &[u8] = &[protocol::TCP, protocol::UDP, protocol::SCTP];

/// Reads `toPorts` or `icmps` of a clause; `None` if it has neither.
pub(super) fn ports(
    clause: &Mapping<'_>,
    side: Side,
    scope: &mut ParseContext<'_>,
) -> Result<Option<ClausePorts>, Fault> {
    let to_ports = clause.list("toPorts")?.unwrap_or_default();
    let icmps = clause.list("icmps")?.unwrap_or_default();
    if !to_ports.is_empty() && !icmps.is_empty() {
        return Err(clause
            .need("icmps")?
            .fault("icmps and toPorts in one rule", "write two rules, one with each"));
    }
    if to_ports.is_empty() && icmps.is_empty() {
        return Ok(None);
    }
    let mut matches = Vec::new();
    for field in &to_ports {
        port_rule(field, side, scope, &mut matches)?;
    }
    for field in &icmps {
        for field in field.mapping(&["fields"])?.list("fields")?.unwrap_or_default() {
            matches.push(PortMatch::Range(icmp::message(&field)?));
        }
    }
    Ok(Some(ClausePorts::Of(matches)))
}

fn port_rule(
    field: &Field<'_>,
    side: Side,
    scope: &mut ParseContext<'_>,
    matches: &mut Vec<PortMatch>,
) -> Result<(), Fault> {
    let mut known = vec!["ports"];
    if !side.deny {
        known.extend(BEYOND_PORTS);
    }
    let rule = field.mapping(&known)?;
    let mut found = Vec::new();
    for port in rule.list("ports")?.unwrap_or_default() {
        port_protocol(&port, scope, &mut found)?;
    }
    let mut supported = true;
    for name in BEYOND_PORTS {
        if let Some(more) = rule.get(name).filter(says_something) {
            scope.not_supported(&more.path(), Effect::AllowsNothing);
            supported = false;
        }
    }
    if supported {
        matches.append(&mut found);
    }
    Ok(())
}

/// An empty mapping or list adds nothing to a port.
fn says_something(field: &Field<'_>) -> bool {
    field.value.as_object().is_none_or(|map| !map.is_empty())
        && field.value.as_array().is_none_or(|list| !list.is_empty())
}

fn port_protocol(
    field: &Field<'_>,
    scope: &mut ParseContext<'_>,
    matches: &mut Vec<PortMatch>,
) -> Result<(), Fault> {
    let mapping = field.mapping(&["port", "endPort", "protocol"])?;
    let port = port::given(&mapping.need("port")?, mapping.get("endPort").as_ref())?;
    let protocols = match mapping.get("protocol") {
        Some(field) => protocols(&field, scope)?,
        None => EVERY_PROTOCOL,
    };
    matches.extend(protocols.iter().map(|number| port.clone().of(*number)));
    Ok(())
}

fn protocols(field: &Field<'_>, scope: &mut ParseContext<'_>) -> Result<&'static [u8], Fault> {
    Ok(match field.text()?.to_ascii_uppercase().as_str() {
        "ANY" | "" => EVERY_PROTOCOL,
        "TCP" => &[protocol::TCP],
        "UDP" => &[protocol::UDP],
        "SCTP" => &[protocol::SCTP],
        "VRRP" | "IGMP" => {
            scope.not_supported(&field.path(), Effect::AllowsNothing);
            &[]
        }
        other => {
            return Err(field.fault(
                format!("unknown protocol {other:?}"),
                "write TCP, UDP, SCTP or ANY; for ICMP use icmps in place of toPorts",
            ));
        }
    })
}
