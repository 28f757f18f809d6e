//! How an operator comes to life: the owner of the Lease first, and those who work when it has it.

use std::{rc::Rc, time::Duration};

use serde_json::Value;

use super::{
    collector::{Collector, CollectorPeers, CollectorSettings, CollectorView},
    ending::{Ending, OnlyLife, OperatorEnd},
    follower::{FeedSubscriber, Follower},
    leadership::{Leadership, LeadershipMsg, LeadershipPeers, LeadershipSettings, LeadershipView},
    marks::{MarkSettings, MarksPeers, MarksView, NodeMarker},
    news::{FollowedKind, WorkerMsg},
    pod_pools::{NewPodPool, PodPrefixAllocator},
    prefixes::{ClusterPools, PrefixAllocator, PrefixesPeers, PrefixesView},
    resources::ALWAYS,
    store_collector::{StoreCollector, StoreCollectorPeers, StoreCollectorView},
};
use crate::{
    cluster::{
        api_server::ClusterMsg,
        definitions::{Definitions, DefinitionsPeers},
    },
    host::{Host, Late, Ref, Reply},
    ports::{Cluster, KvStore},
};

/// Capacity of a mailbox, messages: pages of lists and batches of events.
const CAPACITY: usize = 65_536;

/// What an operator does.
#[derive(Clone, Debug)]
pub struct OperatorSettings {
    /// How it leads.
    pub leadership: LeadershipSettings,
    /// Out of what nodes get prefixes.
    pub prefixes: PrefixSource,
    /// What is removed.
    pub collector: CollectorSettings,
    /// How often it looks for identities of the kvstore that nobody uses; zero for never.
    pub stored_identities: Duration,
    /// How Nodes are marked by their agents.
    pub marks: MarkSettings,
    /// CustomResourceDefinitions that the leader registers.
    pub definitions: Vec<Value>,
}

/// Out of what nodes get prefixes.
#[derive(Clone, Debug)]
pub enum PrefixSource {
    /// Ranges of the cluster: each node has one prefix of each family.
    ClusterPool(ClusterPools),
    /// CiliumPodIPPools, of which each node has as many as it needs. These are made if they are missing
    /// when the operator begins.
    MultiPool(Vec<NewPodPool>),
}

/// An operator.
#[derive(Clone)]
pub struct OperatorSupervisor {
    leadership: Ref<LeadershipMsg>,
    workers: Late<Workers>,
}

/// Those who work for who leads.
#[derive(Clone)]
struct Workers {
    prefixes: Ref<WorkerMsg<PrefixesView>>,
    collector: Ref<WorkerMsg<CollectorView>>,
    /// None if there is no kvstore.
    store: Option<Ref<WorkerMsg<StoreCollectorView>>>,
    /// None if there is nothing to mark.
    marks: Option<Ref<WorkerMsg<MarksView>>>,
}

/// What who asks wants to see of those who work.
pub struct OperatorQuestions {
    /// Of prefixes.
    pub prefixes: Reply<PrefixesView>,
    /// Of what is left over.
    pub collector: Reply<CollectorView>,
    /// Of identities of the kvstore.
    pub store: Reply<StoreCollectorView>,
    /// Of marks of Nodes.
    pub marks: Reply<MarksView>,
}

impl OperatorSupervisor {
    /// Brings an operator to life. `ended` is answered when it has to end.
    pub fn spawn(
        host: &Host,
        cluster: Rc<dyn Cluster>,
        store: Option<Rc<dyn KvStore>>,
        settings: OperatorSettings,
        ended: Reply<OperatorEnd>,
    ) -> Self {
        let ending = Ending::new(ended);
        let (late, workers) = (Late::<Ref<LeadershipMsg>>::default(), Late::default());
        let LeadershipSettings { seed, .. } = settings.leadership;
        let begin = {
            let (cluster, late, workers) = (Rc::clone(&cluster), late.clone(), workers.clone());
            let (ending, settings, store) = (ending.clone(), settings.clone(), store.clone());
            move |host: &Host, recorded: Option<String>| {
                let leader = Leader {
                    cluster: Rc::clone(&cluster),
                    store: store.clone(),
                    leadership: late.get(),
                    ending: ending.clone(),
                };
                workers.set(leader.work(host, &settings, recorded, seed));
            }
        };
        let life = OnlyLife::new("leadership", &ending);
        let peers = LeadershipPeers { cluster, begin: Rc::new(begin), life };
        let leads = settings.leadership;
        let make = move || Leadership::new(peers.clone(), leads.clone());
        let leadership = host.spawn("leadership", CAPACITY, make);
        late.set(leadership.clone());
        Self { leadership, workers }
    }

    /// Shows what those know who work; nothing of who does not lead.
    pub fn show(&self, questions: OperatorQuestions) {
        if let Some(workers) = self.workers.try_get() {
            // Who is gone lets go of the question, and who asked hears that.
            let _ = workers.prefixes.tell(WorkerMsg::Show(questions.prefixes));
            let _ = workers.collector.tell(WorkerMsg::Show(questions.collector));
            if let Some(store) = workers.store {
                let _ = store.tell(WorkerMsg::Show(questions.store));
            }
            if let Some(marks) = workers.marks {
                let _ = marks.tell(WorkerMsg::Show(questions.marks));
            }
        }
    }

    /// Gives the Lease back. Answered when that is done.
    pub fn release(&self, reply: Reply<()>) {
        let _ = self.leadership.tell(LeadershipMsg::Release(reply));
    }

    /// Shows who leads.
    pub fn show_leadership(&self, reply: Reply<LeadershipView>) {
        let _ = self.leadership.tell(LeadershipMsg::Show(reply));
    }
}

