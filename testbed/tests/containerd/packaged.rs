//! The packaged DaemonSet's pod on a node of the lab: it has what it needs, and no more.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    os::unix::fs::symlink,
    path::Path,
};

use anyhow::{Context, Result, ensure};
use rustix::{
    mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount},
    process::{Pid, Signal, kill_process},
};
use serde_json::{Value, json};
use volvox_packaging::{Values, objects};
use volvox_testbed::lab::{self, Binaries, Cgroup, Etcd, Node, Pod, Through, other_node, wait_for};

use crate::{
    packaged_pod::{PackagedPod, packaged},
    runtime::Containerd,
};

/// Where the DaemonSet mounts control groups.
const CGROUPS: &str = "/run/cilium/cgroupv2";

/// Endpoints that it holds beneath its limit of memory.
const ENDPOINTS: usize = 50;

/// Numbers of capabilities, as the kernel counts them, that the manifest may name.
const CAPABILITIES: [(&str, u32); 3] = [("NET_ADMIN", 12), ("NET_RAW", 13), ("SYS_ADMIN", 21)];

/// What is said where something is not permitted.
const REFUSALS: [&str; 6] = ["not permitted", "denied", "read-only", "EPERM", "EACCES", "EROFS"];

#[test]
fn the_packaged_agent_has_what_it_needs_and_no_more() {
    lab::test("packaged::the_packaged_agent_has_what_it_needs_and_no_more", || {
        let (node, etcd) = node()?;
        let runtime = Containerd::start(&node)?;
        // All of the machine's processes are in the root of the hierarchy that is mounted for the agent.
        let cgroup = Cgroup::create(&node.path("cgroups"))?;
        let part = cgroup.path().strip_prefix(node.path("cgroups"))?;
        let mut settings = settings(&node, &etcd);
        let root = Path::new(CGROUPS).join(part).display().to_string();
        settings.insert("cgroup-root".into(), root);
        let mut pod = PackagedPod::start(&runtime, &node, &settings)?;
        ensure!(fs::exists(format!("{CGROUPS}/cgroup.procs"))?, "control groups are not mounted");
        pod.start_agent()?;
        wait_until_well(&pod)?;
        let node = with_installed_plugin(node, &pod)?;
        holds_no_more(&pod)?;

        // Pods, by the plugin that was installed, as by a runtime; a service; another node.
        let labels = [("app", "web")];
        let first = Pod::create(&node, "shop/first", &labels, Through::Cni)?;
        let mut all = vec![Pod::create(&node, "shop/second", &labels, Through::Cni)?];
        for nth in all.len() + 1..ENDPOINTS {
            all.push(Pod::create(&node, &format!("shop/{nth}"), &labels, Through::Rest)?);
        }
        node.write_manifest("service.yaml", &service(&first)?)?;
        etcd.connect()?.put(&[other_node::node("there", Ipv4Addr::new(192, 0, 2, 7))])?;
        is_whole(&node, &pod)?;
        // The node itself reaches it, as kubelet and webhooks do.
        first.netns.answer(8080)?;
        ensure!(cgroup.is_answered("10.96.0.7:80".parse()?)?, "the node reaches no service");
        all.swap_remove(0).delete(&node)?;
        all.push(Pod::create(&node, "shop/third", &labels, Through::Cni)?);

        // Killed, it comes back as a kubelet has it come back: another container of the same pod. The
        // namespace of the health endpoint is held outside of it.
        let health = health(&node)?;
        kill(&pod)?;
        pod.start_agent()?;
        wait_until_well(&pod)?;
        is_whole(&node, &pod)?;
        ensure!(self::health(&node)? == health, "the health endpoint was made anew");
        stays_beneath_its_limit(&pod)?;

        // What an operator asks within the container.
        let status = pod.exec(&["/usr/bin/volvox", "status"])?;
        ensure!(status.contains("51 ready"), "{status}");
        let why = pod.exec(&["/usr/bin/volvox", "why", "pod-name:shop/third"])?;
        let policies = pod.exec(&["/usr/bin/volvox", "bpf", "policy", "list"])?;
        kill(&pod)?;
        pod.uninstall()?;
        for place in ["cilium", "tc", "volvox"] {
            ensure!(!fs::exists(format!("/sys/fs/bpf/{place}"))?, "pins are left below {place}");
        }
        ensure!(lab::ip("link show lxc_health").is_err(), "the health endpoint is left");
        for text in [status, why, policies, pod.log()] {
            let refused = text.lines().find(|line| REFUSALS.iter().any(|it| line.contains(it)));
            ensure!(refused.is_none(), "{}", refused.unwrap_or_default());
        }
        Ok(())
    });
}

