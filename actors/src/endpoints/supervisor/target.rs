//! Parses and prints the names by which the API means an endpoint, and matches them to endpoints.

use std::{fmt, net::IpAddr, str::FromStr};

use super::EndpointReference;
use crate::{
    endpoints::endpoint::EndpointSpec,
    model::EndpointId,
    mutants::{Mutant, mutated},
};

/// A text that names no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The number is no number.
    #[error("invalid endpoint id {0:?}: a number from 1 to 65535 is expected")]
    NoNumber(String),
    /// It may be a pod's name, or the beginning of a container's identifier: whoever knows the endpoints can
    /// say.
    #[error(
        "invalid endpoint id {0:?}: a number, NAMESPACE/POD, an address or PREFIX:VALUE is expected"
    )]
    Word(String),
    /// The number is larger than any endpoint's.
    #[error("endpoint id too large: {0}")]
    TooLarge(u64),
    /// The prefix is none of the API's.
    #[error("unknown endpoint prefix {0:?}: one of {PREFIXES} is expected")]
    NoPrefix(String),
    /// The address is no address.
    #[error("{0:?} is not an IP address")]
    NoAddress(String),
}

/// Fewer digits of a container's identifier may be a number, or a pod's name.
const CONTAINER_DIGITS_MIN: usize = 12;

/// Whether a [word](TargetError::Word) is that pod's name, or how that container's identifier begins.
pub fn word_means(word: &str, pod_name: &str, container_id: &str) -> bool {
    let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let may_be_container = is_hex && word.len() >= CONTAINER_DIGITS_MIN;
    pod_name == word || (may_be_container && container_id.starts_with(word))
}

const PREFIXES: &str = "cilium-local, container-id, container-name, cni-attachment-id, cep-name, \
                        pod-name, ipv4, ipv6";

impl FromStr for EndpointReference {
    type Err = TargetError;

    /// Reads `prefix:value`, or what needs no prefix: a number, an address, `namespace/pod`.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let Some((prefix, value)) = text.split_once(':') else { return bare(text) };
        match prefix {
            "cilium-local" => number(value).map(Self::Id),
            "container-id" => Ok(Self::ContainerId(value.to_owned())),
            "container-name" => Ok(Self::ContainerName(value.to_owned())),
            "cni-attachment-id" => Ok(Self::AttachmentId(value.to_owned())),
            "cep-name" | "pod-name" => Ok(Self::Pod(value.to_owned())),
            "ipv4" | "ipv6" => value
                .parse()
                .map(Self::Address)
                .map_err(|_| TargetError::NoAddress(value.to_owned())),
            other => Err(TargetError::NoPrefix(other.to_owned())),
        }
    }
}

fn bare(text: &str) -> Result<EndpointReference, TargetError> {
    // So many digits are the beginning of a container's identifier.
    if text.len() < CONTAINER_DIGITS_MIN && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return number(text).map(EndpointReference::Id);
    }
    match text.split_once('/') {
        Some((namespace, pod)) if !namespace.is_empty() && !pod.is_empty() => {
            Ok(EndpointReference::Pod(text.to_owned()))
        }
        _ => Err(TargetError::Word(text.to_owned())),
    }
}

fn number(text: &str) -> Result<EndpointId, TargetError> {
    let number: u64 = text.parse().map_err(|_| TargetError::NoNumber(text.to_owned()))?;
    u16::try_from(number).map(EndpointId).map_err(|_| TargetError::TooLarge(number))
}

impl fmt::Display for EndpointReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::ContainerId(id) => write!(f, "container-id:{id}"),
            Self::ContainerName(name) => write!(f, "container-name:{name}"),
            Self::AttachmentId(id) => write!(f, "cni-attachment-id:{id}"),
            Self::Pod(pod) => write!(f, "pod-name:{pod}"),
            Self::Address(IpAddr::V4(address)) => write!(f, "ipv4:{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "ipv6:{address}"),
        }
    }
}

impl EndpointReference {
    /// Whether that endpoint is meant. The node itself has no container, no pod and no address of
    /// its own: it is meant by its number alone.
    pub(super) fn means(&self, id: EndpointId, spec: &EndpointSpec) -> bool {
        match self {
            Self::Id(meant) => id == *meant,
            _ if spec.is_host() => false,
            Self::ContainerId(id) => spec.container_id == *id,
            Self::ContainerName(name) => spec.container_name == *name,
            Self::AttachmentId(id) if mutated(Mutant::DeleteByShortId) => {
                let short = |text: &str| text.chars().take(12).collect::<String>();
                short(&spec.attachment_id()) == short(id)
            }
            Self::AttachmentId(id) if mutated(Mutant::ContainerGoesWhole) => {
                id.split(':').next() == Some(spec.container_id.as_str())
            }
            Self::AttachmentId(id) => spec.is_attachment(id),
            Self::Pod(pod) => spec.is_pod(pod),
            Self::Address(address) => spec.addresses.iter().any(|own| own == *address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_each_prefix() {
        for (text, target) in [
            ("42", EndpointReference::Id(EndpointId(42))),
            ("cilium-local:0", EndpointReference::Id(EndpointId(0))),
            ("container-id:ab", EndpointReference::ContainerId("ab".into())),
            ("container-name:c", EndpointReference::ContainerName("c".into())),
            ("cni-attachment-id:ab:eth0", EndpointReference::AttachmentId("ab:eth0".into())),
            ("pod-name:ns/web", EndpointReference::Pod("ns/web".into())),
            ("cep-name:ns/web", EndpointReference::Pod("ns/web".into())),
            ("ns/web", EndpointReference::Pod("ns/web".into())),
            ("10.0.0.1", EndpointReference::Address([10, 0, 0, 1].into())),
            ("fd00::1", EndpointReference::Address("fd00::1".parse().unwrap())),
            ("ipv4:10.0.0.1", EndpointReference::Address([10, 0, 0, 1].into())),
            ("ipv6:fd00::1", EndpointReference::Address("fd00::1".parse().unwrap())),
        ] {
            assert_eq!(text.parse(), Ok(target), "{text}");
        }
    }

    #[test]
    fn names_what_is_wrong() {
        let error = |text: &str| text.parse::<EndpointReference>().unwrap_err().to_string();
        assert_eq!(error("99999"), "endpoint id too large: 99999");
        assert!(error("cilium-local:x").contains("a number from 1 to 65535"));
        assert!(error("").contains("a number from 1 to 65535"));
        for word in ["web", "/web", "ns/", "-1", "000000000000"] {
            assert_eq!(word.parse::<EndpointReference>(), Err(TargetError::Word(word.to_owned())));
        }
        assert!(error("nope:1").contains("unknown endpoint prefix \"nope\""));
        assert!(error("ipv4:fd").contains("not an IP address"));
    }
}
