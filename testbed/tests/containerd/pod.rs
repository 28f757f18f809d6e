//! A pod as a kubelet makes it: a sandbox with one container.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use volvox_testbed::lab::{Netns, image};

use crate::{
    messages::{
        ById, ContainerConfig, ContainerMetadata, CreateContainerRequest, Empty, ExecSyncRequest,
        ExecSyncResponse, ImageSpec, LinuxPodSandboxConfig, PodSandboxConfig, PodSandboxMetadata,
        PodSandboxStatusRequest, PodSandboxStatusResponse, RunPodSandboxRequest,
    },
    runtime::Containerd,
};

/// Seconds that a command in a pod may take.
const EXEC_SECONDS: i64 = 120;

/// A running pod.
pub(crate) struct Pod<'a> {
    runtime: &'a Containerd,
    sandbox: String,
    container: String,
    /// Its address.
    pub address: IpAddr,
    /// Its network namespace.
    pub netns: Netns,
}

impl<'a> Pod<'a> {
    /// Runs a pod whose container serves a page at port 80.
    pub(crate) fn run(runtime: &'a Containerd, namespace: &str, name: &str) -> Result<Self> {
        Self::run_as(runtime, namespace, name, &format!("uid-of-{name}"))
    }

    /// The same for the pod of that UID in a cluster.
    pub(crate) fn run_as(
        runtime: &'a Containerd,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<Self> {
        let cri = &runtime.cri;
        let config = PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: name.into(),
                uid: uid.into(),
                namespace: namespace.into(),
            }),
            log_directory: "/run".into(),
            linux: Some(LinuxPodSandboxConfig::default()),
        };
        let request = RunPodSandboxRequest { config: Some(config.clone()) };
        let sandbox: ById = cri.call("RuntimeService/RunPodSandbox", request)?;
        let command = ["/bin/httpd", "-f", "-p", "80", "-h", "/www"].map(String::from).into();
        let request = CreateContainerRequest {
            pod: sandbox.id.clone(),
            config: Some(ContainerConfig {
                metadata: Some(ContainerMetadata { name: "web".into(), attempt: 0 }),
                image: Some(ImageSpec { image: image::NAME.into() }),
                command,
                ..ContainerConfig::default()
            }),
            pod_config: Some(config),
        };
        let container: ById = cri.call("RuntimeService/CreateContainer", request)?;
        let _: Empty = cri.call("RuntimeService/StartContainer", container.clone())?;
        let (address, netns) = network(runtime, &sandbox.id)?;
        Ok(Self { runtime, sandbox: sandbox.id, container: container.id, address, netns })
    }

    /// Runs a command in the container; what it printed if it succeeded.
    pub(crate) fn exec(&self, command: &[&str]) -> Result<String> {
        exec(self.runtime, &ById { id: self.container.clone() }, command)
    }

    /// Whether it gets the page of `other`; gives up after a second.
    pub(crate) fn reaches(&self, other: &Self) -> bool {
        let request = r"printf 'GET / HTTP/1.0\r\n\r\n'";
        let line = format!("{request} | nc -w 1 {} 80", other.address);
        self.exec(&["/bin/sh", "-c", &line]).is_ok_and(|page| page.ends_with("hello\n"))
    }

    /// Ends the sandbox's process behind the back of the runtime's clients. What ran in its process namespace
    /// ends with it; its network namespace is held by the runtime.
    pub(crate) fn end_sandbox(&self) -> Result<()> {
        self.runtime.ctr(&["tasks", "kill", "--signal", "SIGKILL", &self.sandbox])
    }

    /// Stops and removes it, as when it is deleted.
    pub(crate) fn remove(self) -> Result<()> {
        for method in ["StopPodSandbox", "RemovePodSandbox"] {
            let request = ById { id: self.sandbox.clone() };
            let _: Empty = self.runtime.cri.call(&format!("RuntimeService/{method}"), request)?;
        }
        Ok(())
    }
}

/// Runs a command in a container; what it printed if it succeeded.
pub(crate) fn exec(runtime: &Containerd, container: &ById, command: &[&str]) -> Result<String> {
    let request = ExecSyncRequest {
        container: container.id.clone(),
        command: command.iter().map(|word| word.to_string()).collect(),
        timeout_seconds: EXEC_SECONDS,
    };
    let done: ExecSyncResponse = runtime.cri.call("RuntimeService/ExecSync", request)?;
    let stderr = String::from_utf8_lossy(&done.stderr);
    ensure!(done.exit_code == 0, "{command:?} ended with {}: {stderr}", done.exit_code);
    Ok(String::from_utf8(done.stdout)?)
}

fn network(runtime: &Containerd, sandbox: &str) -> Result<(IpAddr, Netns)> {
    let request = PodSandboxStatusRequest { id: sandbox.into(), verbose: true };
    let answer: PodSandboxStatusResponse =
        runtime.cri.call("RuntimeService/PodSandboxStatus", request)?;
    let network = answer.status.and_then(|status| status.network).context("no network status")?;
    let info: Value = serde_json::from_str(answer.info.get("info").context("no info")?)?;
    let namespaces = info["runtimeSpec"]["linux"]["namespaces"].as_array().context("no spec")?;
    let path = namespaces
        .iter()
        .find(|namespace| namespace["type"] == "network")
        .and_then(|namespace| namespace["path"].as_str())
        .context("no network namespace")?;
    Ok((network.ip.parse().context("no address")?, Netns::open(path.as_ref())?))
}
