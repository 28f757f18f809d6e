//! The switch that turns one known bug on, for the current thread or for all, and the list of all of them.

use std::{cell::Cell, sync::OnceLock};

use super::Mutant;

thread_local! {
    static ON: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Switched in on every thread, for as long as the process lives.
static EVERYWHERE: OnceLock<Mutant> = OnceLock::new();

/// Whether that bug is switched in, on this thread.
pub fn mutated(mutant: Mutant) -> bool {
    ON.get() == Some(mutant) || EVERYWHERE.get() == Some(&mutant)
}

/// Switches a bug in on this thread, in place of another one, or none.
pub fn switch(mutant: Option<Mutant>) {
    ON.set(mutant);
}

/// Switches the bug of that name in on every thread; it stays. False if there is none.
pub fn switch_everywhere(name: &str) -> bool {
    let named = Mutant::ALL.iter().find(|mutant| mutant.name() == name);
    named.is_some_and(|mutant| EVERYWHERE.set(*mutant).is_ok())
}

impl Mutant {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::AddressBeforeReserve,
        Self::IdentityBeforePolicies,
        Self::DeleteByShortId,
        Self::IncompleteNextTrusted,
        Self::PermitLeaked,
        Self::CoalescedTriggerLost,
        Self::LevelNotRaised,
        Self::ConfigBeforePolicy,
        Self::RowsAlwaysInPlace,
        Self::EndpointIdReusedAtOnce,
        Self::ConntrackNotScrubbed,
        Self::SlotLeft,
        Self::IdentityReleasedEarly,
        Self::FailureReportedReady,
        Self::DeleteAnsweredEarly,
        Self::ContainerGoesWhole,
        Self::QuarantinedRecordDeleted,
        Self::FamilyForgotten,
        Self::DenyLost,
        Self::PassTakenForAccept,
        Self::StartedUnsaved,
        Self::IpcacheNotRetried,
        Self::UpBeforeAttached,
        Self::RenamedUnsynced,
        Self::DirectoryUnsynced,
        Self::PoliciesUnsynced,
        Self::HalfOpenTrusted,
        Self::PauseEndedTwice,
        Self::StrangersMappedEarly,
        Self::RestoredNotWithheld,
        Self::LeaseLossIgnored,
        Self::SilentStoreTrusted,
        Self::OtherSideTrusted,
        Self::ClustersForgotten,
        Self::ClustersNeverLeft,
        Self::CountBeforeSlots,
        Self::BackendGoesFirst,
        Self::ServicesPrunedEarly,
        Self::IngressesPrunedEarly,
        Self::QuarantineForgotten,
        Self::UnreadyServe,
        Self::UnreadyCutOff,
        Self::MemberStays,
        Self::UnservedPortsLeave,
        Self::HintsStarve,
        Self::HealthToldOnce,
        Self::DeviceRowLeft,
        Self::RoutesPrunedEarly,
        Self::LocalRuleGoesFirst,
        Self::LostUnnoticed,
        Self::FullMapKeepsAll,
        Self::OverdueHoldsAll,
        Self::IpcacheNotSwept,
        Self::PoliciesNotSwept,
        Self::ServicesNotSwept,
        Self::StrangersNotSwept,
        Self::NodeNotSwept,
        Self::RuntimeTrusted,
        Self::PrefixesUnrecorded,
        Self::PrefixesForgotten,
        Self::PodPoolsApart,
        Self::NewPrefixTakenForEmpty,
        Self::GivenBackPrefixServes,
        Self::LeftoversUnlisted,
        Self::IdentitiesUnmarked,
        Self::StoredIdentityUnmarked,
        Self::StoredIdentityUnguarded,
        Self::StoredIdentityUnchained,
        Self::LeftoversUnversioned,
        Self::OwnersUnasked,
        Self::ExpiredLeads,
        Self::MarksUnversioned,
        Self::MarksUnasked,
    ];

    /// Whether histories of operators show it, or of agents that share pools with one: not those of a node.
    pub fn is_of_operator(self) -> bool {
        self >= Self::PrefixesUnrecorded
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AddressBeforeReserve => "address-before-reserve",
            Self::IdentityBeforePolicies => "identity-before-policies",
            Self::DeleteByShortId => "delete-by-short-id",
            Self::IncompleteNextTrusted => "incomplete-next-trusted",
            Self::PermitLeaked => "permit-leaked",
            Self::CoalescedTriggerLost => "coalesced-trigger-lost",
            Self::LevelNotRaised => "level-not-raised",
            Self::ConfigBeforePolicy => "config-before-policy",
            Self::RowsAlwaysInPlace => "rows-always-in-place",
            Self::EndpointIdReusedAtOnce => "endpoint-id-reused-at-once",
            Self::ConntrackNotScrubbed => "conntrack-not-scrubbed",
            Self::SlotLeft => "slot-left",
            Self::IdentityReleasedEarly => "identity-released-early",
            Self::FailureReportedReady => "failure-reported-ready",
            Self::DeleteAnsweredEarly => "delete-answered-early",
            Self::ContainerGoesWhole => "container-goes-whole",
            Self::QuarantinedRecordDeleted => "quarantined-record-deleted",
            Self::FamilyForgotten => "family-forgotten",
            Self::DenyLost => "deny-lost",
            Self::PassTakenForAccept => "pass-taken-for-accept",
            Self::StartedUnsaved => "started-unsaved",
            Self::IpcacheNotRetried => "ipcache-not-retried",
            Self::UpBeforeAttached => "up-before-attached",
            Self::RenamedUnsynced => "renamed-unsynced",
            Self::DirectoryUnsynced => "directory-unsynced",
            Self::PoliciesUnsynced => "policies-unsynced",
            Self::HalfOpenTrusted => "half-open-trusted",
            Self::PauseEndedTwice => "pause-ended-twice",
            Self::StrangersMappedEarly => "strangers-mapped-early",
            Self::RestoredNotWithheld => "restored-not-withheld",
            Self::LeaseLossIgnored => "lease-loss-ignored",
            Self::SilentStoreTrusted => "silent-store-trusted",
            Self::OtherSideTrusted => "other-side-trusted",
            Self::ClustersForgotten => "clusters-forgotten",
            Self::ClustersNeverLeft => "clusters-never-left",
            Self::CountBeforeSlots => "count-before-slots",
            Self::BackendGoesFirst => "backend-goes-first",
            Self::ServicesPrunedEarly => "services-pruned-early",
            Self::IngressesPrunedEarly => "ingresses-pruned-early",
            Self::QuarantineForgotten => "quarantine-forgotten",
            Self::UnreadyServe => "unready-serve",
            Self::UnreadyCutOff => "unready-cut-off",
            Self::MemberStays => "member-stays",
            Self::UnservedPortsLeave => "unserved-ports-leave",
            Self::HintsStarve => "hints-starve",
            Self::HealthToldOnce => "health-told-once",
            Self::DeviceRowLeft => "device-row-left",
            Self::RoutesPrunedEarly => "routes-pruned-early",
            Self::LocalRuleGoesFirst => "local-rule-goes-first",
            Self::LostUnnoticed => "lost-unnoticed",
            Self::FullMapKeepsAll => "full-map-keeps-all",
            Self::OverdueHoldsAll => "overdue-holds-all",
            Self::IpcacheNotSwept => "ipcache-not-swept",
            Self::PoliciesNotSwept => "policies-not-swept",
            Self::ServicesNotSwept => "services-not-swept",
            Self::StrangersNotSwept => "strangers-not-swept",
            Self::NodeNotSwept => "node-not-swept",
            Self::RuntimeTrusted => "runtime-trusted",
            Self::PrefixesUnrecorded => "prefixes-unrecorded",
            Self::PrefixesForgotten => "prefixes-forgotten",
            Self::PodPoolsApart => "pod-pools-apart",
            Self::NewPrefixTakenForEmpty => "new-prefix-taken-for-empty",
            Self::GivenBackPrefixServes => "given-back-prefix-serves",
            Self::LeftoversUnlisted => "leftovers-unlisted",
            Self::IdentitiesUnmarked => "identities-unmarked",
            Self::StoredIdentityUnmarked => "stored-identity-unmarked",
            Self::StoredIdentityUnguarded => "stored-identity-unguarded",
            Self::StoredIdentityUnchained => "stored-identity-unchained",
            Self::LeftoversUnversioned => "leftovers-unversioned",
            Self::OwnersUnasked => "owners-unasked",
            Self::ExpiredLeads => "expired-leads",
            Self::MarksUnversioned => "marks-unversioned",
            Self::MarksUnasked => "marks-unasked",
        }
    }
}
