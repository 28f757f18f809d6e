//! One operator: a process that runs, or stands still.

use std::{cell::RefCell, rc::Rc, time::Duration};

use volvox_actors_simulated::{
    host::{Reply, Universe},
    operator::{
        ClusterPools, CollectorSettings, LeadershipSettings, LeadershipView, MarkSettings,
        OperatorEnd, OperatorSettings, OperatorSupervisor, PoolRange, PrefixSource,
    },
    ports::KvStore,
    testing::{MemoryCluster, MemoryKvStore},
};

/// How often, and how old, in the simulated cluster: so that much happens in little time.
pub(super) const COLLECTION: CollectorSettings = CollectorSettings {
    endpoints: Duration::from_secs(25),
    identities: Duration::from_secs(20),
    unused: Duration::from_secs(25),
    nodes: Duration::from_secs(25),
};

/// How often it is looked for identities of the kvstore that nobody uses.
pub(super) const STORED_EVERY: Duration = Duration::from_secs(20);

/// Nodes get prefixes out of these: eight and more than eight.
const POOLS: [(&str, u8); 2] = [("10.0.0.0/21", 24), ("fd00::/108", 112)];

/// One prefix of each family for each node, out of these.
pub(super) fn single() -> PrefixSource {
    let ranges = POOLS.iter().filter_map(|(range, length)| PoolRange::new(range, *length).ok());
    PrefixSource::ClusterPool(ClusterPools::new(ranges.collect()).unwrap_or_default())
}

/// An operator's process.
pub(super) struct Process {
    pub(super) universe: Universe,
    supervisor: OperatorSupervisor,
    ended: Rc<RefCell<Option<OperatorEnd>>>,
    /// How long it has stood still, if it does.
    pub(super) stalled: Option<Duration>,
}

impl Process {
    /// Starts the nth operator of a history.
    pub(super) fn start(
        cluster: &MemoryCluster,
        store: Option<&MemoryKvStore>,
        marks: MarkSettings,
        prefixes: PrefixSource,
        number: u64,
    ) -> Self {
        let settings = OperatorSettings {
            leadership: LeadershipSettings {
                namespace: "kube-system".to_owned(),
                name: "cilium-operator-resource-lock".to_owned(),
                identity: format!("operator-{number}"),
                seed: number,
            },
            prefixes,
            collector: COLLECTION,
            stored_identities: STORED_EVERY,
            marks,
            definitions: Vec::new(),
        };
        let (universe, ended) = (Universe::default(), Rc::new(RefCell::new(None)));
        let heard = Rc::clone(&ended);
        let reply = Reply::to(move |why: Result<OperatorEnd, _>| *heard.borrow_mut() = why.ok());
        let cluster = Rc::new(cluster.clone());
        let store = store.map(|store| Rc::new(store.clone()) as Rc<dyn KvStore>);
        let supervisor = OperatorSupervisor::spawn(&universe.host, cluster, store, settings, reply);
        Self { universe, supervisor, ended, stalled: None }
    }

    pub(super) fn runs(&self) -> bool {
        self.stalled.is_none()
    }

    /// Why it ended, if it did.
    pub(super) fn ended(&self) -> Option<OperatorEnd> {
        self.ended.borrow().clone()
    }

    /// It runs on; its clock went on meanwhile.
    pub(super) fn resume(&mut self) {
        if let Some(missed) = self.stalled.take() {
            self.universe.clock().advance(missed);
        }
    }

    /// Whether it leads, once all that it has to do is done.
    pub(super) fn leads(&self) -> bool {
        let answer = Rc::new(RefCell::new(LeadershipView::default()));
        let heard = Rc::clone(&answer);
        let reply = Reply::to(move |view: Result<LeadershipView, _>| {
            *heard.borrow_mut() = view.unwrap_or_default();
        });
        self.supervisor.show_leadership(reply);
        self.universe.settle();
        answer.take().leads
    }
}
