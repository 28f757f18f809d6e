//! What is told of the endpoints that come back before their actors live.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Restore,
    actor::{PATIENCE, Phase},
    messages::{Candidate, RestoreMsg},
    rebuild,
};
use crate::{
    host::{AskError, Cx},
    identity::Identity,
    model::{EndpointId, NamedPorts},
    policy::{Bearer, PolicyMsg},
    workloads::WorkloadsMsg,
};

impl Restore {
    /// The kernel does not know how ports are called; without their names an endpoint would enforce
    /// less than before until it heard of its pod.
    pub(super) fn describe(&mut self, cx: &mut Cx<'_, Self>) {
        self.kept.phase = Phase::Describing;
        let rebuilt =
            self.kept.plan.candidates.iter().filter(|(_, it)| it.source == rebuild::SOURCE);
        let pod = |(&id, it): (&EndpointId, &Candidate)| {
            let spec = &it.endpoint.spec;
            let pod = (spec.namespace.clone(), spec.pod_name.clone());
            (!spec.pod_name.is_empty()).then_some((id, pod))
        };
        let pods: BTreeMap<EndpointId, (String, String)> = rebuilt.filter_map(pod).collect();
        if pods.is_empty() {
            return self.learn(cx);
        }
        let workloads = self.peers.workloads.clone();
        cx.ask(
            &workloads,
            PATIENCE,
            "ports of pods that are rebuilt from the kernel",
            |reply| WorkloadsMsg::PortsOf { pods, reply },
            RestoreMsg::Described,
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
                    if let Some(candidate) = self.kept.plan.candidates.get_mut(&id) {
                        candidate.endpoint.spec.named_ports = named_ports;
                    }
                }
            }
            Err(error) => self.kept.report.problems.push(format!("names of ports: {error}")),
        }
        self.learn(cx);
    }

    /// The policy must know every identity that an address may already have.
    pub(super) fn learn(&mut self, cx: &mut Cx<'_, Self>) {
        self.kept.phase = Phase::Learning;
        let mut identities = BTreeMap::new();
        let mut bearers = Vec::new();
        for endpoint in self.kept.plan.endpoints() {
            bearers.push(Bearer {
                endpoint: endpoint.id,
                identity: endpoint.identity,
                named_ports: endpoint.spec.named_ports.clone(),
            });
            identities.entry(endpoint.identity).or_insert_with(|| Identity {
                id: endpoint.identity,
                labels: Arc::new(endpoint.identity_labels.clone()),
                prefix: None,
                references: 0,
            });
        }
        let identities = identities.into_values().collect();
        let policy = self.peers.policy.clone();
        cx.ask(
            &policy,
            PATIENCE,
            "the policy to know restored identities",
            |reply| PolicyMsg::Learn { identities, bearers, reply },
            RestoreMsg::Learned,
        );
    }
}
