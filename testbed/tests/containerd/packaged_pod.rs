//! A pod of the packaged DaemonSet as a kubelet makes it: init containers and the agent, each with the
//! security context, the mounts and the environment that the manifest says.
//!
//! Its image is made as users make it, of the programs under test. Directories of the node lie below the
//! lab's, but for those that are the lab's own anyway. Of the limits none is set: control groups are the
//! machine's.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use volvox_inspect::manifests;
use volvox_testbed::lab::{NODE_NAME, Node, image, wait_for};

use crate::{
    messages::{
        ById, Capability, ContainerConfig, ContainerMetadata, ContainerStatus,
        ContainerStatusRequest, ContainerStatusResponse, CreateContainerRequest, Empty, ImageSpec,
        KeyValue, LinuxContainerConfig, LinuxContainerSecurityContext, LinuxPodSandboxConfig,
        LinuxSandboxSecurityContext, Mount, NamespaceOption, PodSandboxConfig, PodSandboxMetadata,
        RunPodSandboxRequest, SecurityProfile,
    },
    pod::exec,
    runtime::Containerd,
};

/// What is packaged.
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../agent/packaging/daemonset.yaml");

/// What a kubelet has masked in a container that is not privileged.
const MASKED: [&str; 10] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
];
/// And what is read-only there.
const READONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Whose namespace it is.
const POD: i32 = 0;
const CONTAINER: i32 = 1;
const NODE: i32 = 2;

/// The object of that kind that is packaged.
pub(crate) fn packaged(kind: &str) -> Result<Value> {
    of_kind(&manifest()?, kind)
}

fn manifest() -> Result<Vec<Value>> {
    manifests::objects(&fs::read_to_string(MANIFEST)?).map_err(anyhow::Error::msg)
}

fn of_kind(all: &[Value], kind: &str) -> Result<Value> {
    let found = all.iter().find(|it| it["kind"] == kind);
    found.cloned().with_context(|| format!("there is no {kind}"))
}

/// The pod.
pub(crate) struct PackagedPod<'a> {
    runtime: &'a Containerd,
    root: PathBuf,
    spec: Value,
    sandbox: ById,
    config: PodSandboxConfig,
    settings: PathBuf,
    manifests: PathBuf,
    attempt: u32,
    container: Option<ById>,
}

impl<'a> PackagedPod<'a> {
    /// Makes the pod, with settings in place of the ConfigMap's or beside them, and runs its init
    /// containers.
    pub(crate) fn start(
        runtime: &'a Containerd,
        node: &Node,
        settings: &BTreeMap<String, String>,
    ) -> Result<Self> {
        Self::start_of(runtime, node, settings, &manifest()?)
    }

