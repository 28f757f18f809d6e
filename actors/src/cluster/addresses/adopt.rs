//! Identities of other nodes and names of their ports on the way to policies: first onto the disk,
//! so that the next run knows them without the cluster.

use std::collections::BTreeSet;

use super::{ClusterAddresses, actor::PATIENCE, answers::AddressesAnswer};
use crate::{
    host::{AskError, Cx},
    model::IdentityId,
    policy::{
        identity::{Identity, IdentityError, IdentityMsg, Introduction},
        rules::PolicyMsg,
    },
};

impl ClusterAddresses {
    pub(super) fn adopt(&mut self, cx: &mut Cx<'_, Self>, desired: Introduction) {
        self.busy = true;
        let (identities, asked) = (self.peers.identities.clone(), desired.clone());
        cx.ask(
            &identities,
            PATIENCE,
            format!(
                "{} identities of other nodes, and names of ports of {}, to be kept",
                desired.identities.len(),
                desired.named_ports.len()
            ),
            |reply| IdentityMsg::Adopt { desired, reply },
            move |answer| AddressesAnswer::Adopted(asked, answer),
        );
    }

    pub(super) fn adopted(
        &mut self,
        cx: &mut Cx<'_, Self>,
        mut asked: Introduction,
        answer: Result<Result<BTreeSet<IdentityId>, IdentityError>, AskError>,
    ) {
        let had = match answer {
            Ok(Ok(had)) => had,
            Ok(Err(error)) => return self.not_adopted(cx, &error.to_string()),
            Err(error) => return self.not_adopted(cx, &error.to_string()),
        };
        let refused = asked.identities.keys().copied().filter(|id| !had.contains(id)).collect();
        self.state.remote.refused(&refused);
        asked.only(&had);
        let identity = |(id, labels)| Identity { id, labels, prefix: None, references: 0 };
        let identities = asked.identities.clone().into_iter().map(identity).collect();
        let named_ports = asked.named_ports.clone();
        let policy = self.peers.policy.clone();
        cx.ask(
            &policy,
            PATIENCE,
            "every policy to know identities of other nodes",
            |reply| PolicyMsg::Acquaint { identities, named_ports, reply },
            move |answer| AddressesAnswer::Learned(asked, answer),
        );
    }

    pub(super) fn learned(
        &mut self,
        cx: &mut Cx<'_, Self>,
        asked: Introduction,
        answer: Result<(), AskError>,
    ) {
        match answer {
            Ok(()) => {
                self.busy = false;
                self.state.remote.learned(asked);
            }
            Err(error) => self.not_adopted(cx, &error.to_string()),
        }
    }

    fn not_adopted(&mut self, cx: &mut Cx<'_, Self>, error: &str) {
        self.busy = false;
        self.failed(cx, error);
    }
}
