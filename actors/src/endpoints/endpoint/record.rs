//! What the state file of an endpoint says of it, and what of that outlives a crash of its actor.

use std::{collections::BTreeMap, sync::Arc};

use super::EndpointSpec;
use crate::{
    model::{IdentityId, Labels},
    ports::FsOp,
};

/// What the state file of an endpoint says, or is to say.
#[derive(Clone, Debug)]
pub(super) struct StoredEndpoint {
    pub(super) spec: Arc<EndpointSpec>,
    pub(super) identity: IdentityId,
    pub(super) identity_labels: Arc<Labels>,
    /// Labels that its user added, and those that its user disabled.
    pub(super) user_labels: (Arc<Labels>, Arc<Labels>),
    pub(super) options: Arc<BTreeMap<String, i64>>,
    /// Those of them that were set for it alone.
    pub(super) own_options: Arc<BTreeMap<String, i64>>,
    /// The state file says all of this.
    pub(super) on_disk: bool,
    /// Its labels are lost and not yet told again: it keeps the policy that the kernel holds.
    pub(super) unlabelled: bool,
}

impl StoredEndpoint {
    /// The record of an endpoint that was never built.
    pub(super) fn new(spec: EndpointSpec, options: BTreeMap<String, i64>) -> Self {
        Self {
            spec: Arc::new(spec),
            identity: IdentityId::INIT,
            identity_labels: Arc::default(),
            user_labels: Default::default(),
            options: Arc::new(options),
            own_options: Arc::default(),
            on_disk: false,
            unlabelled: false,
        }
    }
}

/// What of an endpoint outlives a crash of its actor.
#[derive(Debug)]
pub(super) struct Lasting {
    /// The record as of the last change or write of the state file. A life works on a copy: what it
    /// did since then, a crash takes back.
    pub(super) record: StoredEndpoint,
    /// Steps that come before its state directories may be written.
    pub(super) untidied: Vec<FsOp>,
    /// It was told to go.
    pub(super) deleted: bool,
}

/// What the disk makes of the state file, beside a build.
#[derive(Debug, Default)]
pub(super) struct Saving {
    /// How many it was given.
    pub(super) writes: u64,
    /// It has not answered the last one.
    pub(super) is_under_way: bool,
    /// The last one is not what is to be written now.
    pub(super) outdated: bool,
    /// Why the last one was not written, until a build has heard of it.
    pub(super) error: Option<String>,
}

impl Saving {
    /// Whether the disk is at what is to be written now.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.is_under_way && !self.outdated
    }
}
