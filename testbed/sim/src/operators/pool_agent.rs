//! A node with a real agent's owners of addresses and prefixes: what outlives the agent, and its lives.

use std::{cell::OnceCell, collections::BTreeMap, net::IpAddr, rc::Rc, time::Duration};

use volvox_actors_simulated::{
    cluster::own_prefixes::{
        OwnPrefixes, OwnPrefixesMsg, OwnPrefixesPeers, OwnPrefixesSettings, OwnPrefixesView,
    },
    endpoints::ipam::{
        Allocated, Ipam, IpamError, IpamMsg, IpamPeers, Pools, PoolsDemand, SeveralPools,
    },
    host::{Answer, Ref, Universe},
    model::Families,
    ports::ObjectKey,
    state_directory::{PoolRecord, Stored},
    testing::{Fate, MemoryCluster, MemoryDisk},
};

/// How long one waits for an answer of an actor.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many addresses of the default pool are to be free.
const AHEAD: u32 = 2;

/// An answer to a pod that starts.
type Allocation = Answer<Result<Allocated, IpamError>>;

/// A node, and its agent if one runs.
pub(super) struct PoolNode {
    pub(super) name: String,
    pub(super) home: Pools,
    pub(super) disk: MemoryDisk,
    /// Pods that run, with the address that each has.
    pub(super) pods: BTreeMap<String, IpAddr>,
    pub(super) life: Option<PoolLife>,
    /// Counts lives.
    pub(super) lives: u64,
}

/// A life of an agent.
pub(super) struct PoolLife {
    pub(super) universe: Universe,
    ipam: Ref<IpamMsg>,
    owner: Ref<OwnPrefixesMsg>,
    /// Pods that wait for an address.
    starting: Vec<(String, Allocation)>,
}

impl PoolNode {
    pub(super) fn new(name: &str, home: &str) -> Self {
        let disk = MemoryDisk::new(&Fate::default());
        disk.forget_steps();
        Self {
            name: name.to_owned(),
            home: Pools { ipv4: home.parse().ok(), ipv6: None },
            disk,
            pods: BTreeMap::new(),
            life: None,
            lives: 0,
        }
    }

    /// The agent starts; its pods come back.
    pub(super) fn start(&mut self, cluster: &MemoryCluster) {
        self.lives += 1;
        self.disk.sweep();
        let Stored { value, generation, .. } = self.disk.with(|it| PoolRecord::SLOTS.load(it));
        let settings = OwnPrefixesSettings {
            node: self.name.clone(),
            default_pool: "default".to_owned(),
            home: self.home,
            record: value,
            trusted: true,
            generation,
            mark: format!("{}-{}", self.name, self.lives),
            seed: self.lives,
        };
        let several = SeveralPools {
            default_pool: "default".to_owned(),
            pre_allocation: [("default".to_owned(), AHEAD)].into(),
            families: Families { ipv4: true, ipv6: false },
            prefixes: settings.prefixes(),
        };
        let universe = Universe::default();
        let owner_cell: Rc<OnceCell<Ref<OwnPrefixesMsg>>> = Rc::default();
        let heard = Rc::clone(&owner_cell);
        let peers = move || IpamPeers {
            workloads: None,
            demand: heard.get().map(|owner| owner.outlet(demanded)),
        };
        let ipam = universe.spawn("ipam", Ipam::of_several(self.home, Some(several), peers));
        let (cluster, disk, to) = (cluster.clone(), self.disk.clone(), ipam.clone());
        let peers = move || OwnPrefixesPeers {
            cluster: Rc::new(cluster.clone()),
            disk: Rc::new(disk.clone()),
            ipam: to.clone(),
            heard_by: Vec::new(),
        };
        let owner = universe.spawn("own-prefixes", OwnPrefixes::factory(peers, settings));
        let _ = owner_cell.set(owner.clone());
        let mut desired: Vec<(IpAddr, String)> =
            self.pods.iter().map(|(pod, address)| (*address, pod.clone())).collect();
        let router = self.home.ipv4.and_then(|home| home.hosts().next());
        desired.extend(router.map(|router| (IpAddr::V4(router), "router".to_owned())));
        let why = "addresses of restored endpoints";
        let ask = |reply| IpamMsg::ReserveAll { desired, reply };
        drop(universe.host.ask(&ipam, PATIENCE, why, ask));
        // A new mailbox has room.
        let _ = ipam.tell(IpamMsg::RestoreFinished);
        self.life = Some(PoolLife { universe, ipam, owner, starting: Vec::new() });
    }

