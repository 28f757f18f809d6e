//! Follows the cluster for who leads it: one source for each kind of object, whose words go on to those
//! who work. It begins when the Lease is taken, so that no list is older than that.

use std::rc::Rc;

use super::{
    ending::{OnlyLife, OperatorEnd},
    news::{FollowedKind, KindStanding, ObjectNews},
};
use crate::{
    cluster::api_server::{ClusterMsg, SourceMsg, SourceState, spawn_source},
    host::{Behaviour, Cx, NoAnswer, Outlet, Ref},
    ports::{Cluster, Resource},
};

/// Who hears of what.
pub(super) struct FeedSubscriber {
    pub(super) name: &'static str,
    pub(super) to: Outlet<ObjectNews>,
    pub(super) of: &'static [FollowedKind],
}

/// Follows the cluster.
pub(super) struct Follower {
    pub(super) cluster: Rc<dyn Cluster>,
    pub(super) seed: u64,
    pub(super) subscribers: Vec<FeedSubscriber>,
    pub(super) life: OnlyLife,
    followed: Vec<(FollowedKind, Resource)>,
    standings: Vec<KindStanding>,
    sources: Vec<Ref<SourceMsg>>,
}

impl Follower {
    pub(super) fn new(
        cluster: Rc<dyn Cluster>,
        seed: u64,
        followed: Vec<(FollowedKind, Resource)>,
        subscribers: Vec<FeedSubscriber>,
        life: OnlyLife,
    ) -> Self {
        Self {
            cluster,
            seed,
            subscribers,
            life,
            standings: vec![KindStanding::default(); followed.len()],
            followed,
            sources: Vec::new(),
        }
    }

    fn say(&self, of: FollowedKind, news: &ObjectNews) {
        for subscriber in self.subscribers.iter().filter(|subscriber| subscriber.of.contains(&of)) {
            if subscriber.to.say(news.clone()).is_err() {
                self.life.ending.end(OperatorEnd::Overrun(subscriber.name));
            }
        }
    }

    /// Objects of that definition are served now: their source lists at once.
    fn defined(&self, name: &str) {
        let all = self.followed.iter().zip(&self.sources);
        for (_, source) in all.filter(|((_, resource), _)| resource.definition == Some(name)) {
            if source.tell(SourceMsg::Defined).is_err() {
                tracing::warn!(definition = name, "its source looks later");
            }
        }
    }

    fn state(&mut self, source: usize, state: &SourceState) {
        let standing = match state {
            SourceState::Synced(_) => KindStanding::Followed,
            SourceState::Undefined => KindStanding::Undefined,
            SourceState::Listing | SourceState::Broken { .. } => KindStanding::Unknown,
        };
        let followed = self.followed.get(source).map(|(of, _)| *of);
        let (Some(of), Some(known)) = (followed, self.standings.get_mut(source)) else {
            return;
        };
        if std::mem::replace(known, standing) != standing {
            self.say(of, &ObjectNews::Standing(of, standing));
        }
    }
}

impl Behaviour for Follower {
    type Msg = ClusterMsg;
    type Answer = NoAnswer;
    type Observed = Vec<KindStanding>;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.life.begin() {
            return;
        }
        for (number, (_, resource)) in self.followed.iter().enumerate() {
            let (cluster, me) = (Rc::clone(&self.cluster), cx.me().clone());
            let forms = vec![resource.clone()];
            self.sources.push(spawn_source(cx.host(), cluster, me, number, forms, self.seed));
        }
    }

    fn handle(&mut self, msg: ClusterMsg, _: &mut Cx<'_, Self>) {
        match msg {
            ClusterMsg::Changed { source, objects } => {
                if let Some((of, _)) = self.followed.get(source) {
                    self.say(*of, &ObjectNews::Changed(*of, objects));
                }
            }
            ClusterMsg::State { source, state, .. } => self.state(source, &state),
            // It lists anew by itself; who removes something confirms the Lease first, which another
            // server does not have.
            ClusterMsg::Replaced { .. } => {}
            ClusterMsg::Defined(name) => self.defined(&name),
            ClusterMsg::Server(_) | ClusterMsg::AwaitSync(..) | ClusterMsg::Show(_) => {}
        }
    }

    fn answered(&mut self, answer: NoAnswer, _: &mut Cx<'_, Self>) {
        match answer {}
    }

    fn observe(&self) -> Vec<KindStanding> {
        self.standings.clone()
    }
}