#[test]
fn the_packaged_agent_follows_containerd_if_it_is_told_to() {
    lab::test("packaged::the_packaged_agent_follows_containerd_if_it_is_told_to", || {
        let (node, etcd) = node()?;
        let runtime = Containerd::start(&node)?;
        let place = node.path("containerd");
        let mut values = Values::default();
        let socket = place.join("containerd.sock").display().to_string();
        values.set(&format!(
            "containerRuntime.integration=containerd,containerRuntime.socketPath={socket}"
        ))?;
        values.check()?;
        // The lab's directories of the node lie elsewhere.
        let there = node.path("host").join(place.strip_prefix("/")?);
        fs::create_dir_all(there.parent().context("no parent")?)?;
        symlink(&place, there)?;
        let settings = settings(&node, &etcd);
        let mut pod = PackagedPod::start_of(&runtime, &node, &settings, &objects(&values))?;
        pod.start_agent()?;
        wait_until_well(&pod)?;
        holds_no_more(&pod)?;
        wait_for("it follows containerd", || {
            pod.check()?;
            let health: Value = node.rest().get("/healthz")?;
            Ok(health["container-runtime"]["state"] == "Ok")
        })
    });
}

/// SIGKILL, and waits for the container's end.
fn kill(pod: &PackagedPod<'_>) -> Result<()> {
    let pid = i32::try_from(pod.pid()?)?;
    kill_process(Pid::from_raw(pid).context("no process")?, Signal::KILL)?;
    wait_for("the agent is dead", || Ok(pod.check().is_err()))
}

/// A node as systemd leaves it: mounts are shared; but nobody has mounted the BPF file system.
fn node() -> Result<(Node, Etcd)> {
    lab::ip("link set lo up")?;
    unmount("/sys/fs/bpf", UnmountFlags::DETACH)?;
    // Among those of the lab: it has none in common with the machine.
    mount_change("/", MountPropagationFlags::SHARED | MountPropagationFlags::REC)?;
    let mut node = Node::new(Binaries::find()?)?;
    let etcd = Etcd::start(&node.path("etcd"))?;
    etcd.share_with(&mut node)?;
    // Where the lab looks for the agent's API.
    symlink("/run/cilium/cilium.sock", node.path("cilium.sock"))?;
    Ok((node, etcd))
}

/// Beside those of the ConfigMap: what the lab has in place of an API server.
fn settings(node: &Node, etcd: &Etcd) -> BTreeMap<String, String> {
    let manifests = node.path("manifests").display().to_string();
    [
        ("static-cnp-path", manifests),
        ("ipv4-range", "10.11.0.0/16".into()),
        // More than is packaged, and it has to be permitted, too.
        ("enable-ipv6", "true".into()),
        ("ipv6-range", "fd11::/96".into()),
        // Packaged nodes share identities in the API server.
        ("identity-allocation-mode", "kvstore".into()),
        ("kvstore", "etcd".into()),
        ("kvstore-opt", etcd.option()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Uses the plugin that the init container has put where a runtime looks for it.
fn with_installed_plugin(mut node: Node, pod: &PackagedPod<'_>) -> Result<Node> {
    let cni = pod.on_node("/opt/cni/bin/volvox-cni");
    ensure!(cni.exists(), "the plugin was not installed");
    let conflist = pod.on_node("/etc/cni/net.d/05-volvox.conflist");
    wait_for("the runtime is told of the plugin", || Ok(conflist.exists()))?;
    let binaries = Binaries { cni, ..node.binaries().clone() };
    node.switch_to(binaries);
    Ok(node)
}

/// A service whose only backend is that pod.
fn service(backend: &Pod) -> Result<String> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": "shop", "name": "web" },
        "spec": {
            "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ipFamilies": ["IPv4"],
            "ports": [{ "name": "web", "port": 80, "protocol": "TCP" }],
        },
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "namespace": "shop", "name": "web-1",
            "labels": { "kubernetes.io/service-name": "web" },
        },
        "ports": [{ "name": "web", "port": 8080, "protocol": "TCP" }],
        "endpoints": [{
            "addresses": [backend.address(false)?], "conditions": { "ready": true },
        }],
    });
    Ok(format!("{service}\n---\n{slice}\n"))
}