    /// The same of other objects than the manifest's.
    pub(crate) fn start_of(
        runtime: &'a Containerd,
        node: &Node,
        settings: &BTreeMap<String, String>,
        objects: &[Value],
    ) -> Result<Self> {
        let spec = of_kind(objects, "DaemonSet")?["spec"]["template"]["spec"].take();
        let name = format!("docker.io/library/{}", image_of(&spec["containers"][0])?);
        runtime.import(&made_image(node)?, &name)?;
        let root = node.path("host");
        let config_map = node.path("config-map");
        fs::create_dir_all(&config_map)?;
        let data = of_kind(objects, "ConfigMap")?["data"].take();
        let data: BTreeMap<String, String> = serde_json::from_value(data)?;
        for (key, value) in data.iter().chain(settings) {
            fs::write(config_map.join(key), value)?;
        }
        let all = [&spec["initContainers"], &spec["containers"]];
        let mut all = all.iter().filter_map(|it| it.as_array()).flatten();
        let privileged = all.any(|it| it["securityContext"]["privileged"] == true);
        let (network, pid) = (if spec["hostNetwork"] == true { NODE } else { POD }, CONTAINER);
        let namespaces = NamespaceOption { network, pid, ipc: POD };
        let config = PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: "volvox".into(),
                uid: "uid-of-volvox".into(),
                namespace: "kube-system".into(),
            }),
            log_directory: node.path("pod-logs").display().to_string(),
            linux: Some(LinuxPodSandboxConfig {
                security_context: Some(LinuxSandboxSecurityContext {
                    namespace_options: Some(namespaces),
                    privileged,
                    seccomp: Some(seccomp(&spec["securityContext"], &Value::Null)),
                }),
            }),
        };
        let request = RunPodSandboxRequest { config: Some(config.clone()) };
        let sandbox = runtime.cri.call("RuntimeService/RunPodSandbox", request)?;
        let (attempt, container) = (0, None);
        let pod = Self {
            runtime,
            root,
            spec,
            sandbox,
            config,
            settings: config_map,
            manifests: node.path("manifests"),
            attempt,
            container,
        };
        let init = pod.spec["initContainers"].as_array().cloned().unwrap_or_default();
        init.iter().try_for_each(|container| pod.run_to_end(container))?;
        Ok(pod)
    }

    /// Where a directory of the node is: the lab has its own of some.
    pub(crate) fn on_node(&self, path: &str) -> PathBuf {
        let is_labs = ["/sys/", "/proc/", "/run/", "/var/run/"];
        match is_labs.iter().any(|of| path.starts_with(of)) {
            true => path.into(),
            false => self.root.join(path.trim_start_matches('/')),
        }
    }

    /// Starts the agent, as the first or the next container.
    pub(crate) fn start_agent(&mut self) -> Result<()> {
        let container = self.spec["containers"][0].clone();
        self.container = Some(self.run(&container)?);
        self.attempt += 1;
        Ok(())
    }

    /// Runs the agent's container to remove all that agents left.
    pub(crate) fn uninstall(&self) -> Result<()> {
        let mut container = self.spec["containers"][0].clone();
        container["name"] = "uninstall".into();
        let words = container["args"].as_array_mut().context("no arguments")?;
        words.insert(0, "uninstall".into());
        self.run_to_end(&container)
    }

    /// Runs a command in the agent's container; what it printed if it succeeded.
    pub(crate) fn exec(&self, command: &[&str]) -> Result<String> {
        exec(self.runtime, self.container.as_ref().context("it does not run")?, command)
    }

    /// Number of the agent's process.
    pub(crate) fn pid(&self) -> Result<u64> {
        let (_, info) = self.status(self.container.as_ref().context("it does not run")?)?;
        info["pid"].as_u64().context("a container without a process")
    }

    /// Fails if the agent has ended.
    pub(crate) fn check(&self) -> Result<()> {
        let (status, _) = self.status(self.container.as_ref().context("it does not run")?)?;
        ensure!(status.state == 1, "it ended with {}: {}", status.exit_code, self.log());
        Ok(())
    }

    /// What all of its containers printed.
    pub(crate) fn log(&self) -> String {
        let files = fs::read_dir(&self.config.log_directory).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect()
    }

    fn run_to_end(&self, container: &Value) -> Result<()> {
        let id = self.run(container)?;
        wait_for("the container ends", || Ok(self.status(&id)?.0.state == 2))?;
        let code = self.status(&id)?.0.exit_code;
        ensure!(code == 0, "{} ended with {code}: {}", container["name"], self.log());
        Ok(())
    }

    fn run(&self, container: &Value) -> Result<ById> {
        let name = container["name"].as_str().context("a container without a name")?;
        let words = |list: &str| -> Vec<String> {
            let words = container[list].as_array().into_iter().flatten();
            words.filter_map(|word| word.as_str().map(String::from)).collect()
        };
        let env = container["env"].as_array().into_iter().flatten();
        let envs = env.map(|it| KeyValue {
            key: it["name"].as_str().unwrap_or_default().into(),
            // The only field that is named is the node's name.
            value: it["value"].as_str().unwrap_or(NODE_NAME).into(),
        });
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata { name: name.into(), attempt: self.attempt }),
            image: Some(ImageSpec { image: image_of(container)?.into() }),
            command: words("command"),
            args: words("args"),
            envs: envs.collect(),
            mounts: self.mounts(container)?,
            log_path: format!("{name}-{}.log", self.attempt),
            linux: Some(LinuxContainerConfig {
                security_context: Some(security(&self.spec, &container["securityContext"])),
            }),
        };
        let request = CreateContainerRequest {
            pod: self.sandbox.id.clone(),
            config: Some(config),
            pod_config: Some(self.config.clone()),
        };
        let id: ById = self.runtime.cri.call("RuntimeService/CreateContainer", request)?;
        let _: Empty = self.runtime.cri.call("RuntimeService/StartContainer", id.clone())?;
        Ok(id)
    }

    fn mounts(&self, container: &Value) -> Result<Vec<Mount>> {
        let mut mounts = Vec::new();
        for expected in container["volumeMounts"].as_array().context("no mounts")? {
            let volumes = self.spec["volumes"].as_array().context("no volumes")?;
            let volume = volumes.iter().find(|it| it["name"] == expected["name"]);
            let volume = volume.with_context(|| format!("{expected} has no volume"))?;
            let here = match volume["hostPath"]["path"].as_str() {
                Some(path) => self.on_node(path),
                None => self.settings.clone(),
            };
            if volume["hostPath"]["type"] == "DirectoryOrCreate" {
                fs::create_dir_all(&here)?;
            }
            let propagation = match expected["mountPropagation"].as_str() {
                Some("Bidirectional") => 2,
                Some("HostToContainer") => 1,
                _ => 0,
            };
            let there = expected["mountPath"].as_str().context("a mount without a path")?;
            mounts.push(mount(there, &here, expected["readOnly"] == true, propagation));
        }
        // In place of an API server.
        mounts.push(mount(&self.manifests.display().to_string(), &self.manifests, true, 0));
        Ok(mounts)
    }

    fn status(&self, container: &ById) -> Result<(ContainerStatus, Value)> {
        let request = ContainerStatusRequest { id: container.id.clone(), verbose: true };
        let answer: ContainerStatusResponse =
            self.runtime.cri.call("RuntimeService/ContainerStatus", request)?;
        let info = serde_json::from_str(answer.info.get("info").context("no info")?)?;
        Ok((answer.status.context("no status")?, info))
    }
}

