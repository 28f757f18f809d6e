//! The health of nodes in answers: what probes found, how the health endpoint stands, and what is wrong with both.

use std::sync::Arc;

use volvox_actors::{
    cluster::{
        health_endpoint::{HealthEndpointMsg, HealthEndpointView},
        reachability::{NodeReach, ReachabilityMsg, ReachabilityView},
    },
    model::Addresses,
};
use volvox_rest::models::Status;

use super::{Api, troubles::Trouble};
use crate::gateway::GatewayError;

/// Of so many nodes that cannot be reached each is named.
const NAMED_MAX: usize = 8;

/// What is known of it; nothing where nodes are not probed.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeHealthViews {
    pub(super) reach: Option<Arc<ReachabilityView>>,
    pub(super) endpoint: Option<HealthEndpointView>,
}

pub(super) async fn gather(api: &Api, what: &'static str) -> Result<NodeHealthViews, GatewayError> {
    let reach = api.gateway.ask_if(what, |node| node.reachability.as_ref(), ReachabilityMsg::Show);
    let endpoint =
        api.gateway.ask_if(what, |node| node.health_endpoint.as_ref(), HealthEndpointMsg::Show);
    let (reach, endpoint) = tokio::try_join!(reach, endpoint)?;
    Ok(NodeHealthViews { reach, endpoint })
}

impl NodeHealthViews {
    /// Where this node's health endpoint is.
    pub(super) fn addresses(&self) -> Addresses {
        let endpoint = self.endpoint.as_ref().filter(|it| it.endpoint.is_some());
        endpoint.map(|it| it.addresses).unwrap_or_default()
    }

    /// Nodes that cannot be reached, with what of them, as far as they are named.
    fn problems(&self) -> (Vec<(&NodeReach, String)>, usize) {
        let nodes = self.reach.iter().flat_map(|reach| &reach.nodes);
        let mut all: Vec<_> = nodes.filter_map(|node| Some((node, node.problem()?))).collect();
        let more = all.len().saturating_sub(NAMED_MAX);
        all.truncate(NAMED_MAX);
        (all, more)
    }

    /// The same in words.
    pub(super) fn unreached(&self) -> Vec<String> {
        self.troubles().into_iter().map(|trouble| trouble.text).collect()
    }

    /// What is wrong.
    pub(super) fn troubles(&self) -> Vec<Trouble> {
        let (named, more) = self.problems();
        let node = |(node, problem): (&NodeReach, String)| {
            let whose = if node.local { "this node" } else { "node" };
            let text = format!(
                "{whose} {} cannot be reached: {problem}; see that it runs, and that the network lets \
                 ICMP and the port pass",
                node.name
            );
            Trouble::new(format!("node-health-{}", node.name), 1, text)
        };
        let mut all: Vec<_> = named.into_iter().map(node).collect();
        if more > 0 {
            let text = format!("{more} more nodes cannot be reached: `volvox health` names them");
            all.push(Trouble::new("node-health", more as u64, text));
        }
        let endpoint = self.endpoint.as_ref().and_then(|it| it.error.as_ref());
        all.extend(endpoint.map(|error| {
            let text = format!("the health endpoint is not as it should be: {error}; tried again");
            Trouble::new("cilium-health-ep", 1, text)
        }));
        all
    }

    /// How who probes is himself.
    pub(super) fn daemon(&self) -> Option<Status> {
        self.reach.as_ref()?;
        let error = self.endpoint.as_ref().and_then(|it| it.error.clone());
        let state = if error.is_some() { "Warning" } else { "Ok" };
        Some(Status { state: state.to_owned(), msg: error.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use volvox_actors::cluster::reachability::{AddressReach, ProbeResult};

    use super::*;

    fn node(name: &str, local: bool, error: Option<&str>) -> NodeReach {
        let result = |error: Option<&str>| {
            let error = error.map(str::to_owned);
            Some(ProbeResult { latency: Duration::from_micros(300), error, probed: 1 })
        };
        let reach =
            AddressReach { ip: [192, 0, 2, 7].into(), icmp: result(error), http: result(None) };
        NodeReach { name: name.to_owned(), local, host: vec![reach], endpoint: Vec::new() }
    }

    fn views(nodes: Vec<NodeReach>) -> NodeHealthViews {
        let reach = ReachabilityView { nodes, ..ReachabilityView::default() };
        NodeHealthViews { reach: Some(Arc::new(reach)), endpoint: None }
    }

    #[test]
    fn nodes_that_cannot_be_reached_are_named_and_of_many_the_first() {
        assert_eq!(views(vec![node("a", true, None)]).unreached(), [""; 0]);
        let said = views(vec![node("a", true, None), node("b", false, Some("no route"))]);
        let said = said.unreached();
        assert_eq!(said.len(), 1);
        let expected =
            "node b cannot be reached: its address 192.0.2.7 does not answer ICMP (no route)";
        assert!(said[0].starts_with(expected), "{said:?}");
        let many = (0..20).map(|number| node(&format!("n{number}"), false, Some("gone")));
        let said = views(many.collect()).unreached();
        assert_eq!(said.len(), NAMED_MAX + 1);
        assert!(said[NAMED_MAX].starts_with("12 more nodes cannot be reached"), "{said:?}");
    }

    #[test]
    fn a_health_endpoint_that_is_not_there_is_named() {
        let error = Some("no room".to_owned());
        let endpoint = Some(HealthEndpointView { error, ..HealthEndpointView::default() });
        let all = NodeHealthViews { endpoint, ..views(Vec::new()) };
        assert_eq!(all.troubles()[0].name, "cilium-health-ep");
        assert_eq!(all.daemon().unwrap().state, "Warning");
        assert_eq!(all.addresses(), Addresses::default());
        assert_eq!(NodeHealthViews::default().daemon(), None);
    }
}
