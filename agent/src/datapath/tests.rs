//! Tests over real maps, programs and interfaces, each in namespaces of its own.

mod cilium;
mod client;
mod connections;
mod crashes;
mod devices;
mod filters;
mod hooks;
mod maps;
mod nat;
mod network;
mod off;
mod pages;
mod policies;
mod port;
mod refused;
mod resizing;
mod routing;
pub(crate) mod sandbox;
pub(crate) mod services;
mod signals;
mod sockets;
mod stale_sockets;
mod takeover;
mod upgrade;

/// Numbers of the programs that run at a TCX hook, in order.
fn tcx_programs(ifindex: u32, hook: u32) -> std::io::Result<Vec<u32>> {
    let running = volvox_maps::sys::running(ifindex, hook)?;
    Ok(running.into_iter().map(|running| running.program).collect())
}