    /// The agent is killed, in the middle of whatever it does.
    pub(super) fn kill(&mut self) -> bool {
        self.disk.forget();
        self.life.take().is_some()
    }

    /// What it had of prefixes is lost.
    pub(super) fn lose_record(&self) {
        self.disk.tamper(|files| {
            for path in PoolRecord::SLOTS.paths() {
                files.destroy(path.as_ref());
            }
        });
    }

    /// Pods whose address arrived run.
    pub(super) fn take_answers(&mut self) -> Vec<(String, IpAddr)> {
        let Some(life) = &mut self.life else { return Vec::new() };
        let (mut new, mut waiting) = (Vec::new(), Vec::new());
        for (pod, mut answer) in std::mem::take(&mut life.starting) {
            match answer.now() {
                None => waiting.push((pod, answer)),
                Some(Ok(Ok(Allocated { ipv4: Some(address), .. }))) => {
                    new.push((pod, IpAddr::V4(address)));
                }
                Some(_) => {}
            }
        }
        life.starting = waiting;
        self.pods.extend(new.iter().cloned());
        new
    }

    /// A pod starts, if an agent runs that can give it an address.
    pub(super) fn begin_pod(&mut self, pod: &str, pool: &str) -> bool {
        let Some(life) = &mut self.life else { return false };
        let is_there = life.starting.iter().any(|(it, _)| it == pod);
        if is_there || self.pods.contains_key(pod) {
            return false;
        }
        let (owner, pool) = (pod.to_owned(), Some(pool.to_owned()));
        let ask = |reply| IpamMsg::Allocate { family: None, owner, pool, expires: None, reply };
        let answer = life.universe.host.ask(&life.ipam, PATIENCE, "an address", ask);
        life.starting.push((pod.to_owned(), answer));
        true
    }

    /// A pod ends; its address goes back, if an agent runs.
    pub(super) fn end_pod(&mut self, pod: &str) -> bool {
        let Some(life) = &self.life else { return false };
        let Some(address) = self.pods.remove(pod) else { return false };
        let ask = |reply| IpamMsg::Release { address, reply };
        drop(life.universe.host.ask(&life.ipam, PATIENCE, "an address to go back", ask));
        true
    }

    /// The source of CiliumNodes says what there is.
    pub(super) fn hear(&self, cluster: &MemoryCluster) {
        let Some(life) = &self.life else { return };
        let node = cluster.object("CiliumNode", "", &self.name);
        let key = ObjectKey { namespace: String::new(), name: self.name.clone() };
        let news =
            OwnPrefixesMsg::Objects { objects: vec![(key, node.map(Into::into))], defined: true };
        let _ = life.owner.tell(news);
    }

    /// What IPAM says of addresses, and how it stands with prefixes, once all that is to be done is done.
    pub(super) fn look(&self) -> Option<(BTreeMap<IpAddr, String>, OwnPrefixesView, PoolsDemand)> {
        let life = self.life.as_ref()?;
        let (host, ipam) = (&life.universe.host, &life.ipam);
        let mut leases = host.ask(ipam, PATIENCE, "addresses", IpamMsg::Dump);
        let mut demand = host.ask(ipam, PATIENCE, "demand", IpamMsg::Demand);
        let mut view = host.ask(&life.owner, PATIENCE, "prefixes", OwnPrefixesMsg::Show);
        life.universe.settle();
        let leases = leases.now()?.ok()?.into_iter();
        let owners = leases.map(|(address, lease)| (address, lease.owner)).collect();
        Some((owners, view.now()?.ok()?, demand.now()?.ok()?))
    }

    /// How many pods wait.
    pub(super) fn waiting(&self) -> usize {
        self.life.as_ref().map_or(0, |life| life.starting.len())
    }
}

fn demanded(demand: PoolsDemand) -> OwnPrefixesMsg {
    OwnPrefixesMsg::Demand(demand)
}