struct Leader {
    cluster: Rc<dyn Cluster>,
    store: Option<Rc<dyn KvStore>>,
    leadership: Ref<LeadershipMsg>,
    ending: Ending,
}

impl Leader {
    /// Brings those to life who work. The follower comes last: it lists what they hear.
    fn work(
        &self,
        host: &Host,
        settings: &OperatorSettings,
        recorded: Option<String>,
        seed: u64,
    ) -> Workers {
        let prefixes = self.prefixes(host, settings.prefixes.clone(), recorded);
        let collector = self.collector(host, settings.collector);
        let store = self
            .store
            .as_ref()
            .map(|store| self.store_collector(host, Rc::clone(store), settings.stored_identities));
        let marks = &settings.marks;
        let marker = marks.marks().then(|| self.marker(host, marks.clone(), seed));
        let workers = Workers { prefixes, collector, store, marks: marker };
        let follower = self.follow(host, &workers, settings, seed);
        self.define(host, &follower, settings.definitions.clone(), seed);
        workers
    }

    fn prefixes(
        &self,
        host: &Host,
        prefixes: PrefixSource,
        recorded: Option<String>,
    ) -> Ref<WorkerMsg<PrefixesView>> {
        let peers = PrefixesPeers {
            cluster: Rc::clone(&self.cluster),
            leadership: self.leadership.clone(),
            life: OnlyLife::new("prefixes", &self.ending),
        };
        match prefixes {
            PrefixSource::ClusterPool(pools) => {
                let make =
                    move || PrefixAllocator::new(peers.clone(), pools.clone(), recorded.as_deref());
                host.spawn("prefixes", CAPACITY, make)
            }
            PrefixSource::MultiPool(new) => {
                let make = move || {
                    PodPrefixAllocator::new(peers.clone(), new.clone(), recorded.as_deref())
                };
                host.spawn("prefixes", CAPACITY, make)
            }
        }
    }

    fn collector(&self, host: &Host, settings: CollectorSettings) -> Ref<WorkerMsg<CollectorView>> {
        let peers = CollectorPeers {
            cluster: Rc::clone(&self.cluster),
            leadership: self.leadership.clone(),
            life: OnlyLife::new("collector", &self.ending),
        };
        host.spawn("collector", CAPACITY, move || Collector::new(peers.clone(), settings))
    }

    fn store_collector(
        &self,
        host: &Host,
        store: Rc<dyn KvStore>,
        every: Duration,
    ) -> Ref<WorkerMsg<StoreCollectorView>> {
        let peers = StoreCollectorPeers {
            store,
            leadership: self.leadership.clone(),
            life: OnlyLife::new("store-collector", &self.ending),
        };
        let make = move || StoreCollector::new(peers.clone(), every);
        host.spawn("store-collector", CAPACITY, make)
    }

    fn marker(&self, host: &Host, settings: MarkSettings, seed: u64) -> Ref<WorkerMsg<MarksView>> {
        let peers = MarksPeers {
            cluster: Rc::clone(&self.cluster),
            leadership: self.leadership.clone(),
            life: OnlyLife::new("marks", &self.ending),
            seed,
        };
        host.spawn("marks", CAPACITY, move || NodeMarker::new(peers.clone(), settings.clone()))
    }

    fn follow(
        &self,
        host: &Host,
        workers: &Workers,
        settings: &OperatorSettings,
        seed: u64,
    ) -> Ref<ClusterMsg> {
        let all = ALWAYS.into_iter().map(|of| (of, of.resource()));
        let agents =
            workers.marks.iter().map(|_| (FollowedKind::AgentPods, settings.marks.agent_pods()));
        let pools = matches!(settings.prefixes, PrefixSource::MultiPool(_));
        let pools = pools.then_some(FollowedKind::PodPools).map(|of| (of, of.resource()));
        let followed: Vec<_> = all.chain(agents).chain(pools).collect();
        let workers = workers.clone();
        let subscribers = move || {
            let mut all = vec![
                FeedSubscriber {
                    name: "prefixes",
                    to: workers.prefixes.outlet(WorkerMsg::News),
                    of: &[FollowedKind::CiliumNodes, FollowedKind::PodPools],
                },
                FeedSubscriber {
                    name: "collector",
                    to: workers.collector.outlet(WorkerMsg::News),
                    of: &ALWAYS,
                },
            ];
            all.extend(workers.store.iter().map(|store| FeedSubscriber {
                name: "store-collector",
                to: store.outlet(WorkerMsg::News),
                of: &[FollowedKind::Endpoints],
            }));
            all.extend(workers.marks.iter().map(|marks| FeedSubscriber {
                name: "marks",
                to: marks.outlet(WorkerMsg::News),
                of: &[FollowedKind::Nodes, FollowedKind::AgentPods],
            }));
            all
        };
        let (cluster, life) = (Rc::clone(&self.cluster), OnlyLife::new("follower", &self.ending));
        let make = move || {
            let (cluster, followed) = (Rc::clone(&cluster), followed.clone());
            Follower::new(cluster, seed, followed, subscribers(), life.clone())
        };
        host.spawn("follower", CAPACITY, make)
    }

    /// Registers definitions. Who waits for one of them hears of it.
    fn define(&self, host: &Host, follower: &Ref<ClusterMsg>, brought: Vec<Value>, seed: u64) {
        if !brought.is_empty() {
            let cluster = Rc::clone(&self.cluster);
            let established = follower.outlet(ClusterMsg::Defined);
            let peers = DefinitionsPeers { cluster, established };
            let make = Definitions::factory(peers, brought, seed);
            host.spawn("definitions", CAPACITY, make);
        }
    }
}
