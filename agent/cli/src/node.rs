//! `volvox node`: this node and those that it knows.

use volvox_rest::{
    RestClient,
    models::{ClusterNode, ClusterNodes, NodeAddressingElement},
};

use super::{
    args::NodeCommand,
    error::ClientError,
    output::{Listed, Output, list},
};

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    command: NodeCommand,
) -> Result<(), ClientError> {
    let NodeCommand::List { watch } = command;
    let fetch = async || Ok(client.get::<ClusterNodes>("/cluster/nodes").await?.nodes_added);
    list(out, &watch.into(), fetch).await
}

impl Listed for ClusterNode {
    const HEADINGS: &'static [&'static str] =
        &["NAME", "IPV4", "PODS IPV4", "IPV6", "PODS IPV6", "SOURCE"];
    const WIDE: &'static [&'static str] = &["OTHER ADDRESSES", "HEALTH ENDPOINT"];

    fn cells(&self) -> Vec<String> {
        let address = |it: &Option<NodeAddressingElement>| {
            it.as_ref().and_then(|it| it.ip).map(|ip| ip.to_string()).unwrap_or_default()
        };
        let pods = |it: &Option<NodeAddressingElement>| {
            let of = |it: &NodeAddressingElement| {
                let all = [&it.alloc_range].into_iter().chain(&it.secondary_alloc_ranges);
                all.filter(|range| !range.is_empty()).cloned().collect::<Vec<_>>().join("\n")
            };
            it.as_ref().map(of).unwrap_or_default()
        };
        let primary = &self.primary_address;
        let more = self.secondary_addresses.iter();
        let more = more.map(|it| format!("{} ({})", it.ip, it.address_type));
        let health = self.health_endpoint_address.as_ref();
        let health = health.map(|it| [address(&it.ipv4), address(&it.ipv6)]).unwrap_or_default();
        let health: Vec<_> = health.into_iter().filter(|it| !it.is_empty()).collect();
        vec![
            self.name.clone(),
            address(&primary.ipv4),
            pods(&primary.ipv4),
            address(&primary.ipv6),
            pods(&primary.ipv6),
            self.source.clone(),
            more.collect::<Vec<_>>().join("\n"),
            health.join("\n"),
        ]
    }
}
