//! ADD: makes the interface, has the agent allocate addresses and make the endpoint, and answers.
//! What has to be undone after a failure is noted on the way; `undo` does it.

use std::{net::IpAddr, time::Duration};

use hyper::Method;
use serde_json::Value;
use volvox_actors::{
    endpoints::endpoint::unmasqueraded_properties,
    model::{Addresses, Families, Mac},
    ports::Link,
};
use volvox_rest::{
    RestError, escape,
    models::{
        AddressPair, Configuration, ConfigurationStatus, Endpoint, EndpointChangeRequest,
        IpamAddressResponse, IpamResponse, NodeAddressing,
    },
};

use volvox_system::sysctl::Sysctl;

use super::{
    CniError, ErrorCode, attachment,
    cancel::Cancel,
    chained,
    interface::{self, Namespaces},
    result::AddResult,
    run::Call,
    undo::Undo,
};

/// How long the agent may take to allocate addresses.
const IPAM_DEADLINE: Duration = Duration::from_secs(10);
/// Ethernet's own: a pair has it until the agent has said what fits.
const DEVICE_MTU: u32 = 1500;
/// How often the runtime comes round until a request is written: connected, handed on, sent.
const TURNS: usize = 8;

/// Connects the container. What it made until it failed or was cancelled stands in `undo`.
pub(super) async fn add(
    call: &Call,
    undo: &mut Undo,
    cancel: &mut Cancel,
) -> Result<Value, CniError> {
    if call.config.chained {
        return chained::add(call, undo, cancel).await;
    }
    let invocation = &call.invocation;
    cancel.race(call.client.reach()).await??;
    let path = invocation.netns.clone().unwrap_or_default();
    let mut namespaces = Namespaces::open(&path)?;
    attachment::take_turn_to_add(&namespaces.netns, cancel).await?;

    let asked = cancel.race(call.client.get("/config"));
    let making = async {
        others_first().await;
        make_pair(call, &mut namespaces)
    };
    let (agent, allocated, made) = tokio::join!(asked, allocate(call, undo), making);
    note_pair(call, undo, &made);
    cancel.check()?;
    let Configuration { status: agent, .. } = agent??;
    check_mode(&agent)?;
    let (allocated, earlier) = allocated?;
    let addresses =
        with_routers(allocated.address.addresses(), &allocated.host_addressing, &agent)?;
    tracing::debug!(?addresses, "addresses allocated");

    let (host, mut container) =
        own_pair(call, undo, &mut namespaces, made?, earlier.as_ref()).await?;
    container.mtu = mtu(&agent);
    cancel.check()?;
    tracing::debug!(host = host.name, ifindex = host.ifindex, "interface made");

    // The agent works at the host's side meanwhile.
    let properties = properties(&allocated);
    let request = request(call, &host, &container, allocated.address, namespaces.cookie);
    let request = EndpointChangeRequest { properties, ..request };
    let configuring = async {
        others_first().await;
        interface::configure(&mut namespaces, &host, &container, &addresses)
    };
    let (mac, routers) = tokio::join!(put_endpoint(call, &request, undo, cancel), configuring);
    let (mac, routers) = (mac?, routers?);
    if !mac.is_zero() && mac != container.mac {
        namespaces.container.set_mac(container.ifindex, mac)?;
        container.mac = mac;
    }
    interface::wait_for_carriers(&mut namespaces, &host, &container)?;
    let result = AddResult {
        host_name: host.name,
        host_mac: host.mac,
        ifname: container.name,
        mac: container.mac,
        mtu: container.mtu,
        sandbox: path.display().to_string(),
        addresses,
        routers,
        dns: call.config.dns.clone(),
    };
    Ok(result.to_json(call.config.version))
}

fn check_mode(agent: &ConfigurationStatus) -> Result<(), CniError> {
    check_datapath(agent)?;
    if agent.ipam_mode == "delegated-plugin" {
        return refuse("ipam mode", &agent.ipam_mode);
    }
    if agent.device_mtu == 0 {
        return refuse("deviceMTU", "0");
    }
    Ok(())
}

/// Whether the agent attaches its programs to veth interfaces.
pub(super) fn check_datapath(agent: &ConfigurationStatus) -> Result<(), CniError> {
    match agent.datapath_mode.as_str() {
        "" | "veth" => Ok(()),
        other => refuse("datapath mode", other),
    }
}

fn refuse(what: &str, value: &str) -> Result<(), CniError> {
    let msg = format!("the agent's {what} is {value:?}");
    let why = "volvox-cni cannot serve it: use its own plugin";
    Err(CniError::new(ErrorCode::InvalidConfig, msg, why))
}

/// What the pod sends must fit to everywhere, into a tunnel too.
fn mtu(agent: &ConfigurationStatus) -> u32 {
    match agent.route_mtu {
        0 => agent.device_mtu,
        route_mtu => route_mtu.min(agent.device_mtu),
    }
}

