//! ICMP echo; the receiver's kernel answers.

use std::{fs, thread};

use anyhow::{Context, Result};

use super::{
    Plan,
    exchange::exchange,
    sockets,
    stream::{Shared, Threads},
};

/// Echo requests: type and code; the kernel fills in checksum and identifier.
pub(super) const ECHO_V4: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, 0];
const ECHO_V6: [u8; 8] = [128, 0, 0, 0, 0, 0, 0, 0];

/// Which groups may open echo sockets.
const ALLOWED: &str = "/proc/sys/net/ipv4/ping_group_range";

pub(super) fn start(plan: &Plan, shared: &Shared) -> Result<Threads> {
    let target = plan.target.ip();
    let socket = plan.from.run(move || {
        allow()?;
        Ok(sockets::ping(target)?)
    })?;
    let header = if target.is_ipv4() { ECHO_V4 } else { ECHO_V6 };
    let (plan, shared) = (plan.clone(), shared.clone());
    Ok(Threads {
        client: thread::spawn(move || exchange(&socket, &header, &plan, &shared)),
        server: None,
    })
}

/// Lets everybody in the calling thread's namespace open echo sockets.
pub(super) fn allow() -> Result<()> {
    fs::write(ALLOWED, "0 2147483647").with_context(|| format!("cannot write {ALLOWED}"))
}
