//! How this node stands with the store that it shares with others.

use std::time::Duration;

use volvox_actors::{
    colony::Colony,
    kvstore::{AddressesMsg, AddressesView, AllocatorMsg, AllocatorView, SessionMsg, SessionView},
};

use super::{Api, troubles::Trouble};
use crate::{gateway::GatewayError, rest_model::Status};

/// How long its actors may take for an answer: none of them waits for the store.
const PATIENCE: Duration = Duration::from_secs(60);

/// What its actors say.
#[derive(Clone, Debug)]
pub(super) struct KvReport {
    pub(super) session: SessionView,
    pub(super) addresses: AddressesView,
    pub(super) identities: AllocatorView,
}

impl KvReport {
    /// Asks them; none if there is no store.
    pub(super) async fn gather(
        api: &Api,
        what: &'static str,
    ) -> Result<Option<Self>, GatewayError> {
        let ask = move |colony: &Colony| {
            let actors = colony.kvstore.as_ref()?;
            let host = &colony.host;
            Some(host.outside(what, || {
                (
                    host.ask(&actors.session, PATIENCE, what, SessionMsg::Show),
                    host.ask(&actors.addresses, PATIENCE, what, AddressesMsg::Show),
                    host.ask(&actors.allocator, PATIENCE, what, AllocatorMsg::Show),
                )
            }))
        };
        let Some((session, addresses, identities)) = api.gateway.look(ask).await? else {
            return Ok(None);
        };
        let session = session.await?;
        Ok(Some(Self { session, addresses: addresses.await?, identities: identities.await? }))
    }

    /// As `GET /healthz` says it.
    pub(super) fn status(&self) -> Status {
        let Self { session, addresses, identities } = self;
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
        let synced = if addresses.synced { "" } else { ", not all read yet" };
        let msg = format!(
            "etcd: {lease}; {} of {} announcements written; {} addresses of other nodes in \
             force{synced}; {} identities",
            session.written, session.announced, addresses.mapped, identities.known
        );
        Status { state: state.to_owned(), msg }
    }

    /// What is not as it should be.
    pub(super) fn troubles(&self) -> impl Iterator<Item = Trouble> {
        let away = self.session.unreachable.as_ref().map(|unreachable| {
            let text = format!(
                "kvstore is unreachable: {}; what is known stays in force, new label sets wait",
                unreachable.error
            );
            Trouble::new("kvstore", self.session.quorum_errors.max(1).into(), text)
        });
        let disputed = self.identities.disputed.iter().map(|id| {
            let text = format!(
                "identity {id} stands for other labels in the cluster: its endpoints are not \
                 announced before they have another one; make pods that keep it again"
            );
            Trouble::new(format!("kvstore-identity-{id}"), 1, text)
        });
        let all: Vec<_> = away.into_iter().chain(disputed).collect();
        all.into_iter()
    }
}
