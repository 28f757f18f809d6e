//! What an agent needs of its machine, and has too little of: processor, memory, files, threads, the right time.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Resource as Limit, Rlimit, prlimit};

use super::World;
use crate::{
    chaos::{
        faults::{Clock, Fault, Resource},
        history::History,
    },
    lab::{Confinement, Controller, Injection, Node, Signal},
};

/// Calls that make safe what was written.
const SAFE: &str = "fsync,fdatasync";
/// How long they take on a slow disk, microseconds.
const SLOW: &str = "delay_enter=200000";
/// The library that has clocks say something else, where distributions put it.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// What holds the agents of a history back.
#[derive(Default)]
pub(super) struct Scarcity {
    memory: Option<Confinement>,
    threads: Option<Confinement>,
    /// What slows down the calls of the agent that runs.
    pub(super) slow: Option<Injection>,
    /// What its limit of descriptors was.
    descriptors: Option<Rlimit>,
    /// The file that says what time it is.
    clock: Option<PathBuf>,
}

/// What of a machine histories need for their faults, each with what to do where it is missing.
pub(in crate::chaos) fn missing(history: &History) -> Option<String> {
    let controllers = controllers(history);
    if let Some(controller) = controllers.iter().find(|it| !it.is_possible()) {
        let what = if *controller == Controller::Memory { "memory" } else { "threads" };
        return Some(format!(
            "this machine's cgroups do not let one of its own limit {what}: it needs cgroups of \
             version 1, or a group whose controllers are delegated"
        ));
    }
    let has_clock = history.faults().any(|it| matches!(it, Fault::Clock(_)));
    (has_clock && library().is_none())
        .then(|| "no clock can be changed here: install the package faketime".to_owned())
}

/// What a history limits.
pub(in crate::chaos) fn controllers(history: &History) -> Vec<Controller> {
    let has = |wanted: fn(&Fault) -> bool| history.faults().any(wanted);
    let memory = has(|it| matches!(it, Fault::Memory(_))).then_some(Controller::Memory);
    let threads =
        has(|it| matches!(it, Fault::Taken(Resource::Threads))).then_some(Controller::Threads);
    memory.into_iter().chain(threads).collect()
}

fn library() -> Option<&'static Path> {
    LIBRARIES.iter().map(Path::new).find(|path| path.exists())
}

impl Scarcity {
    /// Before the first agent: what a history needs is made.
    pub(super) fn prepare(history: &History, node: &mut Node) -> Result<Self> {
        let mut scarcity = Self::default();
        let place = node.path("groups");
        for controller in controllers(history) {
            let group = Confinement::create(controller, &place)?;
            match controller {
                Controller::Memory => {
                    node.confine(Some(group.door()));
                    scarcity.memory = Some(group);
                }
                Controller::Threads => scarcity.threads = Some(group),
            }
        }
        if history.faults().any(|it| matches!(it, Fault::Clock(_))) {
            let library = library().context("install the package faketime")?;
            let file = node.path("time");
            fs::write(&file, "+0")?;
            let variables = [
                ("LD_PRELOAD", library.display().to_string()),
                ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
                // Seconds until it looks again.
                ("FAKETIME_CACHE_DURATION", "1".into()),
                // Timers go on as they would.
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
                ("DONT_FAKE_MONOTONIC", "1".into()),
                ("FAKETIME_DISABLE_SHM", "1".into()),
            ];
            variables.iter().for_each(|(name, value)| node.set_variable(name, value));
            scarcity.clock = Some(file);
        }
        Ok(scarcity)
    }
}

impl World<'_> {
    /// Takes something from the agent that runs.
    pub(super) fn take(&mut self, resource: Resource) -> Result<()> {
        let pid = self.node.agent()?.pid();
        match resource {
            Resource::Processor => self.node.agent()?.signal(Signal::STOP),
            Resource::Descriptors => {
                let (process, usual) = (process(pid)?, limit_of(pid)?);
                let open = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
                let limit = Rlimit { current: Some(open), maximum: usual.maximum };
                prlimit(Some(process), Limit::Nofile, limit)?;
                self.around.scarcity.descriptors = Some(usual);
                Ok(())
            }
            Resource::Threads => {
                let group = self.around.scarcity.threads.as_ref().context("no group")?;
                group.take_in(pid)?;
                group.limit(Some(group.used()?))
            }
        }
    }

    /// Gives it back.
    pub(super) fn give_back(&mut self, resource: Resource) -> Result<()> {
        match resource {
            Resource::Processor if self.node.has_agent() => self.node.agent()?.signal(Signal::CONT),
            Resource::Descriptors => {
                let usual = self.around.scarcity.descriptors.take();
                if let Some(usual) = usual.filter(|_| self.node.has_agent()) {
                    let process = process(self.node.agent()?.pid())?;
                    prlimit(Some(process), Limit::Nofile, usual)?;
                }
                Ok(())
            }
            Resource::Threads => {
                let group = self.around.scarcity.threads.as_ref();
                group.map_or(Ok(()), |group| group.limit(None))
            }
            Resource::Processor => Ok(()),
        }
    }

    /// Agents have so much memory, beside what the kernel keeps of those before.
    pub(super) fn limit_memory(&self, limit: Option<u64>) -> Result<()> {
        let Some(group) = &self.around.scarcity.memory else { return Ok(()) };
        let kept = group.used()?;
        group.limit(limit.map(|limit| kept + limit))
    }

    /// Agents' clock on the wall says so, at once.
    pub(super) fn set_clock(&self, clock: Clock) -> Result<()> {
        let Some(file) = &self.around.scarcity.clock else { return Ok(()) };
        let seconds = |time: Duration| time.as_secs();
        let text = match clock {
            Clock::Ahead(time) => format!("+{}", seconds(time)),
            Clock::Back(time) => format!("-{}", seconds(time)),
            Clock::Well => "+0".to_owned(),
        };
        fs::write(file, text).with_context(|| file.display().to_string())
    }

    /// What the agent that runs writes takes long to be safe.
    pub(super) fn slow_down_the_disk(&mut self) -> Result<()> {
        ensure!(self.doom.is_none(), "somebody holds the agent that runs already");
        let pid = self.node.agent()?.pid();
        self.around.scarcity.slow = Some(Injection::attach(pid, SAFE, SLOW)?);
        Ok(())
    }

    /// The agent that ran is gone, and with it what was done to it alone.
    pub(super) fn forget_scarcity(&mut self) {
        self.around.scarcity.slow = None;
        self.around.scarcity.descriptors = None;
        if let Some(group) = &self.around.scarcity.threads {
            let _ = group.limit(None);
        }
    }

    /// There is enough of everything.
    pub(super) fn end_scarcity(&mut self) -> Result<()> {
        self.around.scarcity.slow = None;
        Resource::ALL.into_iter().try_for_each(|resource| self.give_back(resource))?;
        self.limit_memory(None)?;
        self.set_clock(Clock::Well)
    }
}

fn process(pid: u32) -> Result<Pid> {
    Pid::from_raw(pid.try_into()?).context("a process has a number")
}

/// What a process may open now.
fn limit_of(pid: u32) -> Result<Rlimit> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits"))?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let mut numbers = line.context("no limit of files")?.split_whitespace().skip(3);
    let mut number = || numbers.next().and_then(|it| it.parse().ok());
    Ok(Rlimit { current: number(), maximum: number() })
}
