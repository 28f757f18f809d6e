//! The machine before any agent ran: the node's own address, and the kernel's rules.

use volvox_actors_simulated::{ports::Link, testing::MemoryKernel};

use crate::model::{devices::rules, services::HOST};

/// What a kernel begins with: the node's address, and rules as nobody has moved them yet.
pub(super) fn begin(kernel: &MemoryKernel) {
    plug_host(kernel);
    kernel.tamper(|state| state.routing.rules = rules(0));
}

/// The node has its address.
fn plug_host(kernel: &MemoryKernel) {
    let addresses = vec![format!("{HOST}/24").parse().expect("an address")];
    let link = Link { ifindex: 2, name: "eth0".to_owned(), addresses, ..Link::default() };
    kernel.tamper(|state| state.plug(link));
}
