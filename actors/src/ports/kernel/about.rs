//! Names of kernel steps and their subjects, for traces; and which steps write.

use super::KernelOp;
use crate::host::About;

impl KernelOp {
    /// Its name, for traces.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Snapshot => "Snapshot",
            Self::ReadLinks => "ReadLinks",
            Self::ReadLink { .. } => "ReadLink",
            Self::Probe(_) => "Probe",
            Self::ReadRouting => "ReadRouting",
            Self::ReadPolicy { .. } => "ReadPolicy",
            Self::ReadRows { .. } => "ReadRows",
            Self::ComparePolicies(_) => "ComparePolicies",
            Self::CompareMaglev(_) => "CompareMaglev",
            Self::DeleteStrange { .. } => "DeleteStrange",
            Self::PutNode => "PutNode",
            Self::ReadAttachment { .. } => "ReadAttachment",
            Self::BuildPolicy { .. } => "BuildPolicy",
            Self::FlipPolicy { .. } => "FlipPolicy",
            Self::PutPolicyRow { .. } => "PutPolicyRow",
            Self::DeletePolicyRow { .. } => "DeletePolicyRow",
            Self::ClearSlot { .. } => "ClearSlot",
            Self::PinPolicy { .. } => "PinPolicy",
            Self::UnpinPolicy { .. } => "UnpinPolicy",
            Self::PutConfig(_) => "PutConfig",
            Self::DeleteConfig { .. } => "DeleteConfig",
            Self::PutLxc { .. } => "PutLxc",
            Self::DeleteLxc { .. } => "DeleteLxc",
            Self::PutEndpoint { .. } => "PutEndpoint",
            Self::DeleteEndpoint { .. } => "DeleteEndpoint",
            Self::PutIpcache(_) => "PutIpcache",
            Self::DeleteIpcache(_) => "DeleteIpcache",
            Self::PutServices(rows) => rows.op(),
            Self::DeleteServices(keys) => keys.op(),
            Self::Attach { .. } => "Attach",
            Self::Settle { .. } => "Settle",
            Self::Detach { .. } => "Detach",
            Self::ReadDevices => "ReadDevices",
            Self::PutDevice { .. } => "PutDevice",
            Self::DeleteDevice { .. } => "DeleteDevice",
            Self::PutUnmasqueraded(_) => "PutUnmasqueraded",
            Self::DeleteUnmasqueraded(_) => "DeleteUnmasqueraded",
            Self::AttachDevice { .. } => "AttachDevice",
            Self::DetachDevice { .. } => "DetachDevice",
            Self::AttachSockets => "AttachSockets",
            Self::LinkUp { .. } => "LinkUp",
            Self::LinkDown { .. } => "LinkDown",
            Self::DeletePair { .. } => "DeletePair",
            Self::PutRoute { .. } => "PutRoute",
            Self::DeleteRoute { .. } => "DeleteRoute",
            Self::Routing(op) => op.op(),
            Self::ScrubConntrack { .. } => "ScrubConntrack",
            Self::ForgetServices(_) => "ForgetServices",
            Self::EndSockets { .. } => "EndSockets",
            Self::CollectConntrack { .. } => "CollectConntrack",
            Self::LoadPrograms => "LoadPrograms",
        }
    }

    /// What it is about, for traces.
    pub fn about(&self) -> About {
        match self {
            Self::Snapshot
            | Self::ReadLinks
            | Self::ReadDevices
            | Self::DetachDevice { .. }
            | Self::AttachSockets
            | Self::ReadRouting
            | Self::ReadRows { .. }
            | Self::PutNode
            | Self::EndSockets { .. }
            | Self::CollectConntrack { .. }
            | Self::LoadPrograms => About::All,
            Self::Routing(op) => op.about(),
            Self::Probe(places) => match places.as_slice() {
                [(endpoint, _)] => About::Endpoint(endpoint.0),
                _ => About::All,
            },
            Self::ReadPolicy { slot }
            | Self::BuildPolicy { slot, .. }
            | Self::FlipPolicy { slot }
            | Self::PutPolicyRow { slot, .. }
            | Self::DeletePolicyRow { slot, .. }
            | Self::ClearSlot { slot } => About::Slot(*slot),
            Self::PutConfig(row) => About::Endpoint(row.endpoint.0),
            Self::ReadAttachment { endpoint, .. }
            | Self::PinPolicy { endpoint, .. }
            | Self::UnpinPolicy { endpoint }
            | Self::DeleteConfig { endpoint, .. }
            | Self::PutEndpoint { endpoint, .. }
            | Self::DeleteEndpoint { endpoint }
            | Self::Attach { endpoint, .. }
            | Self::Settle { endpoint, .. }
            | Self::Detach { endpoint, .. } => About::Endpoint(endpoint.0),
            Self::PutLxc { address, .. }
            | Self::DeleteLxc { address, .. }
            | Self::PutRoute { address, .. }
            | Self::DeleteRoute { address, .. } => About::Address(*address),
            Self::ComparePolicies(all) => About::Rows(all.len()),
            Self::CompareMaglev(all) => About::Rows(all.len()),
            Self::DeleteStrange { keys, .. } => About::Rows(keys.len()),
            Self::PutIpcache(rows) => About::Rows(rows.len()),
            Self::DeleteIpcache(rows) => About::Rows(rows.len()),
            Self::PutServices(rows) => About::Rows(rows.len()),
            Self::DeleteServices(keys) => About::Rows(keys.len()),
            Self::ForgetServices(all) => About::Rows(all.len()),
            Self::PutUnmasqueraded(all) | Self::DeleteUnmasqueraded(all) => About::Rows(all.len()),
            Self::ReadLink { ifindex }
            | Self::PutDevice { ifindex, .. }
            | Self::DeleteDevice { ifindex }
            | Self::AttachDevice { ifindex, .. }
            | Self::LinkUp { ifindex }
            | Self::LinkDown { ifindex }
            | Self::DeletePair { ifindex, .. } => About::Interface(*ifindex),
            Self::ScrubConntrack { addresses } => {
                addresses.iter().next().map_or(About::All, About::Address)
            }
        }
    }

    /// Whether it changes something.
    pub fn writes(&self) -> bool {
        !matches!(
            self,
            Self::Snapshot
                | Self::ReadLinks
                | Self::ReadLink { .. }
                | Self::Probe(_)
                | Self::ReadDevices
                | Self::ReadRouting
                | Self::ReadPolicy { .. }
                | Self::ReadRows { .. }
                | Self::ComparePolicies(_)
                | Self::CompareMaglev(_)
                | Self::ReadAttachment { .. }
        )
    }
}
