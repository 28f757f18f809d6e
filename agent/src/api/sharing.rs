//! How this node stands with what it shares with others: a store, or objects of the API server.

use std::time::Duration;

use volvox_actors::{
    cluster::{
        addresses::{AddressesMsg, AddressesView},
        allocator::{AllocatorMsg, AllocatorView},
        kvstore::{SessionMsg, SessionView},
    },
    model::IdentityId,
    node_supervisor::NodeSupervisor,
};
use volvox_rest::models::Status;

use super::{Api, troubles::Trouble};
use crate::gateway::GatewayError;

/// How long its actors may take for an answer: none of them waits for others.
const PATIENCE: Duration = Duration::from_secs(60);

/// What its actors say.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    /// None without a store.
    pub(super) session: Option<SessionView>,
    pub(super) addresses: AddressesView,
    pub(super) identities: AllocatorView,
}

impl Sharing {
    /// Asks them; none if nothing is shared.
    pub(super) async fn gather(
        api: &Api,
        what: &'static str,
    ) -> Result<Option<Self>, GatewayError> {
        let ask = move |node_supervisor: &NodeSupervisor| {
            let (session, addresses, allocator) =
                match (&node_supervisor.kvstore, &node_supervisor.crd) {
                    (Some(it), _) => (Some(&it.session), &it.addresses, &it.allocator),
                    (None, Some(it)) => (None, &it.addresses, &it.allocator),
                    (None, None) => return None,
                };
            let host = &node_supervisor.host;
            Some(host.outside(what, || {
                (
                    session.map(|session| host.ask(session, PATIENCE, what, SessionMsg::Show)),
                    host.ask(addresses, PATIENCE, what, AddressesMsg::Show),
                    host.ask(allocator, PATIENCE, what, AllocatorMsg::Show),
                )
            }))
        };
        let Some((session, addresses, identities)) = api.gateway.look(ask).await? else {
            return Ok(None);
        };
        let session = match session {
            Some(session) => Some(session.await?),
            None => None,
        };
        Ok(Some(Self { session, addresses: addresses.await?, identities: identities.await? }))
    }

    /// As `GET /healthz` says it.
    pub(super) fn status(&self) -> Status {
        let Self { session, addresses, identities } = self;
        let synced = if addresses.synced { "" } else { ", not all read yet" };
        let common = format!(
            "{} addresses of other nodes in force{synced}; {} identities",
            addresses.mapped, identities.known
        );
        let Some(session) = session else {
            let msg = format!("the API server has identities: {common}");
            return Status { state: "Disabled".to_owned(), msg };
        };
        let state = match (&session.unreachable, session.lease) {
            (Some(_), _) => "Failure",
            (None, None) => "Warning",
            (None, Some(_)) => "Ok",
        };
        let lease = match (&session.unreachable, session.lease) {
            (Some(unreachable), _) => format!("unreachable: {}", unreachable.error),
            (None, None) => "connecting".to_owned(),
            (None, Some(lease)) => format!("lease {lease}"),
        };
        let msg = format!(
            "etcd: {lease}; {} of {} announcements written; {common}",
            session.written, session.announced
        );
        Status { state: state.to_owned(), msg }
    }

    /// That a number is of an earlier numbering, if so, and until when its endpoints have it.
    pub(super) fn numbering(&self, id: IdentityId) -> Option<String> {
        self.identities.disputed.contains(&id).then(|| of_before(id))
    }

    /// What is not as it should be.
    pub(super) fn troubles(&self) -> impl Iterator<Item = Trouble> {
        let away = self.session.as_ref().and_then(|session| {
            let unreachable = session.unreachable.as_ref()?;
            let text = format!(
                "kvstore is unreachable: {}; what is known stays in force, new label sets wait",
                unreachable.error
            );
            Some(Trouble::new("kvstore", session.quorum_errors.max(1).into(), text))
        });
        let disputed = self
            .identities
            .disputed
            .iter()
            .map(|id| Trouble::new(format!("identity-{id}"), 1, of_before(*id)));
        let all: Vec<_> = away.into_iter().chain(disputed).collect();
        all.into_iter()
    }
}

fn of_before(id: IdentityId) -> String {
    format!(
        "identity {id} is of an earlier numbering: in the cluster it stands for other labels, or its \
         labels have another number; its endpoints serve on, and the change lasts until they have \
         that one; if it lasts, `volvox identity list` shows who has it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_before_is_named_with_the_end_of_the_change() {
        let mut sharing = Sharing {
            session: None,
            addresses: AddressesView::default(),
            identities: AllocatorView {
                known: 2,
                listed: true,
                used: 2,
                claimed: 1,
                disputed: [IdentityId(300)].into(),
                waiting: 0,
            },
        };
        let text = sharing.numbering(IdentityId(300)).unwrap();
        assert!(text.starts_with("identity 300 is of an earlier numbering"), "{text}");
        assert_eq!(sharing.troubles().map(|trouble| trouble.text).collect::<Vec<_>>(), [text]);
        assert_eq!(sharing.numbering(IdentityId(301)), None);
        sharing.identities.disputed.clear();
        assert_eq!(sharing.troubles().count(), 0);
    }
}
