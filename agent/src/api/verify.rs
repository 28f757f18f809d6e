//! Before somebody is told how things are in the kernel, the kernel is asked.

use std::time::Duration;

use tokio::time::{error::Elapsed, timeout};
use volvox_actors::{
    endpoints::supervisor::{EndpointReference, EndpointsMsg},
    node::devices::DevicesMsg,
};

use super::Api;
use crate::gateway::GatewayError;

/// How long whoever asks waits for the kernel: one interface that is stuck must not hide all else.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks the kernel about an endpoint's interface, or about all. Where there is no answer, what is said
/// is what was seen before.
///
/// Whether there was anything to ask: where all restore yet, there is not.
pub(super) async fn verify(api: &Api, target: Option<EndpointReference>) -> bool {
    let ask = move |reply| EndpointsMsg::Verify { target, reply };
    let asked = api.gateway.ask("a look at the kernel", |node| &node.endpoints, ask);
    is_looked_at("endpoints", timeout(PATIENCE, asked).await)
}

/// Asks it about the node's devices, and says as much.
pub(super) async fn verify_devices(api: &Api) -> bool {
    let what = "a look at the kernel";
    let asked = api.gateway.ask(what, |node| &node.devices, DevicesMsg::Verify);
    is_looked_at("devices", timeout(PATIENCE, asked).await)
}

fn is_looked_at(what: &str, asked: Result<Result<bool, GatewayError>, Elapsed>) -> bool {
    match asked {
        Ok(Ok(looked)) => return looked,
        Ok(Err(error)) => tracing::debug!(%error, "the kernel was not asked about {what}"),
        Err(_) => tracing::debug!("the kernel has not answered about {what} yet"),
    }
    false
}
