//! What is told of the endpoints that come back before their actors live.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Restore,
    answers::RestoreAnswer,
    messages::RestoreCandidate,
    rebuild,
    state::{PATIENCE, RestorePhase},
};
use crate::{
    endpoints::{endpoint::IdentityReference, workloads::WorkloadsMsg},
    host::{AskError, Cx},
    model::{EndpointId, NamedPorts},
    policy::{
        identity::{Identity, IdentityMsg},
        rules::{IdentityUser, PolicyMsg},
    },
};

impl Restore {
    /// The kernel does not know how ports are called; without their names an endpoint would enforce
    /// less than before until it heard of its pod.
    pub(super) fn describe(&mut self, cx: &mut Cx<'_, Self>) {
        self.state.phase = RestorePhase::Describing;
        let rebuilt =
            self.state.plan.candidates.iter().filter(|(_, it)| it.source == rebuild::SOURCE);
        let pod = |(&id, it): (&EndpointId, &RestoreCandidate)| {
            let spec = &it.endpoint.spec;
            let pod = (spec.namespace.clone(), spec.pod_name.clone());
            (!spec.pod_name.is_empty()).then_some((id, pod))
        };
        let pods: BTreeMap<EndpointId, (String, String)> = rebuilt.filter_map(pod).collect();
        if pods.is_empty() {
            return self.hold_carried(cx);
        }
        let workloads = self.peers.workloads.clone();
        cx.ask(
            &workloads,
            PATIENCE,
            "ports of pods that are rebuilt from the kernel",
            |reply| WorkloadsMsg::PortsOf { pods, reply },
            RestoreAnswer::Described,
        );
    }

    pub(super) fn described(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<BTreeMap<EndpointId, NamedPorts>, AskError>,
    ) {
        match answer {
            Ok(all) => {
                for (id, named_ports) in all {
                    if let Some(candidate) = self.state.plan.candidates.get_mut(&id) {
                        candidate.endpoint.spec.named_ports = named_ports;
                    }
                }
            }
            Err(error) => self.state.report.problems.push(format!("names of ports: {error}")),
        }
        self.hold_carried(cx);
    }

    /// Takes references to the identities that endpoints' rows still carry, one after the other:
    /// until an endpoint has flipped, its packets come with them, and nobody else may be given
    /// their numbers.
    pub(super) fn hold_carried(&mut self, cx: &mut Cx<'_, Self>) {
        self.state.phase = RestorePhase::Learning;
        let Some((_, identity)) = self.state.carried.front() else { return self.learn(cx) };
        let (labels, before) = ((*identity.labels).clone(), Some(identity.id));
        let identities = self.peers.identities.clone();
        let owner = identities.clone();
        cx.ask(
            &identities,
            PATIENCE,
            format!("identity {}, which rows still carry", identity.id),
            |reply| IdentityMsg::Resolve { labels, before, reply },
            move |answer| RestoreAnswer::Carried(IdentityReference::from_answer(owner, answer)),
        );
    }

    pub(super) fn carried(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<IdentityReference, String>,
    ) {
        if let Some((id, desired)) = self.state.carried.pop_front() {
            match answer {
                Ok(held) => {
                    if let Some(candidate) = self.state.plan.candidates.get_mut(&id) {
                        candidate.endpoint.carried.push(held);
                    }
                }
                Err(error) => self.state.report.problems.push(format!(
                    "endpoint {id}: identity {}, which its rows still carry: {error}",
                    desired.id
                )),
            }
        }
        self.hold_carried(cx);
    }

    /// The policy must know every identity that an address may already have.
    fn learn(&mut self, cx: &mut Cx<'_, Self>) {
        let mut identities = BTreeMap::new();
        let mut identity_users = Vec::new();
        // The node itself is known to everyone always.
        let pods = self.state.plan.endpoints().filter(|endpoint| !endpoint.spec.is_host());
        for endpoint in pods {
            let carried = endpoint.carried.iter().map(IdentityReference::identity);
            for identity in carried.clone().map(|it| it.id).chain([endpoint.identity]) {
                let named_ports = endpoint.spec.named_ports.clone();
                identity_users.push(IdentityUser { endpoint: endpoint.id, identity, named_ports });
            }
            identities.extend(carried.map(|identity| (identity.id, identity.clone())));
            identities.entry(endpoint.identity).or_insert_with(|| Identity {
                id: endpoint.identity,
                labels: Arc::new(endpoint.identity_labels.clone()),
                prefix: None,
                references: 0,
            });
        }
        // Until an endpoint has asked for its own, nobody else's going takes it away.
        let withheld = IdentityMsg::Withhold(identities.keys().copied().collect());
        if let Err(refused) = self.peers.identities.tell(withheld) {
            self.state.report.problems.push(format!("restored identities: {refused}"));
        }
        let identities = identities.into_values().collect();
        let policy = self.peers.policy.clone();
        cx.ask(
            &policy,
            PATIENCE,
            "the policy to know restored identities",
            |reply| PolicyMsg::Learn { identities, identity_users, reply },
            RestoreAnswer::Learned,
        );
    }
}
