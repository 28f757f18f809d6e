//! What a Lease says, and what is to be done about it.

use std::time::Duration;

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use serde_json::{Value, json};

use crate::model::Timestamp;

/// The annotation that says which prefixes are given and may not be in the CiliumNodes yet.
const PREFIXES: &str = "volvox.io/prefixes";
/// How long a Lease is good that does not say it.
pub(super) const DURATION: Duration = Duration::from_secs(15);

/// A Lease as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LeaseRecord {
    pub(super) holder: String,
    pub(super) version: String,
    pub(super) prefixes: Option<String>,
    acquired: Option<MicroTime>,
    renewed: Option<MicroTime>,
    seconds: Option<u64>,
    transitions: u64,
}

/// What is to be done about a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseStep {
    /// There is none.
    Create,
    /// It is free, or its holder did not renew it.
    Take,
    /// It is this operator's.
    Renew,
    /// Somebody has it.
    Wait,
    /// Somebody else has it, and this operator had it before.
    Lost,
}

impl LeaseRecord {
    pub(super) fn read(Lease { metadata, spec }: &Lease) -> Self {
        let spec = spec.clone().unwrap_or_default();
        let annotations = metadata.annotations.as_ref();
        let number = |said: Option<i32>| said.and_then(|number| u64::try_from(number).ok());
        Self {
            holder: spec.holder_identity.unwrap_or_default(),
            version: metadata.resource_version.clone().unwrap_or_default(),
            prefixes: annotations.and_then(|all| all.get(PREFIXES)).cloned(),
            acquired: spec.acquire_time,
            renewed: spec.renew_time,
            seconds: number(spec.lease_duration_seconds),
            transitions: number(spec.lease_transitions).unwrap_or_default(),
        }
    }

    /// How long it is good after it changed.
    pub(super) fn duration(&self) -> Duration {
        self.seconds.map_or(DURATION, Duration::from_secs)
    }

    /// The Lease as `me` has it from now on, nanoseconds since 1970, as a merge patch.
    pub(super) fn held_by(&self, me: &str, wall: u64, prefixes: Option<&str>) -> Value {
        let now = Value::String(micros(wall));
        let is_new = self.holder != me;
        let acquired = if is_new { now.clone() } else { json!(self.acquired) };
        let mut patch = self.patch(json!({
            "holderIdentity": me, "leaseDurationSeconds": DURATION.as_secs(),
            "acquireTime": acquired, "renewTime": now,
            "leaseTransitions": self.transitions + u64::from(is_new),
        }));
        if let Some(prefixes) = prefixes {
            patch["metadata"]["annotations"] = json!({ PREFIXES: prefixes });
        }
        patch
    }

    /// The Lease as nobody has it.
    pub(super) fn released(&self) -> Value {
        self.patch(json!({ "holderIdentity": "", "leaseDurationSeconds": 1 }))
    }

    fn patch(&self, spec: Value) -> Value {
        json!({ "metadata": { "resourceVersion": self.version }, "spec": spec })
    }
}

/// A new Lease.
pub(super) fn document(namespace: &str, name: &str, me: &str, wall: u64) -> Value {
    let mut lease = LeaseRecord::default().held_by(me, wall, None);
    lease["apiVersion"] = "coordination.k8s.io/v1".into();
    lease["kind"] = "Lease".into();
    lease["metadata"] = json!({ "name": name, "namespace": namespace });
    lease
}

/// What is to be done about a Lease that has been as it is for so long.
pub(super) fn step(
    lease: Option<&LeaseRecord>,
    me: &str,
    leads: bool,
    unchanged: Duration,
) -> LeaseStep {
    match lease {
        None => LeaseStep::Create,
        Some(lease) if lease.holder == me => LeaseStep::Renew,
        Some(_) if leads => LeaseStep::Lost,
        Some(lease) if lease.holder.is_empty() || unchanged >= lease.duration() => LeaseStep::Take,
        Some(_) => LeaseStep::Wait,
    }
}

/// A moment as Leases have it, to the microsecond.
fn micros(wall: u64) -> String {
    let seconds = Timestamp::from_nanos(wall).0;
    format!("{}.{:06}Z", seconds.trim_end_matches('Z'), wall / 1000 % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_when_it_is_free_or_was_not_renewed() {
        let lease = |holder: &str| LeaseRecord { holder: holder.to_owned(), ..Default::default() };
        let (fresh, expired) = (Duration::from_secs(14), DURATION);
        let next = |lease: &LeaseRecord, leads, unchanged| step(Some(lease), "a", leads, unchanged);
        assert_eq!(step(None, "a", false, fresh), LeaseStep::Create);
        assert_eq!(next(&lease(""), false, Duration::ZERO), LeaseStep::Take);
        assert_eq!(next(&lease("b"), false, fresh), LeaseStep::Wait);
        assert_eq!(next(&lease("b"), false, expired), LeaseStep::Take);
        assert_eq!(next(&lease("b"), true, expired), LeaseStep::Lost, "whoever lost it ends");
        assert_eq!(next(&lease("a"), false, fresh), LeaseStep::Renew, "an answer was lost");
        assert_eq!(next(&lease("a"), true, expired), LeaseStep::Renew);
        let longer = LeaseRecord { seconds: Some(60), ..lease("b") };
        assert_eq!(next(&longer, false, expired), LeaseStep::Wait);
    }

    #[test]
    fn a_lease_says_who_holds_it_and_keeps_what_it_said_of_prefixes() {
        let second = 1_700_000_000_000_000_000;
        let made = document("kube-system", "lock", "a", second);
        assert_eq!(made["spec"]["holderIdentity"], "a");
        assert_eq!(made["spec"]["renewTime"], "2023-11-14T22:13:20.000000Z");
        let mut there = made.clone();
        there["metadata"]["resourceVersion"] = "7".into();
        there["metadata"]["annotations"] = json!({ PREFIXES: "{}", "other": "stays" });
        let record = LeaseRecord::read(&serde_json::from_value(there).unwrap());
        assert_eq!(record.prefixes.as_deref(), Some("{}"));
        let renewed = record.held_by("a", second + 1_000, None);
        assert_eq!(renewed["metadata"], json!({ "resourceVersion": "7" }));
        assert_eq!(renewed["spec"]["acquireTime"], made["spec"]["acquireTime"]);
        assert_eq!(renewed["spec"]["leaseTransitions"], 1);
        let taken = record.held_by("b", second + 2_000_000_000, Some("x"));
        assert_eq!(taken["spec"]["leaseTransitions"], 2);
        assert_eq!(taken["metadata"]["annotations"], json!({ PREFIXES: "x" }));
        assert_eq!(record.released()["spec"]["holderIdentity"], "");
        assert_eq!(LeaseRecord::read(&Lease::default()), LeaseRecord::default());
    }
}
