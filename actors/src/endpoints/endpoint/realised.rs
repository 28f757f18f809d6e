//! The realised state of an endpoint: what it believes the kernel holds, updated after each step.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    net::IpAddr,
    sync::Arc,
};

use super::EndpointSpec;
use crate::{
    endpoints::endpoint::RestoredEndpoint,
    model::{EndpointId, PolicyRows},
    ports::{Attachment, ConfigRow, HookState, KernelOp, KernelSnapshot, LxcRow, OwnedRows},
};

/// What the kernel is known to hold for one endpoint. Kept true step by step as steps succeed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RealisedEndpoint {
    /// Its configuration row.
    pub(super) config: Option<ConfigRow>,
    /// Rows of the policy map in the slot that the configuration names; `None` if not read yet.
    pub(super) policy: Option<Arc<PolicyRows>>,
    /// Its local address rows.
    pub(super) lxc: BTreeMap<IpAddr, LxcRow>,
    /// What runs at its hooks.
    pub(super) attachment: Attachment,
    /// Its addresses that are routed to its interface.
    pub(super) routes: BTreeSet<IpAddr>,
    /// Its own record.
    pub(super) record: KernelRecord,
    /// Whether its policy map is pinned by name.
    pub(super) pinned: bool,
    /// Whether its interface is up.
    pub(super) up: bool,
    /// The policy map that was put into a slot last.
    pub(super) staged: Option<(u32, Arc<PolicyRows>)>,
}

/// An endpoint's own record in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct KernelRecord {
    /// Whether it is as it should be.
    pub(super) is_right: bool,
    /// Whether it says that the state file is older.
    pub(super) unsaved: bool,
}

impl RealisedEndpoint {
    /// What was found of it, which is taken from there.
    pub(super) fn restored(from: &mut RestoredEndpoint) -> Self {
        Self {
            config: from.config,
            policy: from.policy.take(),
            lxc: mem::take(&mut from.lxc),
            attachment: from.attachment,
            routes: mem::take(&mut from.routes),
            record: KernelRecord { is_right: from.recorded, unsaved: from.unsaved },
            pinned: from.policy_pinned,
            up: from.link_up,
            staged: None,
        }
    }

    /// What a snapshot says of an endpoint. Of an interface that is not its own nothing is said.
    pub(super) fn seen(
        snapshot: &KernelSnapshot,
        rows: &OwnedRows,
        id: EndpointId,
        spec: &EndpointSpec,
    ) -> Self {
        let interface = spec.interface_of_its_own();
        let link = interface.and_then(|ifindex| snapshot.links.get(&ifindex));
        let routes = interface.and_then(|ifindex| rows.routes.get(&ifindex));
        Self {
            config: snapshot
                .config
                .get(&spec.config_ifindex())
                .filter(|row| row.endpoint == id)
                .copied(),
            policy: None,
            lxc: rows.lxc.get(&id).cloned().unwrap_or_default(),
            attachment: snapshot.attachments.get(&id).copied().unwrap_or_default(),
            routes: routes.cloned().unwrap_or_default(),
            record: KernelRecord {
                is_right: snapshot.endpoints.contains_key(&id),
                unsaved: snapshot.endpoints.get(&id).is_some_and(|row| row.unsaved),
            },
            pinned: rows.policy_pins.contains(&id),
            up: spec.is_up(link),
            staged: None,
        }
    }

    /// Notes that the first `count` of these steps were done. `built` is the policy that the build is
    /// about, to which its steps lead.
    pub(super) fn all_done(
        &mut self,
        ops: &[KernelOp],
        count: usize,
        built: Option<&Arc<PolicyRows>>,
    ) {
        let is_row = |op: &KernelOp| {
            matches!(op, KernelOp::PutPolicyRow { .. } | KernelOp::DeletePolicyRow { .. })
        };
        let (rows, others): (Vec<_>, Vec<_>) = ops.iter().take(count).partition(|op| is_row(op));
        others.into_iter().for_each(|op| self.done(op, built));
        match built {
            // Endpoints of one policy share its rows.
            Some(built) if !rows.is_empty() && count == ops.len() => {
                self.policy = Some(Arc::clone(built));
            }
            _ => rows.into_iter().for_each(|op| self.done(op, built)),
        }
    }

    /// Notes that a step was done. `built` is the policy that the build is about.
    pub(super) fn done(&mut self, op: &KernelOp, built: Option<&Arc<PolicyRows>>) {
        match op {
            KernelOp::FlipPolicy { slot } => {
                self.staged = built.map(|rows| (*slot, Arc::clone(rows)));
                self.take_staged();
            }
            KernelOp::PutConfig(row) => {
                self.config = Some(*row);
                self.take_staged();
            }
            KernelOp::PutLxc { address, row } => {
                self.lxc.insert(*address, *row);
            }
            KernelOp::DeleteLxc { address, .. } => {
                self.lxc.remove(address);
            }
            KernelOp::PutEndpoint { row, .. } => {
                self.record = KernelRecord { is_right: true, unsaved: row.unsaved };
            }
            KernelOp::PutRoute { address, .. } => {
                self.routes.insert(*address);
            }
            KernelOp::DeleteRoute { address, .. } => {
                self.routes.remove(address);
            }
            KernelOp::LinkUp { .. } => self.up = true,
            KernelOp::PinPolicy { .. } => self.pinned = true,
            KernelOp::UnpinPolicy { .. } => self.pinned = false,
            KernelOp::Attach { .. } => {
                for hook in [&mut self.attachment.from_container, &mut self.attachment.to_container]
                {
                    if *hook != HookState::Link {
                        *hook = HookState::Filter;
                    }
                }
            }
            KernelOp::Settle { .. } => {
                self.attachment =
                    Attachment { from_container: HookState::Link, to_container: HookState::Link };
            }
            KernelOp::PutPolicyRow { key, entry, .. } => {
                if let Some(rows) = &mut self.policy {
                    Arc::make_mut(rows).insert(*key, *entry);
                }
            }
            KernelOp::DeletePolicyRow { key, .. } => {
                if let Some(rows) = &mut self.policy {
                    Arc::make_mut(rows).remove(key);
                }
            }
            _ => {}
        }
    }

    /// The policy in the slot that the configuration names, if that is the one filled last.
    fn take_staged(&mut self) {
        let Some(current) = self.config.map(|config| config.policy_slot) else { return };
        if let Some((_, rows)) = self.staged.take_if(|(slot, _)| *slot == current) {
            self.policy = Some(rows);
        }
    }

    /// Rows that are the same ones need not be there twice.
    pub(super) fn share(&mut self, rows: &Arc<PolicyRows>) {
        if let Some(own) = self.policy.as_mut().filter(|own| *own == rows) {
            *own = Arc::clone(rows);
        }
    }

    /// As much of it as a snapshot shows.
    pub(super) fn shown(&self) -> Self {
        Self { policy: None, staged: None, ..self.clone() }
    }

    /// Whether both hooks run the current programs.
    pub(super) fn attached(&self) -> bool {
        self.attachment.serves()
    }

    /// Whether both hooks run them through links.
    pub(super) fn settled(&self) -> bool {
        self.attachment.from_container == HookState::Link
            && self.attachment.to_container == HookState::Link
    }
}
