//! A cluster of Kubernetes itself: etcd, the API server, its controllers, the scheduler, and machines with
//! containerd and kubelets.

mod groups;
mod images;
mod machine;

use std::{
    fs,
    io::Write,
    net::Ipv4Addr,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{ApiServer, Binaries, Etcd, Netns, Process, api_server, ip, programs, wait_for};
use images::Images;
pub use machine::Machine;

/// Connects the machines.
const BRIDGE: &str = "cluster";
/// Where machines reach the control plane, and the way out of their network.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);

/// The cluster. Dropped, all of it is gone.
pub struct Kubernetes {
    /// The machines, from `n1` on.
    pub machines: Vec<Machine>,
    /// Where objects are kept.
    pub etcd: Etcd,
    /// The API server.
    pub server: ApiServer,
    /// Somebody on the machines' network who has nothing to do with the cluster.
    pub outside: Netns,
    controllers: Option<Process>,
    scheduler: Option<Process>,
    place: PathBuf,
}

/// A part of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Where the API server keeps its objects.
    Etcd,
    /// The API server.
    Server,
    /// What makes pods of Deployments, and the like.
    Controllers,
    /// What says where pods run.
    Scheduler,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Etcd, Self::Server, Self::Controllers, Self::Scheduler];
}

impl Kubernetes {
    /// Starts a control plane and as many bare machines, and waits until their Nodes are there; `None`,
    /// and loud words, if the programs are missing.
    pub fn start(machines: u8) -> Result<Option<Self>> {
        let programs = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"];
        let [Some(program), Some(_), Some(_), Some(_)] = programs.map(programs::find) else {
            return Ok(None);
        };
        if Command::new("kubectl").arg("help").output().is_err() {
            volvox_system::complain!("SKIPPED: no kubectl: install the package kubernetes-client");
            return Ok(None);
        }
        ip(&format!("link add {BRIDGE} type bridge"))?;
        ip(&format!("addr add {ADDRESS}/24 dev {BRIDGE}"))?;
        ip(&format!("link set {BRIDGE} up"))?;
        let place = PathBuf::from("/run/kubernetes");
        fs::create_dir_all(&place)?;
        let etcd = Etcd::start_for_kubernetes(&place.join("etcd"))?;
        let server =
            ApiServer::start_for_nodes(program, &place.join("api"), &etcd, ADDRESS.into())?;
        let mut cluster = Self {
            machines: Vec::new(),
            etcd,
            server,
            outside: outside()?,
            controllers: None,
            scheduler: None,
            place,
        };
        cluster.start_again(Part::Controllers)?;
        cluster.start_again(Part::Scheduler)?;
        let images = Images::make(&cluster.place)?;
        for number in 1..=machines {
            let kubeconfig = cluster.server.kubeconfig_of(&format!("n{number}"));
            let kubeconfig = fs::read_to_string(kubeconfig)?;
            let certificate = cluster.server.certificate();
            let machine = Machine::start(number, BRIDGE, &images, &kubeconfig, &certificate)?;
            cluster.machines.push(machine);
        }
        for Machine { name, .. } in &cluster.machines {
            wait_for("the kubelet registers its Node", || {
                Ok(cluster.server.client().get(&format!("/api/v1/nodes/{name}")).is_ok())
            })
            .with_context(|| cluster.logs())?;
        }
        Ok(Some(cluster))
    }

    /// SIGKILL.
    pub fn kill(&mut self, part: Part) -> Result<()> {
        let process = match part {
            Part::Etcd => return self.etcd.kill(),
            Part::Server => return self.server.kill(),
            Part::Controllers => &mut self.controllers,
            Part::Scheduler => &mut self.scheduler,
        };
        process.take().context("it does not run")?.kill()
    }

    /// Starts it after a [`Kubernetes::kill`].
    pub fn start_again(&mut self, part: Part) -> Result<()> {
        let file = |path: PathBuf| path.display().to_string();
        match part {
            Part::Etcd => self.etcd.start_again(),
            Part::Server => self.server.start_again(),
            Part::Controllers => {
                let words = [
                    format!(
                        "--service-account-private-key-file={}",
                        file(self.server.accounts_key())
                    ),
                    format!("--root-ca-file={}", file(self.server.certificate())),
                    format!("--feature-gates={}", api_server::FEATURES),
                    "--use-service-account-credentials=true".into(),
                    "--allocate-node-cidrs=true".into(),
                    "--cluster-cidr=10.244.0.0/16".into(),
                    // In a lab a machine that is off is noticed sooner than in 40 s, and one that is busy is
                    // not taken for it.
                    "--node-monitor-grace-period=30s".into(),
                    "--node-monitor-period=1s".into(),
                    "--pod-eviction-timeout=5s".into(),
                ];
                self.controllers = Some(self.follower("kube-controller-manager", &words)?);
                Ok(())
            }
            Part::Scheduler => {
                self.scheduler = Some(self.follower("kube-scheduler", &[])?);
                Ok(())
            }
        }
    }

