//! Hubble's API against a real agent: flows with names, denied ones with their policy, what a kill leaves,
//! certificates of both sides, and clients that never read.

use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    net::{SocketAddr, UdpSocket},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use prost::Message;
use tokio::{runtime::Runtime, time::timeout};
use volvox_hubble::{
    client::{HubbleAnswers, HubbleClient},
    messages::{
        AgentNotification, ChangeNotification, Flow, FlowFilter, FlowsResponse,
        GetAgentEventsResponse, GetEventsRequest, GetFlowsRequest, GetFlowsResponse,
        GetNamespacesResponse, HealthCheckRequest, HealthCheckResponse, LostEvent, Nothing,
        Timestamp, verdict,
    },
};
use volvox_testbed::lab::{self, Authority, Node, Pod, Setup, Validity, wait_for};

/// How long one answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const PORT: u16 = 4244;

/// Web never lets anybody bad in.
const POLICY: &str = r#"
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  endpointSelector: {matchLabels: {app: web}}
  ingress:
  - fromEndpoints: [{matchLabels: {app: client}}]
  ingressDeny:
  - fromEndpoints: [{matchLabels: {app: bad}}]
"#;

fn setup<'a>(socket: &'a str) -> Setup<'a> {
    Setup::new()
        .flag("enable-hubble", "true")
        .flag("hubble-socket-path", socket)
        .manifest("web.yaml", POLICY)
        .pod("shop/web", &[("app", "web")])
        .pod("shop/bad", &[("app", "bad")])
        .pod("shop/client", &[("app", "client")])
}

fn socket() -> String {
    lab::path("hubble.sock").display().to_string()
}

/// Sends a packet from one pod to another.
fn send(from: &Pod, to: &Pod) -> Result<()> {
    let target = SocketAddr::new(to.address(false)?, 9);
    from.netns.run(move || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.send_to(b"hello", target)?;
        Ok(())
    })
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

async fn connect() -> Result<HubbleClient> {
    Ok(HubbleClient::connect(Path::new(&socket())).await?)
}

/// All answers of a request that does not follow.
async fn all(client: &HubbleClient, request: GetFlowsRequest) -> Result<Vec<FlowsResponse>> {
    let mut answers = client.flows(&request).await?;
    let mut found = Vec::new();
    while let Some(bytes) = timeout(PATIENCE, answers.next()).await?? {
        found.extend(GetFlowsResponse::decode(&*bytes)?.response);
    }
    Ok(found)
}

fn flows(found: &[FlowsResponse]) -> Vec<&Flow> {
    let flows = found.iter().filter_map(|it| match it {
        FlowsResponse::Flow(flow) => Some(flow),
        _ => None,
    });
    flows.collect()
}

fn to_web(verdict: i32) -> Vec<FlowFilter> {
    let destination_pod = vec!["shop/web".to_owned()];
    vec![FlowFilter { destination_pod, verdict: vec![verdict], ..FlowFilter::default() }]
}

/// The next flow of a stream; what is lost is no flow.
async fn next(answers: &mut HubbleAnswers) -> Result<Flow> {
    loop {
        let bytes = timeout(PATIENCE, answers.next()).await??.context("the stream ended")?;
        if let Some(FlowsResponse::Flow(flow)) = GetFlowsResponse::decode(&*bytes)?.response {
            return Ok(flow);
        }
    }
}

/// Sends until a follower sees a flow that is as wanted.
async fn followed(
    answers: &mut HubbleAnswers,
    (from, to): (&Pod, &Pod),
    wanted: impl Fn(&Flow) -> bool,
) -> Result<Flow> {
    for _ in 0..100 {
        send(from, to)?;
        while let Ok(found) = timeout(Duration::from_millis(200), next(answers)).await {
            let flow = found?;
            if wanted(&flow) {
                return Ok(flow);
            }
        }
    }
    bail!("no such flow was seen")
}

