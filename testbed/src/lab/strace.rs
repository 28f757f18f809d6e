//! What an agent really asks of the kernel, as strace sees it: no word of the agent's own. And
//! what strace does to it: death or an error at a certain call.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::wait_for;

/// The program.
pub(super) const PROGRAM: &str = "strace";

/// Arguments in front of the agent's. With `-D` the agent is the child, strace its grandchild: a
/// signal reaches the agent.
pub(super) fn before(calls: &Path, agent: &Path) -> Vec<String> {
    let (calls, agent) = (calls.display().to_string(), agent.display().to_string());
    ["-D", "-f", "-qq", "-e", "trace=bpf", "-e", "signal=none", "-o", &calls, &agent]
        .map(String::from)
        .into()
}

/// The same for every call of any name; the file says how threads end, too.
pub fn before_all(calls: &Path, agent: &Path) -> Vec<String> {
    let (calls, agent) = (calls.display().to_string(), agent.display().to_string());
    ["-D", "-f", "-o", &calls, &agent].map(String::from).into()
}

/// The same for an agent that is killed before its `when`th call of this name, counted in each
/// thread.
pub fn before_death(call: &str, when: u32, agent: &Path) -> Vec<String> {
    let inject = format!("inject={call}:signal=KILL:when={when}");
    let trace = format!("trace={call}");
    let agent = agent.display().to_string();
    ["-D", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject, &agent]
        .map(String::from)
        .into()
}

/// A strace that watches a process and does something to it. Dropped, it lets go.
///
/// A call that is struck while strace ends may still be struck: whether the process lives is known
/// once this is dropped, and not before.
#[derive(Debug)]
pub struct Injection(Child);

/// How long strace may take to let go of a process.
const LETS_GO: Duration = Duration::from_secs(3);

impl Injection {
    /// Does `effect` to calls of this name, `signal=KILL:when=3` for instance; calls are counted in
    /// each thread. Returns once every thread is watched.
    pub fn attach(pid: u32, call: &str, effect: &str) -> Result<Self> {
        let child = Command::new(PROGRAM)
            .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e"])
            .args([format!("inject={call}:{effect}"), "-p".into(), pid.to_string()])
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start strace")?;
        let mut injection = Self(child);
        injection.wait_until_watched(pid)?;
        Ok(injection)
    }

    /// Does nothing but note all calls in a file, which is whole when this is dropped.
    pub fn note(pid: u32, file: &Path) -> Result<Self> {
        let output = file.display().to_string();
        let child = Command::new(PROGRAM)
            .args(["-f", "-qq", "-e", "signal=none", "-o", &output, "-p", &pid.to_string()])
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start strace")?;
        let mut strace = Self(child);
        strace.wait_until_watched(pid)?;
        Ok(strace)
    }

