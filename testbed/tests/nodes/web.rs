//! Web servers behind a service on two nodes, under load from outside while agents restart.

use std::{
    fs,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_sim::random::Random;
use volvox_testbed::lab::{self, Netns, Pod, Setup, wait_for};

const PORT: u16 = 8080;
const NODE_PORT: u16 = 30_080;
/// How long each load lasts.
const SPAN: Duration = Duration::from_secs(8);

/// A web server in a pod; it ends with the lab.
fn serve(pod: &Pod) -> Result<Child> {
    let directory = format!("/run/web-{}", pod.name);
    fs::create_dir_all(&directory)?;
    let config = format!(
        "user root; daemon off; master_process off; pid {directory}/pid; \
         error_log {directory}/error.log;\n\
         events {{}}\n\
         http {{\n  access_log off; client_body_temp_path {directory};\n  \
         proxy_temp_path {directory}; fastcgi_temp_path {directory};\n  \
         uwsgi_temp_path {directory}; scgi_temp_path {directory};\n  \
         keepalive_requests 1000000;\n  \
         server {{ listen {PORT}; listen [::]:{PORT}; location / {{ return 200 \"{} $remote_addr\\n\"; }} }}\n}}\n",
        pod.name
    );
    let file = Path::new(&directory).join("nginx.conf");
    fs::write(&file, config)?;
    let child = inside(&pod.netns, "nginx").arg("-c").arg(&file).stderr(Stdio::null()).spawn()?;
    // It writes that when it listens.
    wait_for("a web server", || Ok(Path::new(&directory).join("pid").exists()))?;
    Ok(child)
}

/// Who answers there, and whom he answers.
fn ask(at: SocketAddr) -> Result<(String, IpAddr)> {
    let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(4))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    let last = said.lines().last().and_then(|line| line.split_once(' '));
    let (name, client) = last.with_context(|| format!("no answer: {said}"))?;
    Ok((name.to_owned(), client.parse()?))
}

/// A program that is to run in a namespace.
fn inside(netns: &Netns, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", netns.path().display())).arg(program);
    command
}

/// Load from the network that the nodes are on: connections that are kept, or one for each request.
fn load(node: IpAddr, keep: bool) -> Result<Child> {
    let mut wrk = Command::new("wrk");
    let span = format!("-d{}s", SPAN.as_secs());
    wrk.args(["-t1", "-c8", &span, "--timeout", "6s"]);
    if !keep {
        wrk.args(["-H", "Connection: close"]);
    }
    let url = format!("http://{}/", SocketAddr::new(node, NODE_PORT));
    wrk.arg(url).stdout(Stdio::piped()).spawn().context("wrk does not start")
}

/// What the load met: requests that were answered. Fails if one was not.
fn answered(load: Child) -> Result<u64> {
    let output = load.wait_with_output()?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "wrk: {said}");
    ensure!(!said.contains("Socket errors") && !said.contains("Non-2xx"), "{said}");
    let count = said.lines().find_map(|line| line.trim().split_once(" requests in "));
    let count = count.and_then(|(count, _)| count.parse().ok());
    count.with_context(|| format!("wrk counts no requests: {said}"))
}

#[test]
fn web_servers_on_two_nodes_answer_while_agents_restart() {
    lab::test("web::web_servers_on_two_nodes_answer_while_agents_restart", || {
        under_load(&[], false)
    });
}

#[test]
fn web_servers_answer_their_clients_themselves_while_agents_restart() {
    lab::test("web::web_servers_answer_their_clients_themselves_while_agents_restart", || {
        under_load(&[("bpf-lb-mode", "dsr")], true)
    });
}

/// Loads both nodes while their agents are killed. `direct` says whether a server on the other node
/// sees the client itself.
fn under_load(flags: &[(&str, &str)], direct: bool) -> Result<()> {
    let setup = Setup::new().flags(flags).pod("shop/web-1", &[("app", "web")]);
    let setup = setup.pod_on(2, "shop/web-2", &[("app", "web")]);
    let (mut cluster, pods) = setup.start_nodes::<2>(2)?;
    let _servers = pods.iter().map(serve).collect::<Result<Vec<_>>>()?;
    let backends = pods.iter().map(|pod| pod.address(false)).collect::<Result<Vec<_>>>()?;
    let service = json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "namespace": "shop", "name": "web" },
            "spec": {
                "type": "NodePort", "clusterIPs": ["10.96.0.1"],
                "ports": [{ "port": 80, "nodePort": NODE_PORT, "protocol": "TCP" }],
            },
        },
        {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "namespace": "shop", "name": "web",
                "labels": { "kubernetes.io/service-name": "web" },
            },
            "addressType": "IPv4", "ports": [{ "port": PORT, "protocol": "TCP" }],
            "endpoints": backends.iter().map(|it| json!({ "addresses": [it] })).collect::<Vec<_>>(),
        },
    ]});
    let mut nodes = Vec::new();
    for member in &mut cluster.members {
        member.run(|node| node.write_manifest("web.yaml", &service.to_string()))?;
        let address = member.address(false)?;
        let at = SocketAddr::new(address, NODE_PORT);
        wait_for("the service from outside", || {
            Ok(TcpStream::connect_timeout(&at, Duration::from_millis(500)).is_ok())
        })?;
        nodes.push(address);
    }
    let by_first = SocketAddr::new(nodes[0], NODE_PORT);
    let client = TcpStream::connect(by_first)?.local_addr()?.ip();
    // Other nodes have the overlay towards it.
    let router = cluster.member(1).run(|node| {
        let config: Value = node.rest().get("/config")?;
        let ip = config["status"]["addressing"]["ipv4"]["ip"].as_str();
        Ok(ip.context("the node has a router")?.parse::<IpAddr>()?)
    })?;
    wait_for("a server on the other node", || {
        let (name, seen) = ask(by_first)?;
        let expected = if direct { client } else { router };
        ensure!(name == "web-1" || seen == expected, "{name} sees {seen}, not {expected}");
        Ok(name == "web-2")
    })?;
    let begun = Instant::now();
    let loads = [load(nodes[0], true)?, load(nodes[0], false)?, load(nodes[1], false)?];
    let mut random = Random::new(9);
    while begun.elapsed() < SPAN {
        for number in [1, 2] {
            cluster.member(number).run(|node| {
                node.kill_agent()?;
                thread::sleep(random.below(Duration::from_millis(200)));
                node.exec_agent()
            })?;
            thread::sleep(random.below(Duration::from_millis(500)));
        }
    }
    for load in loads {
        let requests = answered(load)?;
        ensure!(requests > 100, "only {requests} requests were answered");
    }
    Ok(())
}