    /// Starts a program of the control plane that follows the API server.
    fn follower(&self, name: &str, words: &[String]) -> Result<Process> {
        let program = programs::find(name).with_context(|| format!("no {name}"))?;
        let kubeconfig = self.server.kubeconfig_of(name);
        let own = [
            format!("--kubeconfig={}", kubeconfig.display()),
            "--bind-address=127.0.0.1".into(),
            "--leader-elect=false".into(),
        ];
        let words = [words, own.as_slice()].concat();
        Process::start(&program, &words, &self.place.join(format!("{name}.log")))
    }

    /// Which kubeconfig people use.
    pub fn kubeconfig(&self) -> PathBuf {
        self.server.kubeconfig_of("lab")
    }

    /// What kubectl answers; fails unless it succeeds.
    pub fn kubectl(&self, words: &str) -> Result<String> {
        self.kubectl_words(&words.split(' ').collect::<Vec<_>>(), None)
    }

    /// Has kubectl apply objects.
    pub fn apply(&self, objects: &[Value]) -> Result<()> {
        let text: Vec<String> = objects.iter().map(Value::to_string).collect();
        self.kubectl_words(&["apply", "-f", "-"], Some(&text.join("\n---\n"))).map(drop)
    }

    /// Runs a command in a pod; what it printed.
    pub fn exec(&self, pod: &str, words: &[&str]) -> Result<String> {
        self.kubectl_words(&[&["exec", pod, "--"], words].concat(), None)
    }

    /// The same as [`Kubernetes::kubectl`] with words that have spaces, and something to read.
    pub fn kubectl_words(&self, words: &[&str], input: Option<&str>) -> Result<String> {
        let mut command = Command::new("kubectl");
        command.args(words).env("KUBECONFIG", self.kubeconfig());
        finished(&mut command, input)
    }

    /// What `volvox` answers, as people run it beside their kubeconfig; fails unless it succeeds.
    pub fn volvox(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(Binaries::find()?.client);
        command.args(words).env("KUBECONFIG", self.kubeconfig());
        finished(&mut command, None)
    }

    /// What `volvox` answers on that machine, in the agent's container.
    pub fn volvox_on(&self, machine: &str, words: &str) -> Result<String> {
        let selected = format!("--field-selector=spec.nodeName={machine}");
        let pod = self.kubectl_words(
            &["-n", "kube-system", "get", "pod", "-l", "k8s-app=volvox", &selected, "-o", "name"],
            None,
        )?;
        let pod = pod.lines().next().with_context(|| format!("no agent on {machine}"))?.to_owned();
        let head = ["-n", "kube-system", "exec", &pod, "-c", "agent", "--", "volvox"];
        let words: Vec<&str> = head.into_iter().chain(words.split(' ')).collect();
        self.kubectl_words(&words, None)
    }

    /// The machine of that name.
    pub fn machine(&mut self, name: &str) -> Result<&mut Machine> {
        let found = self.machines.iter_mut().find(|machine| machine.name == name);
        found.with_context(|| format!("no machine {name}"))
    }

    /// Switches a machine on again.
    pub fn switch_on(&mut self, name: &str) -> Result<()> {
        self.machine(name)?.switch_on(BRIDGE)
    }

    /// The end of what its parts printed.
    pub fn logs(&self) -> String {
        let end = |name: &str| {
            let text = fs::read_to_string(self.place.join(name)).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            format!("{name}:\n{}\n", lines[lines.len().saturating_sub(10)..].join("\n"))
        };
        let parts = ["kube-controller-manager.log", "kube-scheduler.log"].map(end).concat();
        let machines = self.machines.iter().map(|it| format!("{}: {}", it.name, it.logs()));
        parts + &machines.collect::<String>()
    }
}

/// Connects somebody to the machines' network.
fn outside() -> Result<Netns> {
    let netns = Netns::create("outside")?;
    for words in [
        "link add outside type veth peer name eth0 netns outside".to_owned(),
        format!("link set outside master {BRIDGE} up"),
        "-n outside link set lo up".to_owned(),
        "-n outside addr add 192.0.2.200/24 dev eth0".to_owned(),
        "-n outside link set eth0 up".to_owned(),
    ] {
        ip(&words)?;
    }
    Ok(netns)
}

/// What a command printed that was given this to read.
fn finished(command: &mut Command, input: Option<&str>) -> Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => bail!("cannot start {:?}: {error}", command.get_program()),
    };
    let mut pipe = child.stdin.take().context("no pipe")?;
    pipe.write_all(input.unwrap_or_default().as_bytes())?;
    drop(pipe);
    let ran = child.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&ran.stderr);
    let printed = String::from_utf8_lossy(&ran.stdout);
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    ensure!(ran.status.success(), "{}: {complaint}{printed}", words.join(" "));
    Ok(printed.into_owned())
}
