//! Reads the protocols of a rule of ClusterNetworkPolicy, with their ports.

use crate::{
    model::field::{Fault, Field, Mapping},
    policy::rules::{
        ports::{PortRange, protocol},
        rule::{ClausePorts, PortMatch},
    },
};

/// Peers whose ports have no names.
const NAMELESS: [&str; 3] = ["domainNames", "networks", "nodes"];

/// Reads the protocols of a rule. What is not known of them goes to `unknown`.
pub(super) fn ports<'a>(
    rule: &Mapping<'a>,
    unknown: &mut Vec<Field<'a>>,
) -> Result<ClausePorts, Fault> {
    let Some(list) = rule.get("protocols") else { return Ok(ClausePorts::Any) };
    let entries = list.elements()?;
    if entries.is_empty() {
        return Err(list.fault("the rule lists no protocol", "remove the list, or add one"));
    }
    let mut matches = Vec::new();
    for entry in &entries {
        let mapping = entry.any_mapping()?;
        let mut ways = mapping.entries();
        let Some((way, field)) = ways.next() else {
            unknown.push(entry.clone());
            continue;
        };
        if let Some((_, second)) = ways.next() {
            return Err(second.fault("two protocols in one entry", "write two entries of the list"));
        }
        let number = match way {
            "tcp" => protocol::TCP,
            "udp" => protocol::UDP,
            "sctp" => protocol::SCTP,
            "destinationNamedPort" => {
                matches.extend(named(&field, rule)?);
                continue;
            }
            _ => {
                unknown.push(field);
                continue;
            }
        };
        matches.extend(destination(&field, number, unknown)?.map(PortMatch::Range));
    }
    Ok(ClausePorts::Of(matches))
}

/// A port's name, whatever its protocol.
fn named(field: &Field<'_>, rule: &Mapping<'_>) -> Result<[PortMatch; 3], Fault> {
    let name = field.text()?.to_ascii_lowercase();
    if name.is_empty() {
        return Err(field.fault("the name is empty", "write the name of a container's port"));
    }
    for peer in rule.list("to")?.unwrap_or_default() {
        let mapping = peer.any_mapping()?;
        let nameless = NAMELESS.iter().find(|way| mapping.get(way).is_some());
        if let Some(way) = nameless {
            return Err(field.fault(
                format!("a port's name beside {way}, whose ports have no names"),
                "write the port's number, or two rules",
            ));
        }
    }
    let of = |protocol| PortMatch::Named { name: name.clone(), protocol };
    Ok([protocol::TCP, protocol::UDP, protocol::SCTP].map(of))
}

/// The ports of a protocol; none if all that is said of them is not known.
fn destination<'a>(
    field: &Field<'a>,
    protocol: u8,
    unknown: &mut Vec<Field<'a>>,
) -> Result<Option<PortRange>, Fault> {
    let mapping = field.any_mapping()?;
    let others: Vec<Field<'a>> = mapping
        .entries()
        .filter(|(key, _)| *key != "destinationPort")
        .map(|(_, field)| field)
        .collect();
    let Some(port) = mapping.get("destinationPort").filter(|_| others.is_empty()) else {
        unknown.push(others.into_iter().next().unwrap_or_else(|| field.clone()));
        return Ok(None);
    };
    let mapping = port.any_mapping()?;
    let mut ways = mapping.entries();
    let range = match (ways.next(), ways.next()) {
        (Some(("number", number)), None) => {
            let number = one_port(&number)?;
            PortRange::one(protocol, number)
        }
        (Some(("range", range)), None) => {
            let mapping = range.mapping(&["start", "end"])?;
            let (first, last) =
                (one_port(&mapping.need("start")?)?, one_port(&mapping.need("end")?)?);
            if last <= first {
                return Err(range.fault(
                    format!("the range ends at {last} and starts at {first}"),
                    "write the lower port as start; for one port write number",
                ));
            }
            PortRange { protocol, first, last }
        }
        (Some((_, second)), None) => {
            unknown.push(second);
            return Ok(None);
        }
        (None, _) => {
            unknown.push(port.clone());
            return Ok(None);
        }
        (Some(_), Some((_, second))) => {
            return Err(second.fault("number and range of one port", "write two entries"));
        }
    };
    Ok(Some(range))
}

fn one_port(field: &Field<'_>) -> Result<u16, Fault> {
    let port = field.value.as_u64().and_then(|port| u16::try_from(port).ok());
    port.filter(|port| *port > 0).ok_or_else(|| {
        field.fault(format!("{} is no port", field.value), "write a number from 1 to 65535")
    })
}
