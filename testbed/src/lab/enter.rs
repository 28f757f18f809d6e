//! Going into the lab: this program, started again as the first process of new namespaces.
//!
//! The outer process waits. When it dies, even by SIGKILL, the kernel kills the inner one
//! (`PR_SET_PDEATHSIG`), with it everything in its process namespace, and with the last process
//! the namespaces, their interfaces and their mounts.

use std::{
    env,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context, Result, bail, ensure};
use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    process::{Signal, set_parent_process_death_signal},
    thread::UnshareFlags,
};

use super::{sys, watchdog};

/// Tells the inner process that it is in the lab, and which process waits for it outside.
pub(super) const OUTSIDE: &str = "VOLVOX_LAB_OUTSIDE";

/// What a node of the lab is called in a cluster.
pub const NODE_NAME: &str = "lab-node";

/// Exit code of a test whose body ran and passed. Not 0: a test program that is told a name it
/// does not know runs nothing and ends with 0.
const PASSED: i32 = 77;

/// Whether this process runs in the lab.
pub fn is_inside() -> bool {
    env::var_os(OUTSIDE).is_some()
}

/// The absolute path of a file that is the same within the lab; fails where the lab has its own.
pub fn seen_inside(file: &Path) -> Result<PathBuf> {
    let place = std::path::absolute(file)?;
    let own = ["/run", "/proc", "/sys"].iter().find(|own| place.starts_with(own));
    ensure!(
        own.is_none(),
        "{} is below {}, which the lab has for itself: take another place",
        place.display(),
        own.unwrap_or(&"")
    );
    Ok(place)
}

/// Runs a program with arguments within the lab; fails unless it succeeds.
pub fn command(words: &[String]) -> Result<()> {
    let (program, arguments) = words.split_first().context("no program is named")?;
    let status = Command::new(program).args(arguments).status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} ended with {status}");
    Ok(())
}

/// Runs `body` in the lab and returns the exit code: outside, that of the same command started
/// again within new namespaces; inside, that of `body`.
pub fn inside(body: impl FnOnce() -> Result<()>) -> Result<i32> {
    if is_inside() {
        prepare()?;
        body()?;
        return Ok(0);
    }
    let arguments = env::args_os().skip(1).collect();
    let status = again(arguments, Command::status)?;
    Ok(status.code().unwrap_or(1))
}

/// Runs `body` of the test called `name` in a lab of its own.
///
/// `name` is the whole path of the test function: the test program is started again to run just
/// this one inside.
///
/// # Panics
/// When the body fails, or when the lab cannot be made: without root, a test has not passed.
pub fn test(name: &str, body: impl FnOnce() -> Result<()>) {
    let outcome = if is_inside() {
        watchdog::start(name);
        prepare().and_then(|()| body()).map(|()| std::process::exit(PASSED))
    } else {
        let arguments = [name, "--exact", "--nocapture"].map(Into::into).into();
        again(arguments, Command::output).and_then(|output| match output.status.code() {
            Some(PASSED) => Ok(()),
            Some(0) => bail!("the test program knows no test of this name"),
            _ => {
                let printed = [output.stdout, output.stderr].concat();
                bail!("in the lab: {}\n{}", output.status, reason_first(&printed))
            }
        })
    };
    if let Err(error) = outcome {
        panic!("{name}: {error:#}");
    }
}

/// What a test printed, with the reason of its failure before everything else: long logs are cut.
fn reason_first(printed: &[u8]) -> String {
    let printed = String::from_utf8_lossy(printed);
    let reason = printed.lines().skip_while(|line| !line.contains("panicked at")).take(4);
    format!("{}\n\n{printed}", reason.collect::<Vec<_>>().join("\n"))
}

/// Starts this program again in new namespaces, and waits for it as `run` does.
///
/// # Panics
/// If `run` does.
pub fn again<T: Send + 'static>(
    arguments: Vec<OsString>,
    run: impl FnOnce(&mut Command) -> io::Result<T> + Send + 'static,
) -> Result<T> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the lab needs root for its namespaces: run it by sudo, or through testbed/test"
    );
    let program = env::current_exe().context("cannot find this program")?;
    // A thread of its own, because its namespaces change; it stays until the child has ended, as
    // the death of the thread, not of the process, is what the kernel tells the child.
    thread::spawn(move || {
        sys::unshare(UnshareFlags::NEWNET | UnshareFlags::NEWNS | UnshareFlags::NEWPID)
            .context("cannot make namespaces")?;
        let mut command = Command::new(program);
        command.args(arguments).env(OUTSIDE, std::process::id().to_string());
        command.env("K8S_NODE_NAME", NODE_NAME);
        run(&mut command).context("cannot start this program again")
    })
    .join()
    .expect("the thread does not panic")
}

/// First steps inside: die with the outer process; own mounts.
fn prepare() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let outside = env::var(OUTSIDE).context("not in the lab")?;
    if !rustix::process::getpid().is_init() || !Path::new("/proc").join(&outside).exists() {
        bail!("{OUTSIDE} is set but this is no lab, or its outer process {outside} is gone");
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).context("cannot make the mounts private")?;
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("bpf", "/sys/fs/bpf")] {
        mount_fresh(kind, target)?;
    }
    mount_fresh("tmpfs", "/run")?;
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
    Ok(())
}

fn mount_fresh(kind: &str, target: &str) -> Result<()> {
    mount(kind, target, kind, MountFlags::NOSUID | MountFlags::NODEV, None)
        .with_context(|| format!("cannot mount {kind} at {target}"))
}