    fn wait_until_watched(&mut self, pid: u32) -> Result<()> {
        wait_for("strace watches the agent", || {
            if let Some(status) = self.0.try_wait()? {
                bail!("strace ended with {status}");
            }
            is_watched(pid)
        })
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        // It may have ended with whom it watched.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let deadline = Instant::now() + LETS_GO;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        // A strace that is told to end while it kills a process waits for it for ever: the dead
        // threads wait for strace.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether every thread of the process has a tracer.
fn is_watched(pid: u32) -> Result<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // One that has ended meanwhile need not be watched.
        let status = fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
        if status.lines().any(|line| line == "TracerPid:\t0") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Calls of `bpf(2)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// How many pins were opened.
    pub opened: u64,
    /// Those that change something in the kernel, but for who hears its signals: command, and the map
    /// if it is one that was opened by its pin, and how often.
    pub writes: BTreeMap<(String, String), u64>,
    /// How many there were in the thread that had most.
    pub most_in_a_thread: u32,
}

/// Each reader puts its own rings there.
const SIGNALS: &str = "cilium_signals";

/// Commands that write; reads and openings are left out.
const WRITES: [&str; 10] = [
    "BPF_LINK_CREATE",
    "BPF_LINK_DETACH",
    "BPF_LINK_UPDATE",
    "BPF_MAP_CREATE",
    "BPF_MAP_DELETE_BATCH",
    "BPF_MAP_DELETE_ELEM",
    "BPF_MAP_UPDATE_BATCH",
    "BPF_MAP_UPDATE_ELEM",
    "BPF_OBJ_PIN",
    "BPF_PROG_LOAD",
];

impl Calls {
    /// Reads what strace wrote.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file)
            .with_context(|| format!("cannot read {}: is strace installed?", file.display()))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut calls = Self::default();
        let mut opened = BTreeMap::new();
        let mut threads: BTreeMap<&str, u32> = BTreeMap::new();
        // Pins that threads are about to open: another thread's call may end first.
        let mut opening: BTreeMap<&str, String> = BTreeMap::new();
        for line in text.lines() {
            if let Some((thread, end)) = line.split_once("<... bpf resumed>") {
                let pin = opening.remove(thread.trim());
                if let (Some(pin), Some((_, number))) = (pin, end.rsplit_once("= ")) {
                    opened.insert(number.to_owned(), pin);
                }
                continue;
            }
            let Some((thread, call)) = line.split_once("bpf(") else { continue };
            let count = threads.entry(thread.trim()).or_default();
            *count += 1;
            calls.most_in_a_thread = calls.most_in_a_thread.max(*count);
            let command = call.split([',', ')']).next().unwrap_or_default();
            if command == "BPF_OBJ_GET" {
                calls.opened += 1;
                let pin = between(call, "pathname=\"", "\"").and_then(|pin| pin.rsplit('/').next());
                match (pin, call.rsplit_once("= ")) {
                    (Some(pin), _) if call.ends_with("<unfinished ...>") => {
                        opening.insert(thread.trim(), pin.to_owned());
                    }
                    (Some(pin), Some((_, number))) => {
                        opened.insert(number.to_owned(), pin.to_owned());
                    }
                    _ => {}
                }
            } else if WRITES.contains(&command) {
                let number = between(call, "map_fd=", ",").unwrap_or_default();
                let map = opened.get(number).cloned().unwrap_or_default();
                if map != SIGNALS {
                    *calls.writes.entry((command.to_owned(), map)).or_default() += 1;
                }
            }
        }
        calls
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split(after).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_map_that_is_written() {
        let calls = Calls::parse(
            "7 bpf(BPF_OBJ_GET, {pathname=\"/b/tc/globals/cilium_lxc\", bpf_fd=0}, 16) = 5\n\
             8 bpf(BPF_MAP_LOOKUP_ELEM, {map_fd=5, key=0x1, value=0x2}, 32) = 0\n\
             8 bpf(BPF_MAP_UPDATE_ELEM, {map_fd=5, key=0x1, value=0x2}, 32) = 0\n\
             8 bpf(BPF_OBJ_GET, {pathname=\"/b/tc/globals/cilium_signals\", bpf_fd=0}, 16) = 6\n\
             8 bpf(BPF_MAP_UPDATE_ELEM, {map_fd=6, key=0x1, value=0x2}, 32) = 0\n\
             7 bpf(BPF_PROG_LOAD, {prog_type=3}, 148) = 9\n",
        );
        let write = |command: &str, map: &str| ((command.to_owned(), map.to_owned()), 1);
        let expected = [write("BPF_MAP_UPDATE_ELEM", "cilium_lxc"), write("BPF_PROG_LOAD", "")];
        assert_eq!(calls, Calls { opened: 2, writes: expected.into(), most_in_a_thread: 4 });
    }

    #[test]
    fn a_call_that_another_thread_cuts_in_two_is_one() {
        let calls = Calls::parse(
            "7 bpf(BPF_OBJ_GET, {pathname=\"/b/tc/globals/cilium_signals\", bpf_fd=0}, 152 <unfinished ...>\n\
             8 bpf(BPF_OBJ_GET, {pathname=\"/b/tc/globals/cilium_lxc\", bpf_fd=0}, 16 <unfinished ...>\n\
             7 <... bpf resumed>)                = 76\n\
             7 bpf(BPF_MAP_UPDATE_ELEM, {map_fd=76, key=0x1, value=0x2, flags=BPF_ANY}, 152 <unfinished ...>\n\
             8 <... bpf resumed>)                = 75\n\
             7 <... bpf resumed>)                = 0\n\
             8 bpf(BPF_MAP_UPDATE_ELEM, {map_fd=75, key=0x1, value=0x2, flags=BPF_ANY}, 32) = 0\n",
        );
        let write = (("BPF_MAP_UPDATE_ELEM".to_owned(), "cilium_lxc".to_owned()), 1);
        let expected = Calls { opened: 2, writes: [write].into(), most_in_a_thread: 2 };
        assert_eq!(calls, expected);
    }
}
