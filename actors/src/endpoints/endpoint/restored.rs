//! An endpoint of an earlier run: all that was found of it on disk and in the kernel.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{EndpointSpec, IdentityReference};
use crate::{
    model::{EndpointId, IdentityId, Labels, PolicyRows},
    ports::{Attachment, ConfigRow, FsOp, LxcRow},
};

/// An endpoint that was found on disk or in the kernel.
#[derive(Debug)]
pub struct RestoredEndpoint {
    /// Its number.
    pub id: EndpointId,
    /// What it was made of.
    pub spec: EndpointSpec,
    /// Its identity before.
    pub identity: IdentityId,
    /// The labels of that identity.
    pub identity_labels: Labels,
    /// Other identities that rows of the kernel still give it: the agent died between recording
    /// its identity and bringing it into force.
    pub carried: Vec<IdentityReference>,
    /// Whether its labels are lost, and are still to be told by the cluster: only of the node itself.
    pub unlabelled: bool,
    /// Labels that its user added, and those that its user disabled.
    pub user_labels: (Labels, Labels),
    /// Its options.
    pub options: Arc<BTreeMap<String, i64>>,
    /// Those of them that were set for it alone.
    pub own_options: BTreeMap<String, i64>,
    /// Its configuration row, if the kernel has one.
    pub config: Option<ConfigRow>,
    /// What stands in the slot that the row names, if it was read.
    pub policy: Option<Arc<PolicyRows>>,
    /// Its local address rows that the kernel has.
    pub lxc: BTreeMap<IpAddr, LxcRow>,
    /// What runs at its hooks.
    pub attachment: Attachment,
    /// Its addresses that are routed to its interface.
    pub routes: BTreeSet<IpAddr>,
    /// Whether its own record is in the kernel as it should be.
    pub recorded: bool,
    /// Whether its policy map is pinned by name.
    pub policy_pinned: bool,
    /// Whether its interface is up.
    pub link_up: bool,
    /// Whether its state file is whole and current.
    pub on_disk: bool,
    /// Whether the kernel's record says that its state file is older.
    pub unsaved: bool,
    /// Steps that come before its state directories may be written: some hold evidence.
    pub untidied: Vec<FsOp>,
}
