//! Which endpoint is meant, where no agent need run: a number stands for itself, and names are looked up in
//! the kernel's records of endpoints.

use std::{collections::BTreeMap, path::Path};

use volvox_actors::{
    endpoints::supervisor::{EndpointReference, TargetError, word_means},
    model::EndpointId,
    ports::EndpointRow,
};
use volvox_maps::Dump;

use super::error::ClientError;

/// The endpoint's number.
pub(super) fn endpoint_number(bpf_root: &Path, text: &str) -> Result<u16, ClientError> {
    match text.parse() {
        Ok(EndpointReference::Id(id)) => Ok(id.0),
        Err(error @ (TargetError::TooLarge(_) | TargetError::NoPrefix(_))) => {
            Err(ClientError::Usage(error.to_string()))
        }
        parsed => {
            let rows = Dump::at(bpf_root).endpoints().map_err(|error| {
                ClientError::Failed(format!(
                    "{text:?} is no number, and names are looked up in the kernel: {error}"
                ))
            })?;
            one_of(text, &parsed, &rows)
        }
    }
}

fn one_of(
    text: &str,
    parsed: &Result<EndpointReference, TargetError>,
    rows: &BTreeMap<EndpointId, EndpointRow>,
) -> Result<u16, ClientError> {
    let found: Vec<_> = rows.iter().filter(|(_, row)| means(parsed, row)).collect();
    match found.as_slice() {
        [(id, _)] => Ok(id.0),
        [] => Err(ClientError::NotFound(format!(
            "no endpoint of this node is called {text:?}: `volvox endpoint list` has them all"
        ))),
        several => {
            let name = |(id, row): &(&EndpointId, &EndpointRow)| {
                format!("{id} ({}/{})", row.namespace, row.pod_name)
            };
            let names: Vec<_> = several.iter().map(name).collect();
            Err(ClientError::Usage(format!(
                "{text:?} means {} endpoints: {}; say which, by its number or as NAMESPACE/POD",
                several.len(),
                names.join(", ")
            )))
        }
    }
}

fn means(parsed: &Result<EndpointReference, TargetError>, row: &EndpointRow) -> bool {
    match parsed {
        Ok(EndpointReference::Pod(pod)) => {
            pod.split_once('/') == Some((row.namespace.as_str(), row.pod_name.as_str()))
        }
        Ok(EndpointReference::Address(address)) => row.addresses.iter().any(|own| own == *address),
        Ok(EndpointReference::ContainerId(id)) => row.container_id == *id,
        Ok(EndpointReference::AttachmentId(id)) => {
            id.split_once(':') == Some((row.container_id.as_str(), row.container_ifname.as_str()))
        }
        Err(TargetError::Word(word)) => word_means(word, &row.pod_name, &row.container_id),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> BTreeMap<EndpointId, EndpointRow> {
        let row = |namespace: &str, pod: &str, container: &str, address: &str| {
            let mut row = EndpointRow {
                namespace: namespace.to_owned(),
                pod_name: pod.to_owned(),
                container_id: container.repeat(16),
                container_ifname: "eth0".to_owned(),
                ..EndpointRow::default()
            };
            row.addresses.ipv4 = address.parse().ok();
            row
        };
        [
            (EndpointId(7), row("shop", "web", "abcd", "10.0.0.1")),
            (EndpointId(8), row("shop", "db", "abce", "10.0.0.2")),
            (EndpointId(9), row("test", "web", "12ab", "10.0.0.3")),
        ]
        .into()
    }

    fn number(text: &str) -> Result<u16, String> {
        one_of(text, &text.parse(), &rows()).map_err(|error| error.to_string())
    }

    #[test]
    fn names_addresses_and_containers_lead_to_one_endpoint_or_say_what_is_wrong() {
        let attachment = format!("cni-attachment-id:{}:eth0", "abcd".repeat(16));
        for (text, id) in [
            ("db", 8),
            ("shop/web", 7),
            ("pod-name:test/web", 9),
            ("10.0.0.3", 9),
            ("ipv4:10.0.0.2", 8),
            ("12ab12ab12ab", 9),
            (attachment.as_str(), 7),
        ] {
            assert_eq!(number(text), Ok(id), "{text}");
        }
        let ambiguous = number("web").unwrap_err();
        assert!(ambiguous.contains("7 (shop/web), 9 (test/web)"), "{ambiguous}");
        for text in ["cache", "shop/cache", "10.0.0.9", "12ab"] {
            assert!(number(text).unwrap_err().contains("volvox endpoint list"), "{text}");
        }
    }
}