/// The image of a container, by the name in the manifest.
fn image_of(container: &Value) -> Result<&str> {
    container["image"].as_str().context("a container without an image")
}

/// Makes the image of the programs under test, twice: it is the same to the byte.
fn made_image(node: &Node) -> Result<PathBuf> {
    let programs = node.binaries().agent.parent().context("programs without a directory")?;
    let make = |name: &str| -> Result<PathBuf> {
        let file = node.path(name);
        // The least compression: nobody keeps it.
        image::packaged(programs, &["--level", "1"], &file)?;
        Ok(file)
    };
    let (first, second) = (make("image-1.tar")?, make("image-2.tar")?);
    ensure!(fs::read(&first)? == fs::read(&second)?, "two images of the same programs differ");
    fs::remove_file(second)?;
    Ok(first)
}

fn mount(there: &str, here: &Path, readonly: bool, propagation: i32) -> Mount {
    let host_path = here.display().to_string();
    Mount { container_path: there.into(), host_path, readonly, propagation }
}

/// A container's own profile counts before its pod's; without one there is none.
fn seccomp(pod: &Value, container: &Value) -> SecurityProfile {
    let own = &container["seccompProfile"]["type"];
    let kind = if own.is_null() { &pod["seccompProfile"]["type"] } else { own };
    SecurityProfile { profile_type: if *kind == "RuntimeDefault" { 0 } else { 1 } }
}

fn security(pod: &Value, context: &Value) -> LinuxContainerSecurityContext {
    let names = |list: &str| -> Vec<String> {
        let names = context["capabilities"][list].as_array().into_iter().flatten();
        names.filter_map(|name| name.as_str().map(String::from)).collect()
    };
    let privileged = context["privileged"] == true;
    let paths = |all: &[&str]| match privileged {
        true => Vec::new(),
        false => all.iter().map(|path| path.to_string()).collect(),
    };
    LinuxContainerSecurityContext {
        capabilities: Some(Capability { add: names("add"), drop: names("drop") }),
        privileged,
        namespace_options: Some(NamespaceOption {
            network: if pod["hostNetwork"] == true { NODE } else { POD },
            pid: CONTAINER,
            ipc: POD,
        }),
        readonly_rootfs: context["readOnlyRootFilesystem"] == true,
        no_new_privs: context["allowPrivilegeEscalation"] == false,
        masked_paths: paths(&MASKED),
        readonly_paths: paths(&READONLY),
        seccomp: Some(seccomp(&pod["securityContext"], context)),
    }
}
