//! What the actors ask of the world. The agent implements it for real, the testbed simulates it.
//!
//! A port never blocks and never calls back into an actor: it answers through a
//! [`Reply`](crate::host::Reply), which arrives as an answer.

mod agent_notices;
mod cluster;
mod container_runtime;
mod definition;
/// Wishes on disk, and the steps that fulfil them.
pub mod disk;
mod health_listeners;
mod kernel;
mod keyspace;
mod kvstore;
mod node_health;
mod owned;
mod remote_clusters;

pub use agent_notices::{AddressNews, AgentNews, AgentNotices};
pub use cluster::{
    Cluster, ClusterError, Object, ObjectChange, ObjectKey, ObjectWatch, ObjectWrite, Page, Reader,
    Resource, Verb,
};
pub use container_runtime::{
    ContainerRuntime, RuntimeContainer, RuntimeContainers, RuntimeError, RuntimeEvent, RuntimePod,
    RuntimeSink, WhichContainers,
};
pub use definition::{Definition, SCHEMA_VERSION_LABEL};
pub use disk::{Disk, DiskError, FsOp};
pub use health_listeners::{HealthAnswer, HealthListeners, ListenError};
pub use kernel::{
    Attachment, BackendRow, BackendState, ConfigRow, DeviceKind, DeviceLinks, DeviceRow,
    DeviceTables, EndpointRow, HOST_DEVICE, HOST_IFINDEX, HOST_PEER, Hook, HookState, Hop, InOrder,
    Intruder, IpcacheRow, Kernel, KernelDone, KernelError, KernelJob, KernelOp, KernelOutcome,
    KernelSnapshot, LOCAL_RULE_PRIORITY, Link, LocalRule, LocalRules, LxcRow, MaglevTable,
    MemberKey, Notices, OVERLAY, PageRows, PolicyCheck, Probe, Refusal, Routing, RoutingDevice,
    RoutingOp, RowMap, RowPage, RowPlace, ServiceKeys, ServiceRows, ServiceTables, SlotKey,
    SlotRow, Swept, UnusedNumbers, config_flags, device_flags, ipcache_flags, lxc_flags,
    service_flags,
};
pub use keyspace::{Keyspace, LeaseLost};
pub use kvstore::{
    Change, Condition, KvError, KvStore, LeaseId, ListPosition, Listing, Pair, Put, Revision,
    StoreHeader, TRANSACTION_MAX, Transaction, WATCH_ALIVE_EVERY, Watch, WatchEvent, WatchSink,
};
pub use node_health::{
    DesiredHealthPlace, Echo, HEALTH_DEVICE, HealthPlace, HealthPlaceError, HealthPlaces, Probes,
};
pub use owned::OwnedRows;
pub use remote_clusters::{ClustersSink, RemoteClusters, Way};