/// Waits until the kubelet's probe would be content.
fn wait_until_well(pod: &PackagedPod<'_>) -> Result<()> {
    wait_for("the agent is well", || {
        pod.check()?;
        Ok(probe().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")))
    })
}

fn probe() -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", 9879))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Waits until all endpoints are ready, the service is in the maps, and the tunnel is there.
fn is_whole(node: &Node, pod: &PackagedPod<'_>) -> Result<()> {
    // Those of pods, and the health endpoint.
    let expected = BTreeMap::from([("ready".to_owned(), ENDPOINTS + 1)]);
    wait_for("all endpoints are ready, and services and tunnels are there", || {
        pod.check()?;
        let states = node.rest().get("/volvox/endpoint-states");
        let ready = states.is_ok_and(|states: BTreeMap<_, _>| states == expected);
        Ok(ready
            && node.served().is_ok_and(|all| all.len() == 1)
            && lab::ip("link show cilium_vxlan up").is_ok_and(|text| text.contains("cilium_vxlan"))
            && forwards("cilium_vxlan"))
    })
}

/// Where the health endpoint is.
fn health(node: &Node) -> Result<Value> {
    let all = node.endpoints()?.into_iter();
    let name = |it: &Value| it["status"]["external-identifiers"]["container-name"].clone();
    let mut own = all.filter(|it| name(it) == "cilium-health");
    let mut endpoint = own.next().context("there is no health endpoint")?;
    Ok(endpoint["status"]["networking"].take())
}

/// Whether the agent has written the device's parameters.
fn forwards(device: &str) -> bool {
    let path = format!("/proc/sys/net/ipv4/conf/{device}/rp_filter");
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "0")
}

/// The agent has the capabilities that the manifest names and no others, and can get no more.
fn holds_no_more(pod: &PackagedPod<'_>) -> Result<()> {
    let status = fs::read_to_string(format!("/proc/{}/status", pod.pid()?))?;
    let row = |name: &str| {
        let row = status.lines().find_map(|line| line.strip_prefix(name));
        row.map(str::trim).with_context(|| format!("no {name}"))
    };
    let named = agent()?["securityContext"]["capabilities"]["add"].take();
    let mut expected = 0_u64;
    for name in named.as_array().context("no capabilities are named")? {
        let known = CAPABILITIES.iter().find(|(known, _)| name == known);
        expected |= 1 << known.with_context(|| format!("{name} is not known here"))?.1;
    }
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        ensure!(u64::from_str_radix(row(set)?, 16)? == expected, "{set} {}", row(set)?);
    }
    ensure!(row("NoNewPrivs:")? == "1" && row("Seccomp:")? == "2", "{status}");
    Ok(())
}

/// The kernel counts what is resident of the agent, and its maps, against its limit.
fn stays_beneath_its_limit(pod: &PackagedPod<'_>) -> Result<()> {
    let limit = agent()?["resources"]["limits"]["memory"].take();
    let limit =
        limit.as_str().and_then(|text| text.strip_suffix("Mi")).context("no limit in Mi")?;
    let limit = limit.parse::<u64>()? * 1024;
    let place = format!("/proc/{}", pod.pid()?);
    let status = fs::read_to_string(format!("{place}/status"))?;
    let peak = number(&status, "VmHWM:").context("no VmHWM")?;
    let mut maps = BTreeMap::new();
    for file in fs::read_dir(format!("{place}/fdinfo"))? {
        let Ok(text) = fs::read_to_string(file?.path()) else { continue };
        if let (Some(map), Some(bytes)) = (number(&text, "map_id:"), number(&text, "memlock:")) {
            maps.insert(map, bytes / 1024);
        }
    }
    let maps: u64 = maps.values().sum();
    ensure!(maps > 0, "it has no maps");
    ensure!(peak + maps < limit, "{peak} KiB and {maps} KiB of maps are over {limit} KiB");
    Ok(())
}

/// The number in a row of that name.
fn number(text: &str, name: &str) -> Option<u64> {
    let row = text.lines().find_map(|line| line.strip_prefix(name))?;
    row.split_whitespace().next()?.parse().ok()
}

/// The agent's container.
fn agent() -> Result<Value> {
    Ok(packaged("DaemonSet")?["spec"]["template"]["spec"]["containers"][0].take())
}
