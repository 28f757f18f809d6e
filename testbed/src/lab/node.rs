//! A node: the lab's own namespace, its directories, and the agent that runs there.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::Value;
use volvox_sim::random::Random;

use super::{Binaries, PATIENCE, Process, Rest, strace};

/// Everything that the lab's node writes is below this, in the lab's own file system; what others
/// write is beside it.
const ROOT: &str = "/run/volvox";
/// Where that one's programs and maps are pinned.
const BPF_ROOT: &str = "/sys/fs/bpf";

/// Enters a group by the file that is named first, and becomes what is named behind it.
const ENTERS: &str = "echo $$ > \"$0\" && exec \"$@\"";

/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// A path below the directory of the lab's own node.
pub fn path(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// A node of the lab. Its agents, plugins and clients run in the namespace of the thread that
/// starts them.
pub struct Node {
    /// What it is called in a cluster, if not as the lab's node is.
    name: Option<String>,
    root: PathBuf,
    bpf_root: PathBuf,
    binaries: Binaries,
    flags: Vec<String>,
    /// Flags with other values than usual.
    settings: BTreeMap<String, String>,
    agent: Option<Process>,
    rest: Rest,
    ipv6: bool,
    /// Where calls are noted, and whether those of every name.
    calls: Option<(PathBuf, bool)>,
    /// Where agents write their log, if not where it usually is.
    log_to: Option<PathBuf>,
    /// The call before which the next agent is killed.
    doom: Option<(String, u32)>,
    /// Variables of agents' environment.
    environment: BTreeMap<String, String>,
    /// Where agents write their number to be in a group of processes.
    door: Option<PathBuf>,
    /// Between two looks at what is waited for.
    pause: Duration,
}

impl Node {
    /// A node without an agent. `binaries` are those of the first agent to be started.
    pub fn new(binaries: Binaries) -> Result<Self> {
        Self::at(binaries, None, ROOT.into(), BPF_ROOT.into())
    }

    /// Another one of that name, to be started in a namespace of its own, with maps and programs of
    /// its own.
    pub fn beside(binaries: Binaries, name: &str) -> Result<Self> {
        let root = PathBuf::from(format!("{ROOT}-{name}"));
        let bpf_root = root.join("bpf");
        fs::create_dir_all(&bpf_root)?;
        mount("bpf", &bpf_root, "bpf", MountFlags::empty(), None)
            .with_context(|| format!("cannot mount a BPF file system at {}", bpf_root.display()))?;
        Self::at(binaries, Some(name.to_owned()), root, bpf_root)
    }

    fn at(
        binaries: Binaries,
        name: Option<String>,
        root: PathBuf,
        bpf_root: PathBuf,
    ) -> Result<Self> {
        let node = Self {
            rest: Rest::new(&root.join("cilium.sock")),
            name,
            root,
            bpf_root,
            binaries,
            flags: Vec::new(),
            settings: BTreeMap::new(),
            agent: None,
            ipv6: true,
            calls: None,
            log_to: None,
            doom: None,
            environment: BTreeMap::new(),
            door: None,
            pause: LOOK,
        };
        for directory in ["cilium", "lib", "manifests", "cni"] {
            fs::create_dir_all(node.path(directory))?;
        }
        Ok(node)
    }

    /// Adds flags for every start of the agent from now on.
    pub fn flags(&mut self, flags: &[&str]) -> &mut Self {
        self.flags.extend(flags.iter().map(|flag| flag.to_string()));
        self
    }

    /// Has agents started from now on run with this value of a flag; `None` is the usual one.
    pub fn set_flag(&mut self, flag: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.settings.insert(flag.to_owned(), value.to_owned()),
            None => self.settings.remove(flag),
        };
        self
    }

    /// Has the next agent killed before its `when`th call of this name, counted in each thread.
    pub fn doom(&mut self, call: &str, when: u32) {
        self.doom = Some((call.to_owned(), when));
    }

    /// Has agents started from now on write their log there; `None` is where it usually is.
    pub fn log_to(&mut self, place: Option<&Path>) {
        self.log_to = place.map(Path::to_owned);
    }

    /// Gives agents started from now on this variable in their environment.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    /// Agents started from now on are in a group of processes from their first moment on; none is in that of
    /// this one.
    pub fn confine(&mut self, door: Option<PathBuf>) {
        self.door = door;
    }

    /// Whether an agent runs.
    pub fn has_agent(&mut self) -> bool {
        self.agent.as_mut().is_some_and(|agent| agent.check().is_ok())
    }

    /// Forgets an agent that has ended, or ends it.
    pub fn bury_agent(&mut self) {
        drop(self.agent.take());
    }

    /// Gives pods no IPv6 addresses.
    pub fn ipv4_only(&mut self) -> &mut Self {
        self.ipv6 = false;
        self
    }

    /// Notes the `bpf(2)` calls of agents started from now on in a file of this name.
    pub fn trace_calls(&mut self, name: &str) -> PathBuf {
        self.calls.insert((self.path(name), false)).0.clone()
    }

    /// The same with the calls of every name.
    pub fn trace_all_calls(&mut self, name: &str) -> PathBuf {
        self.calls.insert((self.path(name), true)).0.clone()
    }

    /// Does not note them any more.
    pub fn trace_no_calls(&mut self) {
        self.calls = None;
    }

    /// Whether pods get IPv6 addresses.
    pub fn has_ipv6(&self) -> bool {
        self.ipv6
    }

    /// A path below the node's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Where programs and maps are pinned.
    pub fn bpf_root(&self) -> &Path {
        &self.bpf_root
    }

    /// The programs in use.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Uses other programs from the next start on.
    pub fn switch_to(&mut self, binaries: Binaries) {
        self.binaries = binaries;
    }

    /// The agent's API.
    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// The agent.
    pub fn agent(&mut self) -> Result<&mut Process> {
        self.agent.as_mut().context("no agent runs")
    }

    /// The flags that every agent of this node is started with.
    pub fn arguments(&self) -> Vec<String> {
        let path = |name: &str| self.path(name).display().to_string();
        let usual = [
            ("state-dir", path("cilium")),
            ("lib-dir", path("lib")),
            ("socket-path", path("cilium.sock")),
            ("bpf-root", self.bpf_root().display().to_string()),
            ("static-cnp-path", path("manifests")),
            ("ipv4-range", "10.11.0.0/16".into()),
            ("ipv6-range", "fd11::/96".into()),
            ("enable-ipv6", self.ipv6.to_string()),
            // A health endpoint is one endpoint and one address more: who tests it says so.
            ("enable-health-checking", "false".into()),
            ("cni-log-file", path("cni.log")),
            ("write-cni-conf-when-ready", path("cni/05-volvox.conflist")),
        ];
        let mut values: BTreeMap<&str, &str> =
            usual.iter().map(|(flag, value)| (*flag, value.as_str())).collect();
        values.extend(self.settings.iter().map(|(flag, value)| (flag.as_str(), value.as_str())));
        let values = values.into_iter().map(|(flag, value)| format!("--{flag}={value}"));
        values.chain(self.flags.iter().cloned()).collect()
    }

    /// Starts the agent, and does not wait for anything.
    pub fn exec_agent(&mut self) -> Result<()> {
        if self.agent.is_some() {
            bail!("an agent runs already");
        }
        let arguments = self.arguments();
        let log = self.log_to.clone().unwrap_or_else(|| self.log());
        let agent = &self.binaries.agent;
        let before = match (self.doom.take(), &self.calls) {
            (Some((call, when)), _) => Some(strace::before_death(&call, when, agent)),
            (None, Some((calls, true))) => Some(strace::before_all(calls, agent)),
            (None, Some((calls, false))) => Some(strace::before(calls, agent)),
            (None, None) => None,
        };
        let mut words = match before {
            None => vec![agent.display().to_string()],
            Some(before) => [vec![strace::PROGRAM.to_owned()], before].concat(),
        };
        if let Some(door) = &self.door {
            let enters = ["sh", "-c", ENTERS, &door.display().to_string()].map(String::from);
            words = [enters.into(), words].concat();
        }
        let mut environment = self.environment.clone();
        let name = self.name.iter().map(|name| ("K8S_NODE_NAME".to_owned(), name.clone()));
        environment.extend(name);
        let (program, before) = words.split_first().expect("the agent is one of them");
        let arguments = [before, &arguments].concat();
        let started = Process::start_with(program.as_ref(), &arguments, &log, &environment)?;
        self.agent = Some(started);
        Ok(())
    }

    /// Starts the agent and waits until its API answers.
    pub fn start_agent(&mut self) -> Result<()> {
        self.exec_agent()?;
        self.wait_for_api().map(drop)
    }

    /// SIGKILL.
    pub fn kill_agent(&mut self) -> Result<()> {
        self.agent.take().context("no agent runs")?.kill()
    }

    /// Kills the agent so many times, and starts it again at once; each lives for a while drawn from
    /// `random`, at most `longest`.
    pub fn kill_again_and_again(
        &mut self,
        times: usize,
        longest: Duration,
        random: &mut Random,
    ) -> Result<()> {
        for _ in 0..times {
            self.kill_agent()?;
            self.exec_agent()?;
            thread::sleep(random.below(longest));
        }
        Ok(())
    }

    /// SIGTERM.
    pub fn stop_agent(&mut self) -> Result<()> {
        self.agent.take().context("no agent runs")?.terminate()
    }

    /// Looks at what is waited for that often; none is as usual.
    pub fn look_every(&mut self, pause: Option<Duration>) {
        self.pause = pause.unwrap_or(LOOK);
    }

    /// Starts an uninstall, by strace if there are arguments for it; the last is the agent.
    pub fn begin_uninstall(&self, before: &[String]) -> Result<Process> {
        let arguments = [before, &["uninstall".to_owned()], &self.arguments()].concat();
        let agent: &Path = &self.binaries.agent;
        let program = if before.is_empty() { agent } else { strace::PROGRAM.as_ref() };
        Process::start(program, &arguments, &self.log())
    }

    /// Removes all that agents left, and what they wrote.
    pub fn uninstall(mut self) -> Result<()> {
        drop(self.agent.take());
        let done =
            Command::new(&self.binaries.agent).arg("uninstall").args(self.arguments()).output()?;
        ensure!(done.status.success(), "uninstall: {done:?}");
        if self.name.is_some() {
            unmount(&self.bpf_root, UnmountFlags::DETACH)?;
        }
        Ok(fs::remove_dir_all(&self.root)?)
    }

    /// Waits until the API answers; since when the agent was started.
    pub fn wait_for_api(&mut self) -> Result<Duration> {
        self.wait("its API does not answer", |node| Ok(node.rest.answers()))
    }

    /// Waits until `count` endpoints are there and all ready; since when the agent was started.
    pub fn wait_for_ready(&mut self, count: usize) -> Result<Duration> {
        let expected = BTreeMap::from([("ready".to_owned(), count)]);
        self.wait("not all endpoints are ready", |node| {
            // A short answer: what is waited for should not be slowed down by the waiting.
            Ok(node
                .rest
                .get("/volvox/endpoint-states")
                .is_ok_and(|states: BTreeMap<_, _>| states == expected))
        })
    }

    /// Waits until it has restored what earlier lives left.
    pub fn wait_until_restored(&mut self) -> Result<()> {
        self.wait("restoring does not end", |node| {
            let report: Value = node.rest().get("/volvox/restore")?;
            Ok(report["finished"] == true)
        })
        .map(drop)
    }

    /// Waits until the agent says this of its store.
    pub fn wait_for_store(&mut self, state: &str) -> Result<()> {
        self.wait(&format!("the agent does not call the store {state}"), |node| {
            let health: Value = node.rest().get("/healthz")?;
            Ok(health["kvstore"]["state"] == state)
        })
        .map(drop)
    }

    /// Waits until its first device runs its programs.
    pub fn wait_for_device(&mut self) -> Result<()> {
        self.wait("its device runs no programs", |node| {
            let devices: Value = node.rest().get("/volvox/devices")?;
            Ok(devices["devices"][0]["attached"] == true)
        })
        .map(drop)
    }

    /// Services that the kernel has as they are desired: their specs, as REST says them.
    pub fn served(&self) -> Result<Vec<Value>> {
        let all: Vec<Value> = self.rest.get("/service")?;
        let specs = all.into_iter().map(|mut it| it["status"]["realized"].take());
        Ok(specs.filter(|spec| !spec.is_null()).collect())
    }

    /// Waits until `count` endpoints are there and all ready, or until the agent has ended: false.
    pub fn ready_or_ended(&mut self, count: usize) -> Result<bool> {
        let ended = |node: &mut Self| Ok::<_, anyhow::Error>(node.agent()?.check().is_err());
        let waited = self.wait_for_ready(count);
        if ended(self)? { Ok(false) } else { waited.map(|_| true) }
    }

    /// Looks until `done`; since when the agent was started. Fails with the end of the agent's log
    /// when the agent dies or patience ends.
    pub fn wait(
        &mut self,
        complaint: &str,
        mut done: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<Duration> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if done(self)? {
                return Ok(self.agent()?.started.elapsed());
            }
            if let Err(error) = self.agent()?.check() {
                bail!("{error}; the end of its log:\n{}", self.log_end());
            }
            if Instant::now() > deadline {
                bail!("after {PATIENCE:?} {complaint}; the end of its log:\n{}", self.log_end());
            }
            thread::sleep(self.pause);
        }
    }

    /// All endpoints as the API lists them.
    pub fn endpoints(&self) -> Result<Vec<Value>> {
        self.rest.get("/endpoint")
    }

    /// Puts a manifest into the directory that the agent watches, in place of one of that name.
    pub fn write_manifest(&self, name: &str, text: &str) -> Result<()> {
        // Written elsewhere and renamed: the agent never sees half of it. A draft of its own for
        // each name: pods are made side by side.
        let draft = self.path(&format!("draft-{name}"));
        let place = self.path("manifests").join(name);
        fs::write(&draft, text)?;
        fs::rename(&draft, &place).with_context(|| format!("cannot write {}", place.display()))
    }

    /// Takes a manifest out of the directory that the agent watches.
    pub fn remove_manifest(&self, name: &str) -> Result<()> {
        let place = self.path("manifests").join(name);
        fs::remove_file(&place).with_context(|| format!("cannot remove {}", place.display()))
    }

    /// What the agents of this node printed.
    pub fn log(&self) -> PathBuf {
        self.path("agent.log")
    }

    /// The last lines of it.
    pub fn log_end(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}
