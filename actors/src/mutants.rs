//! Known bugs that the simulator switches in, one at a time, to show that it would find them.
//!
//! Each stands in the code that production runs, at the place where somebody could make the
//! mistake: `if mutated(Mutant::X)`. In a release that is `false` for the compiler, and nothing of it is in
//! an agent; the simulator has it by its feature, and an agent with debug assertions for the testbed.

#[cfg(any(test, feature = "simulation", debug_assertions))]
mod switch;

#[cfg(any(test, feature = "simulation", debug_assertions))]
pub use switch::{mutated, switch, switch_everywhere};

/// Whether that bug is switched in: never.
#[cfg(not(any(test, feature = "simulation", debug_assertions)))]
#[inline(always)]
pub(crate) const fn mutated(_: Mutant) -> bool {
    false
}

/// A bug that somebody could make.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// An address is handed out before those of restored endpoints are reserved.
    AddressBeforeReserve,
    /// An endpoint serves under a new identity before others' policies know it.
    IdentityBeforePolicies,
    /// A container is told from another one by the short form of its identifier.
    DeleteByShortId,
    /// A build of a state directory that never finished is taken for the finished one.
    IncompleteNextTrusted,
    /// A build permit stays out when its holder crashes.
    PermitLeaked,
    /// A trigger that meets a build under way is lost.
    CoalescedTriggerLost,
    /// A trigger that meets a waiting one does not raise its level.
    LevelNotRaised,
    /// The configuration names a policy map before the map is put there.
    ConfigBeforePolicy,
    /// Rows of a policy map are changed in place where that gives a third verdict on the way.
    RowsAlwaysInPlace,
    /// The number of an endpoint that went is the next to be handed out.
    EndpointIdReusedAtOnce,
    /// Connections of an endpoint that goes are left.
    ConntrackNotScrubbed,
    /// A policy map of an endpoint that goes is left.
    SlotLeft,
    /// An identity is given back while packets still carry it.
    IdentityReleasedEarly,
    /// A build that failed counts as done.
    FailureReportedReady,
    /// Who deletes an endpoint is answered before it is gone.
    DeleteAnsweredEarly,
    /// A container's interfaces go together.
    ContainerGoesWhole,
    /// A record that cannot be read is removed rather than put aside.
    QuarantinedRecordDeleted,
    /// A supervisor forgets its endpoints when it crashes.
    FamilyForgotten,
    /// A denial counts no more than an allowance.
    DenyLost,
    /// A rule that passes packets on to the next tier is taken for one that accepts them.
    PassTakenForAccept,
    /// A new pod starts although a restart would not find it.
    StartedUnsaved,
    /// A failed write of the ipcache is not taken up again.
    IpcacheNotRetried,
    /// An interface is brought up before its programs are attached.
    UpBeforeAttached,
    /// A file takes its place before its content is on the disk.
    RenamedUnsynced,
    /// The names in a directory are not put on the disk.
    DirectoryUnsynced,
    /// Policies are in force before all sources of them are synced.
    PoliciesUnsynced,
    /// A watch that nobody serves any more is not noticed.
    HalfOpenTrusted,
    /// What a crash ended is taken up twice.
    PauseEndedTwice,
    /// Addresses of other nodes are mapped before policies know their identities.
    StrangersMappedEarly,
    /// An identity that restored endpoints have goes with the last address of other nodes.
    RestoredNotWithheld,
    /// What was bound to a lease that ended counts as still there.
    LeaseLossIgnored,
    /// A watch of the store that nobody serves any more is not noticed.
    SilentStoreTrusted,
    /// What the other side says of itself is not compared with what it said before.
    OtherSideTrusted,
    /// What other clusters said to an earlier run is forgotten before they say it again.
    ClustersForgotten,
    /// What a cluster said stays when it is not configured any more.
    ClustersNeverLeft,
    /// A frontend says how many backends it has before it has them.
    CountBeforeSlots,
    /// A backend goes while slots still lead to it.
    BackendGoesFirst,
    /// Services of an earlier run go before all sources have spoken.
    ServicesPrunedEarly,
    /// What may be an Ingress's goes before Ingresses were heard of.
    IngressesPrunedEarly,
    /// Of backends that were quarantined before a restart nothing is known after it.
    QuarantineForgotten,
    /// Who is not ready has new connections.
    UnreadyServe,
    /// Who is not ready any more loses the connections that it has.
    UnreadyCutOff,
    /// A backend that a service has no more keeps what it had of it.
    MemberStays,
    /// What is sent to a port that a service's address does not serve leaves the node.
    UnservedPortsLeave,
    /// Hints that name nobody for this node leave it without backends.
    HintsStarve,
    /// Load balancers hear of the backends on the node once, and of no change.
    HealthToldOnce,
    /// The row of a device that went is left.
    DeviceRowLeft,
    /// Routes to other nodes go before all nodes were named.
    RoutesPrunedEarly,
    /// The rule that looks up the node's own addresses goes before it is put elsewhere.
    LocalRuleGoesFirst,
    /// What somebody takes away at an endpoint's interface is not noticed.
    LostUnnoticed,
    /// An endpoint whose map has no room for all of its policy keeps what it had.
    FullMapKeepsAll,
    /// One that does not answer holds up everyone's changes.
    OverdueHoldsAll,
    /// Rows of the ipcache that somebody else changed are overlooked.
    IpcacheNotSwept,
    /// Rows of endpoints' policies that somebody else changed are overlooked.
    PoliciesNotSwept,
    /// Rows of services that somebody else changed are overlooked.
    ServicesNotSwept,
    /// Rows of local addresses, and of endpoints that are none, are overlooked.
    StrangersNotSwept,
    /// Rows of the node and of its devices that somebody else changed are overlooked.
    NodeNotSwept,
    /// An endpoint goes because its runtime says that its container is gone.
    RuntimeTrusted,
    /// An operator writes a prefix into a CiliumNode before the Lease says it.
    PrefixesUnrecorded,
    /// An operator that takes the Lease over does not read what it says of prefixes.
    PrefixesForgotten,
    /// An operator gives a prefix that a node has of another pool, which overlaps.
    PodPoolsApart,
    /// A prefix that a node gets holds no pods of it.
    NewPrefixTakenForEmpty,
    /// Addresses are handed out of a prefix that is being given back.
    GivenBackPrefixServes,
    /// What is left over is told before all that matters was listed.
    LeftoversUnlisted,
    /// An identity that nobody uses goes without having been marked.
    IdentitiesUnmarked,
    /// An identity of the kvstore goes in the first round that finds nobody who uses it.
    StoredIdentityUnmarked,
    /// An identity of the kvstore goes whoever took it up since the last look.
    StoredIdentityUnguarded,
    /// Marks of identities of the kvstore outlive the store that they were made for.
    StoredIdentityUnchained,
    /// What is left over is removed whatever became of it since it was seen.
    LeftoversUnversioned,
    /// Nobody asks for the pod of what is left over.
    OwnersUnasked,
    /// An operator whose Lease expired goes on.
    ExpiredLeads,
    /// A Node is marked whatever became of it since it was seen.
    MarksUnversioned,
    /// Nobody asks for the pod by which a Node is marked.
    MarksUnasked,
}
