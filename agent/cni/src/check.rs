//! CHECK: compares the interface with the result of ADD, and asks the agent for the endpoint's
//! health.

use ipnet::IpNet;
use volvox_actors::ports::Link;
use volvox_rest::{RestError, escape, models::EndpointHealth};

use super::{
    CniError, ErrorCode, attachment, chained, interface::Namespaces, result::PreviousResult,
    run::Call,
};

/// Sees that the container still has what an ADD gave it.
pub(super) async fn check(call: &Call) -> Result<(), CniError> {
    let invocation = &call.invocation;
    let Some(previous) = &call.config.previous else {
        let why = "CHECK compares with what ADD answered: the runtime is to hand it on";
        return Err(CniError::new(ErrorCode::InvalidConfig, "prevResult is missing", why));
    };
    check_health(call).await?;
    let mut namespaces = Namespaces::open(invocation.netns.as_deref().unwrap_or("".as_ref()))?;
    let mut links = namespaces.container.links()?.into_values();
    let link = links
        .find(|link| link.name == invocation.ifname)
        .ok_or_else(|| mismatch(&invocation.ifname, "it is gone"))?;
    compare(&link, previous)?;
    if !call.config.chained {
        return Ok(());
    }
    let endpoint = attachment::endpoint(call, &invocation.attachment_id()).await?;
    let endpoint = endpoint.ok_or_else(|| {
        let why = "it went while it was looked at: create the pod anew";
        CniError::new(ErrorCode::UnknownContainer, "no such endpoint", why)
    })?;
    chained::check(call, &mut namespaces, &endpoint)
}

async fn check_health(call: &Call) -> Result<(), CniError> {
    let id = format!("cni-attachment-id:{}", call.invocation.attachment_id());
    let health =
        call.client.get::<EndpointHealth>(&format!("/endpoint/{}/healthz", escape(&id))).await;
    let health = match health {
        Ok(health) => health,
        Err(error @ RestError::Refused { status: 404, .. }) => {
            return Err(CniError::new(ErrorCode::UnknownContainer, "no such endpoint", error));
        }
        Err(error) => return Err(error.into()),
    };
    let code = match health.overall_health.as_str() {
        "OK" => return Ok(()),
        "Bootstrap" | "Pending" => ErrorCode::TryLater,
        _ => ErrorCode::Agent,
    };
    let msg = format!("the endpoint's health is {:?}", health.overall_health);
    let details =
        format!("bpf {:?}, policy {:?}; see `volvox endpoint get {id}`", health.bpf, health.policy);
    Err(CniError::new(code, msg, details))
}

fn compare(link: &Link, previous: &PreviousResult) -> Result<(), CniError> {
    if !link.up {
        return Err(mismatch(&link.name, "it is down"));
    }
    let known = previous.interfaces.iter().find(|(name, _)| *name == link.name);
    match known {
        None if previous.interfaces.is_empty() => {}
        None => return Err(mismatch(&link.name, "ADD answered another interface")),
        Some((_, Some(mac))) if *mac != link.mac => {
            let what = format!("its MAC is {}, ADD answered {mac}", link.mac);
            return Err(mismatch(&link.name, what));
        }
        Some(_) => {}
    }
    let missing: Vec<&IpNet> = previous.addresses.iter().filter(|net| !has(link, net)).collect();
    if !missing.is_empty() {
        return Err(mismatch(&link.name, format!("it lost {missing:?}")));
    }
    Ok(())
}

fn has(link: &Link, net: &IpNet) -> bool {
    link.addresses.iter().any(|found| found.addr() == net.addr())
}

fn mismatch(ifname: &str, what: impl std::fmt::Display) -> CniError {
    let msg = format!("{ifname} is not as it was made: {what}");
    CniError::new(ErrorCode::Mismatch, msg, "something in the pod changed it: create the pod anew")
}