/// Lets the requests that are sent at the same time out first: what comes then keeps this thread.
async fn others_first() {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

/// Makes the pair, with all that is known of it before the agent has answered; `None` if one of their names is
/// taken.
fn make_pair(call: &Call, namespaces: &mut Namespaces) -> Result<Option<(Link, Link)>, CniError> {
    let made = interface::create(&call.invocation, namespaces, DEVICE_MTU)?;
    if let Some((host, _)) = &made {
        attachment::begin(call, &mut namespaces.node, host)?;
        Sysctl::default().prepare_host_side(&host.name)?;
    }
    Ok(made)
}

/// The pair that this ADD may use. Most often it is made and nothing was in the way: that is looked at if the
/// agent knows an endpoint of an earlier ADD, or the kernel had an interface of that name.
async fn own_pair(
    call: &Call,
    undo: &mut Undo,
    namespaces: &mut Namespaces,
    made: Option<(Link, Link)>,
    earlier: Option<&Endpoint>,
) -> Result<(Link, Link), CniError> {
    match (made, earlier) {
        (Some(pair), None) => return Ok(pair),
        // Whose endpoint that is can be seen only without it.
        (Some((host, _)), Some(_)) => {
            namespaces.node.delete_link(host.ifindex)?;
            undo.link = None;
        }
        (None, _) => {}
    }
    attachment::make_room(call, namespaces, earlier).await?;
    let made = make_pair(call, namespaces);
    note_pair(call, undo, &made);
    made?.ok_or_else(|| {
        let name = interface::host_name(&call.invocation.attachment_id());
        let msg = format!("{name} or {} appeared meanwhile", call.invocation.ifname);
        let why = "something else on the node makes interfaces of that name: see who";
        CniError::new(ErrorCode::Interface, msg, why)
    })
}

/// Notes the pair to be undone, unless what was there is another ADD's.
fn note_pair(call: &Call, undo: &mut Undo, made: &Result<Option<(Link, Link)>, CniError>) {
    if !matches!(made, Ok(None)) {
        undo.link = Some(interface::host_name(&call.invocation.attachment_id()));
    }
}

/// Addresses, and what endpoint of an earlier ADD the agent has. Not cancelled half-way: an address whose
/// answer is not waited for could not be given back.
async fn allocate(
    call: &Call,
    undo: &mut Undo,
) -> Result<(IpamResponse, Option<Endpoint>), CniError> {
    let path = format!("/ipam?owner={}", escape(&call.invocation.owner()));
    let client = call.client.clone().deadline(IPAM_DEADLINE);
    // The agent takes an address back that no endpoint claims in time.
    let headers = [("expiration", "true")];
    let allocation = client.send(Method::POST, &path, &headers, None::<&Value>);
    let attachment = call.invocation.attachment_id();
    let (allocation, earlier) = tokio::join!(allocation, attachment::endpoint(call, &attachment));
    let allocated: IpamResponse = allocation?.json()?;
    undo.addresses = allocated.address.addresses().iter().collect();
    Ok((allocated, earlier?))
}

/// Each address with the router of its family.
fn with_routers(
    addresses: Addresses,
    allocated: &NodeAddressing,
    agent: &ConfigurationStatus,
) -> Result<Vec<(IpAddr, IpAddr)>, CniError> {
    let routers: Vec<IpAddr> = allocated.routers().chain(agent.addressing.routers()).collect();
    let pairs: Vec<_> = addresses
        .iter()
        .filter_map(|address| {
            let router = routers.iter().find(|router| router.is_ipv4() == address.is_ipv4())?;
            Some((address, *router))
        })
        .collect();
    if pairs.is_empty() || pairs.len() != addresses.iter().count() {
        let msg = "the agent gave no address, or one without a router";
        let details = format!("addresses {addresses:?}, routers {routers:?}; see `volvox status`");
        return Err(CniError::new(ErrorCode::Agent, msg, details));
    }
    Ok(pairs)
}

/// What the pools of its addresses say of masquerading.
fn properties(allocated: &IpamResponse) -> Value {
    let skips = |of: &Option<IpamAddressResponse>| of.as_ref().is_some_and(|it| it.skip_masquerade);
    let families = Families { ipv4: skips(&allocated.ipv4), ipv6: skips(&allocated.ipv6) };
    unmasqueraded_properties(families)
}

pub(super) fn request(
    call: &Call,
    host: &Link,
    container: &Link,
    addressing: AddressPair,
    netns_cookie: u64,
) -> EndpointChangeRequest {
    let invocation = &call.invocation;
    let netns_path = invocation.netns.as_ref().map(|path| path.display().to_string());
    EndpointChangeRequest {
        container_id: invocation.container_id.clone(),
        container_interface_name: container.name.clone(),
        container_netns_path: netns_path.unwrap_or_default(),
        netns_cookie: netns_cookie.to_string(),
        interface_name: host.name.clone(),
        interface_index: host.ifindex,
        mac: container.mac,
        host_mac: host.mac,
        addressing,
        k8s_namespace: invocation.pod_namespace.clone(),
        k8s_pod_name: invocation.pod_name.clone(),
        k8s_uid: invocation.pod_uid.clone(),
        state: "waiting-for-identity".to_owned(),
        sync_build_endpoint: true,
        ..EndpointChangeRequest::default()
    }
}

/// Asks for the endpoint and waits until its datapath is in place. Answers the Ethernet address
/// that the agent wants the container to have, zero if any will do.
pub(super) async fn put_endpoint(
    call: &Call,
    request: &EndpointChangeRequest,
    undo: &mut Undo,
    cancel: &mut Cancel,
) -> Result<Mac, CniError> {
    undo.endpoint = true;
    let asked = call.client.send(Method::PUT, "/endpoint/cilium-local:0", &[], Some(request));
    match cancel.race(asked).await? {
        // An agent that says nothing more than that it did it wants nothing changed.
        Ok(answer) if answer.body.is_empty() => Ok(Mac::default()),
        Ok(answer) => Ok(answer.json::<Endpoint>()?.status.networking.mac),
        Err(error) => {
            undo.endpoint = error.is_ambiguous();
            Err(refused(error))
        }
    }
}

fn refused(error: RestError) -> CniError {
    let mut error = CniError::from(error);
    error.msg = "the agent did not make the endpoint".to_owned();
    error
}
