//! Where programs are attached, and by what.

use clap::{ArgAction, Args};
use serde::Serialize;

/// Flags of attaching.
#[derive(Clone, Debug, Args, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AttachOptions {
    /// Whether programs are attached to interfaces by TCX links; without them, and where the kernel has
    /// none (before Linux 6.6), by filters of the clsact queueing discipline
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    #[serde(rename = "EnableTCX")]
    pub enable_tcx: bool,

    /// Whether sockets of this node and of its pods connect to backends of services themselves,
    /// instead of having packets translated: those below --cgroup-root
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "EnableSocketLB")]
    pub bpf_lb_sock: bool,

    /// Whether their TCP connections to a backend that is gone end, too, as those of datagram sockets do
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "LBSockTerminateAllProtos")]
    pub lb_sock_terminate_all_protos: bool,
}