async fn names_and_policies(pods: &[Pod; 3]) -> Result<Flow> {
    let [web, bad, good] = pods;
    let client = connect().await?;
    let follow = GetFlowsRequest { follow: true, ..GetFlowsRequest::default() };
    let denied = GetFlowsRequest { whitelist: to_web(verdict::DROPPED), ..follow.clone() };
    let mut answers = client.flows(&denied).await?;
    let is_verdict = |flow: &Flow| flow.event_type.is_some_and(|it| it.kind == 5);
    let flow = followed(&mut answers, (bad, web), is_verdict).await?;
    let source = flow.source.clone().context("no source")?;
    let to = flow.destination.clone().context("no destination")?;
    ensure!((&*source.namespace, &*source.pod_name) == ("shop", "bad"), "{flow:?}");
    ensure!(to.pod_name == "web" && to.id != 0 && to.identity >= 256, "{flow:?}");
    ensure!(to.labels.contains(&"k8s:app=web".to_owned()), "{flow:?}");
    ensure!((flow.drop_reason_desc, flow.traffic_direction) == (181, 1), "{flow:?}");
    let policy = flow.ingress_denied_by.first().context("no policy denied it")?;
    ensure!((&*policy.name, &*policy.kind) == ("web", "CiliumNetworkPolicy"), "{policy:?}");
    let drop = followed(&mut answers, (bad, web), |flow| !is_verdict(flow)).await?;
    ensure!(drop.event_type.is_some_and(|it| it.kind == 1), "{drop:?}");
    let allowed = GetFlowsRequest { whitelist: to_web(verdict::FORWARDED), ..follow };
    let mut answers = client.flows(&allowed).await?;
    let is_in = |flow: &Flow| flow.trace_observation_point == 101;
    let flow = followed(&mut answers, (good, web), is_in).await?;
    ensure!(flow.is_reply == Some(false) && flow.summary == "UDP", "{flow:?}");
    let interface = flow.interface.context("no interface")?;
    ensure!(!interface.name.is_empty(), "{interface:?}");
    Ok(drop)
}

