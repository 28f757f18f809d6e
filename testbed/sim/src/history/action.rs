//! What can happen to a node: one entry of a history.
//!
//! Each stands for itself and carries the seed of its own choices, so that a history from which
//! some are taken out still means something: that is how failing ones are shrunk.

use std::fmt;

use super::events::{ApiServerEvent, DeviceEvent, Removal, RuntimeNews, StoreEvent, Victim};
use crate::model::{
    policies::{App, Policy},
    service_members::Members,
};

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A pod is started, unless it runs.
    Add(u8),
    /// Whoever starts a pod gives up waiting and has it deleted.
    Cancel(u8),
    /// A pod is deleted.
    Remove(u8),
    /// The deletion of a pod of the same name that went long ago comes again.
    RemoveEarlier(u8),
    /// A pod's interface vanishes, and nobody says so.
    Unplug(u8),
    /// Somebody takes something from a pod's interface.
    ForeignRemoval {
        /// The pod.
        pod: u8,
        /// What is taken.
        what: Removal,
        /// The order of what follows.
        seed: u64,
    },
    /// A pod's labels are changed; told to the agent now or with the next delivery.
    Label {
        /// The pod.
        pod: u8,
        /// Its label.
        app: App,
        /// Whether the agent hears of it now.
        reported: bool,
    },
    /// A source of policies holds others.
    Policies {
        /// The source.
        source: u8,
        /// What it holds.
        policies: Vec<Policy>,
        /// Whether the agent hears of it now.
        reported: bool,
    },
    /// From now on agents follow an API server in place of manifests.
    FollowApiServer,
    /// Something happens to that server.
    ApiServer(ApiServerEvent),
    /// From now on agents share a key-value store with another node.
    ShareStore,
    /// Something happens to that store.
    Store(StoreEvent),
    /// From now on agents read another cluster's store, too.
    MeshClusters,
    /// Something happens to that store.
    RemoteStore(StoreEvent),
    /// The other cluster is configured from now on, or not any more.
    ConfigureRemoteCluster(bool),
    /// A pod of the other node, or of the other cluster, has that label from now on; without one it
    /// is gone.
    RemotePod {
        /// The pod.
        number: u8,
        /// Its label.
        app: Option<App>,
    },
    /// The container runtime says something, or agents follow it from now on.
    Runtime(RuntimeNews),
    /// A service has other backends, comes, or goes.
    Service {
        /// The service.
        number: u8,
        /// Its backends.
        members: Option<Members>,
        /// Whether the agent hears of it now.
        reported: bool,
    },
    /// An Ingress leads to a service, or is gone.
    Ingress {
        /// The service.
        number: u8,
        /// Whether it is there.
        there: bool,
        /// Whether the agent hears of it now.
        reported: bool,
    },
    /// An operator keeps a backend from new connections, or releases it.
    Quarantine {
        /// The backend.
        backend: u8,
        /// Whether it is to be kept from them.
        expected: bool,
    },
    /// From now on agents are started with a policy of the node itself, or without one.
    HostFirewall(bool),
    /// Something happens to an interface to other machines.
    Device {
        /// The interface.
        number: u8,
        /// What happens.
        what: DeviceEvent,
        /// Whether the agent hears of it now.
        reported: bool,
    },
    /// Another node's pods have that prefix from now on; without one it is gone.
    NodePrefix {
        /// The node.
        number: u8,
        /// Its prefix.
        prefix: Option<u8>,
    },
    /// From now on agents reach other nodes by routes to neighbours, or in tunnels.
    NativeRouting(bool),
    /// The agent hears what it has not heard, and something that it has heard once more.
    Deliver,
    /// A manifest is missing for a moment, then listed again.
    Relist(u8),
    /// A manifest cannot be read for a moment.
    Unreadable(u8),
    /// From now on nothing is written of a pod's policy, until the node rests.
    HangPolicy(u8),
    /// From now on policy maps have room for so many rows, as the next agent knows; without a number
    /// for all.
    PolicyRoom(Option<u8>),
    /// What was told is in force, but with a pod of which nothing is written.
    InForce,
    /// An endpoint is to be regenerated with fresh programs.
    Regenerate(u8),
    /// Pods have connections.
    Connect,
    /// Actors, kernel and disk take steps, in an order that follows from the seed.
    Steps {
        /// How many.
        count: u16,
        /// The order.
        seed: u64,
    },
    /// Time passes; all that can be done is done.
    Time {
        /// Milliseconds.
        ms: u32,
        /// The order of what is done.
        seed: u64,
    },
    /// Time passes while the kernel does nothing.
    Stall {
        /// Milliseconds.
        ms: u32,
    },
    /// The monotonic clock jumps, as after a suspension, and the wall clock with it or backwards.
    ClockJump {
        /// Milliseconds.
        ms: u32,
        /// What the wall clock says then.
        wall: u64,
    },
    /// Steps of the kernel or of the disk are refused from now on.
    Faults {
        /// Which.
        kind: Fault,
        /// One step of so many.
        one_in: u8,
        /// Which steps.
        seed: u64,
    },
    /// Everything works again.
    FaultsOff,
    /// An actor panics behind its next message.
    Crash(Victim),
    /// The agent is killed.
    Kill,
    /// The agent is killed before the nth step of kernel or disk from now, and started again.
    KillAt(u16),
    /// The machine loses power before the nth step of kernel or disk from now, at once if no agent
    /// runs: the kernel forgets all, pods are gone, and of the disk only what was synced is sure.
    PowerCut {
        /// Which step.
        nth: u16,
        /// The state directory was in memory, and is empty afterwards.
        tmpfs: bool,
        /// What is left of what was not synced.
        seed: u64,
    },
    /// The agent is started, if there is none; it hears of manifests now or with the next delivery.
    Boot {
        /// Whether it hears of them now.
        reported: bool,
    },
    /// While no agent runs: the state directory is as another version leaves it.
    RewriteState(Version),
    /// While no agent runs: the record of a pod's endpoint is torn.
    TearRecord(u8),
    /// While no agent runs: another record claims the address of a pod's endpoint.
    DuplicateRecord(u8, u16),
    /// While no agent runs: the kernel holds rows of nobody.
    ForeignRows,
    /// The node comes to rest, somebody else changes a row of the kernel, and a sweep goes by.
    ForeignChange(u64),
    /// The agent is started anew while nothing changed: it has nothing to write.
    RestartUnchanged,
    /// Faults end, everything is told, and the node must come to rest.
    Rest,
}

