//! Reads ICMP types, by number or by Cilium's names.

use serde_json::Value;

use crate::model::field::{Fault, Field};
use crate::policy::rules::ports::{PortRange, protocol};

/// ICMP messages by Cilium's names.
const V4: &[(&str, u16)] = &[
    ("EchoReply", 0),
    ("DestinationUnreachable", 3),
    ("Redirect", 5),
    ("Echo", 8),
    ("EchoRequest", 8),
    ("RouterAdvertisement", 9),
    ("RouterSelection", 10),
    ("TimeExceeded", 11),
    ("ParameterProblem", 12),
    ("Timestamp", 13),
    ("TimestampReply", 14),
    ("Photuris", 40),
    ("ExtendedEchoRequest", 42),
    ("ExtendedEchoReply", 43),
];

/// ICMPv6 messages by Cilium's names.
const V6: &[(&str, u16)] = &[
    ("DestinationUnreachable", 1),
    ("PacketTooBig", 2),
    ("TimeExceeded", 3),
    ("ParameterProblem", 4),
    ("EchoRequest", 128),
    ("EchoReply", 129),
    ("MulticastListenerQuery", 130),
    ("MulticastListenerReport", 131),
    ("MulticastListenerDone", 132),
    ("RouterSolicitation", 133),
    ("RouterAdvertisement", 134),
    ("NeighborSolicitation", 135),
    ("NeighborAdvertisement", 136),
    ("RedirectMessage", 137),
    ("RouterRenumbering", 138),
    ("ICMPNodeInformationQuery", 139),
    ("ICMPNodeInformationResponse", 140),
    ("InverseNeighborDiscoverySolicitation", 141),
    ("InverseNeighborDiscoveryAdvertisement", 142),
    ("HomeAgentAddressDiscoveryRequest", 144),
    ("HomeAgentAddressDiscoveryReply", 145),
    ("MobilePrefixSolicitation", 146),
    ("MobilePrefixAdvertisement", 147),
    ("DuplicateAddressRequestCodeSuffix", 157),
    ("DuplicateAddressConfirmationCodeSuffix", 158),
    ("ExtendedEchoRequest", 160),
    ("ExtendedEchoReply", 161),
];

/// Reads one of `icmps`' fields: a message type of a family, IPv4 unless it says otherwise.
pub(super) fn message(field: &Field<'_>) -> Result<PortRange, Fault> {
    let mapping = field.mapping(&["family", "type"])?;
    let family = mapping.get("family");
    let (number, names) = match family.as_ref().map(|family| family.text()).transpose()? {
        None | Some("" | "IPv4") => (protocol::ICMP, V4),
        Some("IPv6") => (protocol::ICMPV6, V6),
        Some(other) => {
            let family = family.unwrap_or_else(|| field.clone());
            return Err(family.fault(format!("unknown family {other:?}"), "write IPv4 or IPv6"));
        }
    };
    let kind = mapping.need("type")?;
    let code = match kind.value {
        Value::String(text) => text
            .parse()
            .ok()
            .or_else(|| names.iter().find(|(name, _)| name == text).map(|(_, code)| *code)),
        value => value.as_u64().and_then(|code| u16::try_from(code).ok()),
    };
    match code.filter(|code| *code <= 255) {
        Some(code) => Ok(PortRange::one(number, code)),
        None => Err(kind.fault(
            format!("{} is no ICMP type of the family", kind.value),
            "write 0 to 255, or a name such as EchoRequest",
        )),
    }
}
