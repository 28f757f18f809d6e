//! For the fuzzer: datagrams of the kernel.

use volvox_actors::ports::Notices;

use super::{
    address, changes, device, filter, link, local_rule,
    message::{Body, Messages, explanation},
    node_route, route,
};

/// Reads all messages of a datagram by each parser.
pub(crate) fn datagram(data: &[u8]) {
    let mut notices = Notices::default();
    assert!(Messages(data).count() <= data.len(), "more messages than bytes");
    for message in Messages(data).flatten() {
        changes::note(&message, "lxc", &mut notices);
        match message.body {
            Body::Object(kind, bytes) => {
                address::parse(kind, bytes);
                address::parse_passing(kind, bytes);
                device::parse(kind, bytes);
                filter::parse(kind, bytes);
                link::parse(kind, bytes);
                local_rule::parse(kind, bytes);
                node_route::parse(kind, bytes);
                route::parse(kind, bytes);
            }
            Body::End(_, attributes) => drop(explanation(attributes)),
            Body::Empty => {}
        }
    }
}
