//! Before somebody is told how things are in the kernel, the kernel is asked.

use volvox_actors::{
    devices::DevicesMsg,
    endpoints::{EndpointsMsg, Target},
};

use super::Api;

/// Asks the kernel about an endpoint's interface, or about all. Where there is no answer, what is said
/// is what was seen before.
pub(super) async fn verify(api: &Api, target: Option<Target>) {
    let ask = move |reply| EndpointsMsg::Verify { target, reply };
    let asked = api.gateway.ask("a look at the kernel", |colony| &colony.endpoints, ask).await;
    if let Err(error) = asked {
        tracing::debug!(%error, "the kernel was not asked about endpoints");
    }
}

/// Asks it about the node's devices.
pub(super) async fn verify_devices(api: &Api) {
    let what = "a look at the kernel";
    let asked = api.gateway.ask(what, |colony| &colony.devices, DevicesMsg::Verify).await;
    if let Err(error) = asked {
        tracing::debug!(%error, "the kernel was not asked about devices");
    }
}
