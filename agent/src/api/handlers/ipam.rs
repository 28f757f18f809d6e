//! `/ipam`: allocates, reserves and releases addresses of pods. Allocation waits until the agent
//! may accept new endpoints.

use std::{net::IpAddr, time::Duration};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::IntoResponse,
};
use volvox_actors::{
    endpoints::{
        ipam::{AddressFamily, Allocated, IpamError, IpamMsg},
        supervisor::{EndpointReference, EndpointsMsg},
    },
    model::Families,
};
use volvox_inspect::http::{Answer, ApiError, json_response};
use volvox_rest::models::{AddressPair, IpamAddressResponse, IpamResponse, NodeAddressingElement};

use super::{
    node::{addressing, status},
    query::{first, query},
};
use crate::api::{Api, extract::Segment};

/// How long an address waits for an endpoint to claim it, if its client wants that.
const EXPIRATION: Duration = Duration::from_secs(600);
/// Owner of an address whose client does not say.
const NO_OWNER: &str = "api";
/// Longest name of an owner, in bytes.
const OWNER_BYTES_MAX: usize = 512;

/// How a refusal to hand out an address, or to take one back, is told.
fn refused(error: IpamError) -> ApiError {
    let status = match &error {
        IpamError::InUse { .. } => StatusCode::CONFLICT,
        IpamError::Exhausted { .. } | IpamError::Lacking { .. } => StatusCode::BAD_GATEWAY,
        IpamError::Disabled(_) => StatusCode::NOT_IMPLEMENTED,
        IpamError::NotAllocated(_) => StatusCode::NOT_FOUND,
        IpamError::NotReady => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    ApiError::new(status, error)
}

pub(crate) async fn allocate(State(api): State<Api>, uri: Uri, headers: HeaderMap) -> Answer {
    let query = query(&uri)?;
    let family = family(first(&query, "family"))?;
    let owner = owner(&query)?;
    let pool = first(&query, "pool").map(str::to_owned);
    let given = headers.get("expiration").and_then(|value| value.to_str().ok());
    let given = given.or_else(|| first(&query, "expiration"));
    // Who has an address may be sure that it hears of every endpoint that there is.
    api.opening.wait().await?;
    let expires =
        given.is_some_and(|given| given.eq_ignore_ascii_case("true")).then_some(EXPIRATION);
    let what = format!("POST /ipam for {owner}");
    let allocate = move |reply| IpamMsg::Allocate { family, owner, pool, expires, reply };
    let allocation = api.gateway.ask(what, |node| &node.ipam, allocate);
    let (allocated, own) = tokio::join!(allocation, status(&api));
    let allocated = allocated?.map_err(refused)?;
    let unmasqueraded = allocated.unmasqueraded;
    let address = address_pair(allocated, expires.is_some());
    let host_addressing = addressing(&api, &own?);
    let whole = |ip: Option<IpAddr>, lease: &str, own: Option<&NodeAddressingElement>| {
        let (ip, own) = (ip?, own?);
        let Families { ipv4, ipv6 } = unmasqueraded;
        Some(IpamAddressResponse {
            cidrs: vec![own.alloc_range.clone()],
            expiration_uuid: lease.to_owned(),
            gateway: own.ip.map(|ip| ip.to_string()).unwrap_or_default(),
            ip: ip.to_string(),
            skip_masquerade: if ip.is_ipv4() { ipv4 } else { ipv6 },
        })
    };
    let own = &host_addressing;
    let ipv4 =
        whole(address.ipv4.map(Into::into), &address.ipv4_expiration_uuid, own.ipv4.as_ref());
    let ipv6 =
        whole(address.ipv6.map(Into::into), &address.ipv6_expiration_uuid, own.ipv6.as_ref());
    let answer = IpamResponse { address, host_addressing, ipv4, ipv6 };
    Ok(json_response(StatusCode::CREATED, &answer))
}

pub(crate) async fn reserve(State(api): State<Api>, Segment(ip): Segment, uri: Uri) -> Answer {
    let address = parse_address(&ip)?;
    let owner = owner(&query(&uri)?)?;
    api.gateway
        .ask(
            format!("POST /ipam/{address} for {owner}"),
            |node| &node.ipam,
            move |reply| IpamMsg::Reserve { address, owner, reply },
        )
        .await?
        .map_err(refused)?;
    Ok(StatusCode::OK.into_response())
}

pub(crate) async fn release(State(api): State<Api>, Segment(ip): Segment) -> Answer {
    let address = parse_address(&ip)?;
    let what = format!("DELETE /ipam/{address}");
    let user = api
        .gateway
        .ask(
            what.clone(),
            |node| &node.endpoints,
            move |reply| EndpointsMsg::Get { target: EndpointReference::Address(address), reply },
        )
        .await?;
    if let Ok(endpoint) = user {
        return Err(ApiError::failed(format!(
            "{address} is in use by endpoint {}: delete the endpoint, its address goes with it",
            endpoint.id
        )));
    }
    api.gateway
        .ask(what, |node| &node.ipam, move |reply| IpamMsg::Withdraw { address, reply })
        .await?
        .map_err(refused)?;
    Ok(StatusCode::OK.into_response())
}

fn address_pair(allocated: Allocated, expires: bool) -> AddressPair {
    let Allocated { ipv4, ipv6, ipv4_pool, ipv6_pool, .. } = allocated;
    // An address has one lease at most, so it names it.
    let lease = |address: Option<IpAddr>| match address {
        Some(address) if expires => format!("lease-{address}"),
        _ => String::new(),
    };
    AddressPair {
        ipv4,
        ipv4_pool_name: ipv4_pool,
        ipv4_expiration_uuid: lease(ipv4.map(IpAddr::V4)),
        ipv6,
        ipv6_pool_name: ipv6_pool,
        ipv6_expiration_uuid: lease(ipv6.map(IpAddr::V6)),
    }
}

fn family(text: Option<&str>) -> Result<Option<AddressFamily>, ApiError> {
    match text {
        None => Ok(None),
        Some("ipv4") => Ok(Some(AddressFamily::Ipv4)),
        Some("ipv6") => Ok(Some(AddressFamily::Ipv6)),
        Some(other) => Err(ApiError::bad_request(format!(
            "family: {other:?} is neither ipv4 nor ipv6; leave it out for both"
        ))),
    }
}

fn owner(query: &[(String, String)]) -> Result<String, ApiError> {
    let owner = first(query, "owner").unwrap_or(NO_OWNER);
    if owner.len() > OWNER_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "owner: {} bytes are more than the {OWNER_BYTES_MAX} that are kept",
            owner.len()
        )));
    }
    Ok(owner.to_owned())
}

fn parse_address(text: &str) -> Result<IpAddr, ApiError> {
    text.parse().map_err(|_| {
        ApiError::bad_request(format!("ip: {text:?} is neither an IPv4 nor an IPv6 address"))
    })
}