/// Which steps fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Any.
    Any,
    /// Maps are full.
    MapFull,
    /// There is no memory for policy maps.
    NoMemory,
    /// Of a batch half is done.
    Half,
    /// The disk is full.
    NoSpace,
    /// The disk fails.
    Io,
}

/// Whose state directory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `lxc_config.h` only.
    V1_5,
    /// `ep_config.h` only.
    V1_9,
    /// `ep_config.json` and `ep_config.h`, without our stamp.
    V1_19,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heard = |reported: &bool| if *reported { "" } else { ", not told yet" };
        match self {
            Self::Add(pod) => write!(f, "pod {pod} is started"),
            Self::Cancel(pod) => write!(f, "who starts pod {pod} gives up"),
            Self::Remove(pod) => write!(f, "pod {pod} is deleted"),
            Self::RemoveEarlier(pod) => write!(f, "an earlier pod {pod} is deleted once more"),
            Self::Unplug(pod) => write!(f, "the interface of pod {pod} vanishes"),
            Self::ForeignRemoval { pod, what, .. } => {
                write!(f, "somebody takes {what} from pod {pod}")
            }
            Self::Label { pod, app, reported } => {
                write!(f, "pod {pod} is {}{}", app.name(), heard(reported))
            }
            Self::Policies { source, policies, reported } => {
                write!(f, "policies {source} are [")?;
                policies.iter().try_for_each(|policy| write!(f, " {policy}"))?;
                write!(f, " ]{}", heard(reported))
            }
            Self::FollowApiServer => f.write_str("agents follow an API server"),
            Self::ApiServer(what) => write!(f, "the API server {what}"),
            Self::ShareStore => f.write_str("agents share a store with another node"),
            Self::Store(what) => write!(f, "the store {what}"),
            Self::MeshClusters => f.write_str("the cluster is meshed with another one"),
            Self::RemoteStore(what) => write!(f, "the other cluster's store {what}"),
            Self::ConfigureRemoteCluster(true) => f.write_str("the other cluster is configured"),
            Self::ConfigureRemoteCluster(false) => {
                f.write_str("the other cluster is not configured any more")
            }
            Self::RemotePod { number, app: None } => write!(f, "remote pod {number} is gone"),
            Self::RemotePod { number, app: Some(app) } => {
                write!(f, "remote pod {number} is {}", app.name())
            }
            Self::Runtime(news) => write!(f, "the container runtime {news}"),
            Self::Service { number, members: None, reported } => {
                write!(f, "service {number} is gone{}", heard(reported))
            }
            Self::Service { number, members: Some(members), reported } => {
                write!(f, "service {number} has the backends {members}{}", heard(reported))
            }
            Self::Ingress { number, there, reported } => {
                let what = if *there { "leads to" } else { "leads no more to" };
                write!(f, "an Ingress {what} service {number}{}", heard(reported))
            }
            Self::Quarantine { backend, expected: true } => {
                write!(f, "backend {backend} is quarantined")
            }
            Self::Quarantine { backend, expected: false } => {
                write!(f, "backend {backend} is released")
            }
            Self::HostFirewall(true) => f.write_str("agents have a policy of the node"),
            Self::HostFirewall(false) => f.write_str("agents have no policy of the node"),
            Self::Device { number, what, reported } => {
                write!(f, "interface {number} {what}{}", heard(reported))
            }
            Self::NodePrefix { number, prefix: None } => write!(f, "node {number} is gone"),
            Self::NodePrefix { number, prefix: Some(prefix) } => {
                write!(f, "node {number} has the prefix {prefix}")
            }
            Self::NativeRouting(true) => f.write_str("agents route to neighbours"),
            Self::NativeRouting(false) => f.write_str("agents reach other nodes in tunnels"),
            Self::Deliver => f.write_str("what was not told is told"),
            Self::Relist(which) => write!(f, "manifest {which} is missing, then listed again"),
            Self::Unreadable(which) => write!(f, "manifest {which} cannot be read"),
            Self::HangPolicy(pod) => write!(f, "nothing is written of the policy of pod {pod}"),
            Self::PolicyRoom(None) => f.write_str("policy maps have room"),
            Self::PolicyRoom(Some(rows)) => write!(f, "policy maps have room for {rows} rows"),
            Self::InForce => f.write_str("what was told is in force"),
            Self::Regenerate(pod) => write!(f, "pod {pod} is to have fresh programs"),
            Self::Connect => f.write_str("pods have connections"),
            Self::Steps { count, .. } => write!(f, "{count} steps"),
            Self::Time { ms, .. } => write!(f, "{ms} ms pass"),
            Self::Stall { ms } => write!(f, "{ms} ms pass, the kernel stands still"),
            Self::ClockJump { ms, .. } => write!(f, "clocks jump {ms} ms"),
            Self::Faults { kind, one_in, .. } => write!(f, "one step in {one_in} fails: {kind:?}"),
            Self::FaultsOff => f.write_str("everything works"),
            Self::Crash(Victim::Named(name)) => write!(f, "the actor {name} crashes"),
            Self::Crash(_) => f.write_str("an actor crashes"),
            Self::Kill => f.write_str("the agent is killed"),
            Self::KillAt(nth) => write!(f, "the agent dies before step {nth}"),
            Self::PowerCut { nth, tmpfs, .. } => {
                let state = if *tmpfs { ", with the state directory" } else { "" };
                write!(f, "the power goes before step {nth}{state}")
            }
            Self::Boot { reported } => write!(f, "an agent is started{}", heard(reported)),
            Self::RewriteState(version) => {
                write!(f, "the state directory is as {version:?} writes it")
            }
            Self::TearRecord(pod) => write!(f, "the record of pod {pod} is torn"),
            Self::DuplicateRecord(pod, id) => {
                write!(f, "a record of endpoint {id} claims the address of pod {pod}")
            }
            Self::ForeignRows => f.write_str("the kernel holds rows of nobody"),
            Self::ForeignChange(_) => {
                f.write_str("the node comes to rest, and somebody changes a row")
            }
            Self::RestartUnchanged => f.write_str("the agent is started anew, nothing changed"),
            Self::Rest => f.write_str("faults end, the node comes to rest"),
        }
    }
}