async fn other_calls(node: &Node) -> Result<()> {
    let client = connect().await?;
    let status = client.status().await?;
    ensure!(status.max_flows == 4095 && status.num_flows > 0, "{status:?}");
    ensure!(status.seen_flows > 0 && status.version.starts_with("volvox"), "{status:?}");
    let bytes = client.unary("/observer.Observer/GetNamespaces", &Nothing {}).await?;
    let named = GetNamespacesResponse::decode(&*bytes)?.namespaces;
    ensure!(named.iter().any(|it| it.namespace == "shop"), "{named:?}");
    let error = client
        .unary("/observer.Observer/GetNodes", &Nothing {})
        .await
        .expect_err("a node knows itself alone");
    ensure!(error.to_string().contains("relay"), "{error}");
    let check = HealthCheckRequest { service: "observer.Observer".into() };
    let bytes = client.unary("/grpc.health.v1.Health/Check", &check).await?;
    ensure!(HealthCheckResponse::decode(&*bytes)?.status == 1);
    let mut peers = client.stream("/peer.Peer/Notify", &Nothing {}).await?;
    let bytes = timeout(PATIENCE, peers.next()).await??.context("no peer")?;
    let peer = ChangeNotification::decode(&*bytes)?;
    // The lab's node has no address of its own.
    ensure!((peer.kind, &*peer.name) == (1, "lab-node"), "{peer:?}");
    let source_ip = vec!["nobody".to_owned()];
    let bad = FlowFilter { source_ip, ..FlowFilter::default() };
    let request = GetFlowsRequest { whitelist: vec![bad], ..GetFlowsRequest::default() };
    let error = client.flows(&request).await.expect_err("it is no filter");
    ensure!(error.to_string().contains("source_ip"), "{error}");
    let mut line = node.client("observe --server");
    let output =
        line.arg(socket()).args(["--to-pod", "shop/web", "--print-policy-names"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(text.contains("shop/bad:") && text.contains("CiliumNetworkPolicy shop/web"), "{text}");
    Ok(())
}

/// Flows of before a kill, after it: with their names, and with what nobody saw.
async fn after_a_kill(before: &Flow, killed: Timestamp) -> Result<()> {
    let client = connect().await?;
    let since = Some(Timestamp { seconds: killed.seconds - 600, nanos: 0 });
    let found = all(&client, GetFlowsRequest { since, ..GetFlowsRequest::default() }).await?;
    let kept: Vec<_> = flows(&found).into_iter().filter(|it| it.uuid == before.uuid).collect();
    ensure!(kept.len() == 1, "{} flows of that name", kept.len());
    ensure!(kept[0].source == before.source, "{:?}\n{before:?}", kept[0]);
    ensure!(kept[0].ingress_denied_by == before.ingress_denied_by, "{:?}", kept[0]);
    let unseen = found.iter().any(|it| {
        matches!(it, FlowsResponse::LostEvents(LostEvent { source: 1, num_events_lost: 0, .. }))
    });
    ensure!(unseen, "nobody said that flows were not seen");
    let uuids: BTreeSet<_> = flows(&found).into_iter().map(|flow| &flow.uuid).collect();
    ensure!(uuids.len() == flows(&found).len(), "each flow once");
    Ok(())
}

async fn says_of_itself(kinds: &[i32]) -> Result<()> {
    let client = connect().await?;
    let mut answers = client.agent_events(&GetEventsRequest::default()).await?;
    let (mut found, mut pods) = (BTreeSet::new(), BTreeSet::new());
    while let Some(bytes) = timeout(PATIENCE, answers.next()).await?? {
        let event = GetAgentEventsResponse::decode(&*bytes)?.agent_event.context("no event")?;
        found.insert(event.kind);
        if let Some(AgentNotification::EndpointUpdate(it)) = event.notification {
            pods.insert(format!("{}/{}", it.namespace, it.pod_name));
        }
    }
    ensure!(kinds.iter().all(|kind| found.contains(kind)), "{found:?}");
    ensure!(pods.contains("shop/web"), "{pods:?}");
    Ok(())
}

#[test]
fn flows_have_names_and_policies_and_outlive_a_kill() {
    lab::test("flows_have_names_and_policies_and_outlive_a_kill", || {
        let socket = socket();
        let (mut node, pods) = setup(&socket).start()?;
        let runtime = runtime()?;
        let drop = runtime.block_on(names_and_policies(&pods))?;
        runtime.block_on(other_calls(&node))?;
        // Started, policies, endpoints made and built, addresses mapped.
        runtime.block_on(says_of_itself(&[2, 3, 5, 7, 9]))?;
        node.kill_agent()?;
        let killed = Timestamp::now();
        send(&pods[1], &pods[0])?;
        node.start_agent()?;
        node.wait_for_ready(3)?;
        runtime.block_on(after_a_kill(&drop, killed))
    });
}

/// Whether a client is greeted: with a certificate of its own, or without. What is heard first of a server
/// of HTTP/2 is its settings.
fn is_greeted(authority: &Authority, identity: Option<&str>) -> Result<bool> {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-quiet", "-verify_return_error", "-alpn", "h2", "-CAfile", "ca.pem"]);
    client.args(["-connect", &format!("127.0.0.1:{PORT}")]).current_dir(authority.place());
    if let Some(name) = identity {
        client.args(["-cert", &format!("{name}.pem"), "-key", &format!("{name}.key")]);
    }
    let mut client = client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("openssl")?;
    // Who is refused reads the end, who is greeted the settings: neither waits for more.
    let mut frame = [0_u8; 9];
    let heard = client.stdout.take().context("no output")?.read_exact(&mut frame);
    client.kill()?;
    client.wait()?;
    const SETTINGS: u8 = 4;
    Ok(heard.is_ok() && frame[3] == SETTINGS)
}

#[test]
fn other_nodes_see_flows_with_a_certificate_only() {
    lab::test("other_nodes_see_flows_with_a_certificate_only", || {
        lab::ip("link set lo up")?;
        let (ours, foreign) = (lab::path("pki"), lab::path("foreign"));
        let authority = Authority::create(&ours)?;
        let stranger = Authority::create(&foreign)?;
        for name in ["server", "relay"] {
            authority.sign(name, Validity::Today)?;
        }
        stranger.sign("relay", Validity::Today)?;
        let path = |name: &str| ours.join(name).display().to_string();
        let (own, key, clients) = (path("server.pem"), path("server.key"), path("ca.pem"));
        let (address, socket) = (format!("[::]:{PORT}"), socket());
        // Whoever makes certificates comes later.
        let later = path("later.pem");
        fs::rename(&own, &later)?;
        let (mut node, _pods) = setup(&socket)
            .flag("hubble-listen-address", &address)
            .flag("hubble-disable-tls", "false")
            .flag("hubble-tls-cert-file", &own)
            .flag("hubble-tls-key-file", &key)
            .flag("hubble-tls-client-ca-files", &clients)
            .start::<3>()?;
        fs::rename(&later, &own)?;
        wait_for("flows are served once there is a certificate", || {
            is_greeted(&authority, Some("relay"))
        })?;
        ensure!(!is_greeted(&authority, None)?, "without a certificate");
        // Vouched for by somebody else, who is believed by that client.
        fs::copy(ours.join("ca.pem"), foreign.join("ca.pem"))?;
        ensure!(!is_greeted(&stranger, Some("relay"))?, "a foreign one");
        // The new certificate is over: clients see that it is the new one.
        authority.sign("server", Validity::Over)?;
        wait_for("the new certificate is shown", || Ok(!is_greeted(&authority, Some("relay"))?))?;
        authority.sign("server", Validity::Today)?;
        wait_for("the newest certificate is shown", || is_greeted(&authority, Some("relay")))?;
        node.agent()?.check()
    });
}

/// As many followers as are let in, none of whom reads.
async fn never_read() -> Result<(Vec<HubbleClient>, Vec<HubbleAnswers>)> {
    let (mut clients, mut held) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let client = connect().await?;
        for _ in 0..32 {
            let request = GetFlowsRequest { follow: true, ..GetFlowsRequest::default() };
            match client.flows(&request).await {
                Ok(answers) => held.push(answers),
                Err(error) => {
                    ensure!(error.to_string().contains("streams"), "{error}");
                    clients.push(client);
                    return Ok((clients, held));
                }
            }
        }
        clients.push(client);
    }
    bail!("{} followers were let in", held.len())
}

#[test]
fn who_never_reads_is_bounded_and_nobody_waits() {
    lab::test("who_never_reads_is_bounded_and_nobody_waits", || {
        let socket = socket();
        let (mut node, [web, bad, _good]) = setup(&socket).start()?;
        let runtime = runtime()?;
        runtime.block_on(async {
            let (clients, mut held) = never_read().await?;
            let count = held.len();
            // One goes: another is let in, and sees what comes while nobody else reads.
            drop(held.pop());
            let client = connect().await?;
            let whitelist = to_web(verdict::DROPPED);
            let request = GetFlowsRequest { follow: true, whitelist, ..Default::default() };
            let mut answers = loop {
                match client.flows(&request).await {
                    Ok(answers) => break answers,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            };
            followed(&mut answers, (&bad, &web), |_| true).await?;
            let status = client.status().await?;
            ensure!(count >= 100 && status.num_flows > 0, "{count} followers, {status:?}");
            drop((clients, held));
            Ok(())
        })?;
        node.wait_for_ready(3)?;
        node.agent()?.check()
    });
}
