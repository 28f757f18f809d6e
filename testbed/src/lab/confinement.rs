//! A cgroup of the lab's own in which agents have too little of something. The machine's other groups are not
//! touched; the group goes with the lab, whatever ends that.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, mount};

use super::{enter::OUTSIDE, wait_for};

/// What a cgroup can limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Memory of processes and of what the kernel has for them.
    Memory,
    /// How many threads there are.
    Threads,
}

/// Whoever sees cgroups of both versions has one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A group. Dropped, it is removed.
#[derive(Debug)]
pub struct Confinement {
    path: PathBuf,
    controller: Controller,
    version: Version,
}

impl Controller {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Threads => "pids",
        }
    }

    /// Which version has it here, and this process's own group there, without the leading slash.
    fn own(self) -> Result<(Version, String)> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let of = |wanted: &dyn Fn(&str) -> bool| {
            groups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (controllers, path) = (parts.next()?, parts.next()?);
                wanted(controllers).then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let first = of(&|controllers| controllers.split(',').any(|it| it == self.name()));
        match (first, of(&|controllers| controllers.is_empty())) {
            (Some(path), _) => Ok((Version::One, path)),
            (None, Some(path)) => Ok((Version::Two, path)),
            (None, None) => anyhow::bail!("this machine has no cgroups"),
        }
    }

    /// Whether groups of this machine can limit it.
    pub fn is_possible(self) -> bool {
        // What can be tried outside of the lab can be done in it.
        self.try_outside().is_ok()
    }

    fn try_outside(self) -> Result<()> {
        let (version, own) = self.own()?;
        let root = mounted(version, self).context("its cgroups are not mounted")?;
        let path = root.join(own).join(format!("volvox-try-{}", std::process::id()));
        fs::create_dir(&path)?;
        let there = path.join(file(version, self)).exists();
        fs::remove_dir(&path)?;
        ensure!(there, "a group of its own limits nothing");
        Ok(())
    }
}

/// Where the machine has a hierarchy mounted.
fn mounted(version: Version, controller: Controller) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
        let is_it = match version {
            Version::One => {
                kind == "cgroup" && options.split(',').any(|it| it == controller.name())
            }
            Version::Two => kind == "cgroup2",
        };
        is_it.then(|| place.into())
    })
}

/// The file of the limit.
fn file(version: Version, controller: Controller) -> &'static str {
    match (version, controller) {
        (Version::One, Controller::Memory) => "memory.limit_in_bytes",
        (Version::Two, Controller::Memory) => "memory.max",
        (_, Controller::Threads) => "pids.max",
    }
}

/// What groups of a lab are called: by the process that waits for it outside.
fn name(outside: &str) -> String {
    format!("volvox-confined-{outside}")
}

impl Confinement {
    /// Makes a group within the lab; its hierarchy is seen below `place`.
    pub fn create(controller: Controller, place: &Path) -> Result<Self> {
        let (version, own) = controller.own()?;
        let place = place.join(controller.name());
        fs::create_dir_all(&place)?;
        let mounted = match version {
            Version::One => {
                let options = std::ffi::CString::new(controller.name())?;
                mount("none", &place, "cgroup", MountFlags::empty(), Some(&*options))
            }
            Version::Two => mount("none", &place, "cgroup2", MountFlags::empty(), None),
        };
        mounted.with_context(|| format!("cannot mount cgroups of {}", controller.name()))?;
        let outside = env::var(OUTSIDE).context("not in the lab")?;
        let path = place.join(own).join(name(&outside));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let made = Self { path, controller, version };
        ensure!(
            made.path.join(file(version, controller)).exists(),
            "a cgroup of its own limits no {} here",
            controller.name()
        );
        Ok(made)
    }

    /// The file into which a process writes its number to be in it.
    pub fn door(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Puts a process into it, with all its threads.
    pub fn take_in(&self, pid: u32) -> Result<()> {
        fs::write(self.door(), pid.to_string()).context("the process cannot be confined")
    }

    /// Limits it; none is as much as there is.
    pub fn limit(&self, limit: Option<u64>) -> Result<()> {
        let none = if (self.version, self.controller) == (Version::One, Controller::Memory) {
            "-1"
        } else {
            "max"
        };
        let text = limit.map_or_else(|| none.to_owned(), |it| it.to_string());
        let path = self.path.join(file(self.version, self.controller));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// How much of it there is now: threads, or bytes. Of memory that is what the kernel keeps for maps that are
    /// pinned, too, where nobody is in the group any more.
    pub fn used(&self) -> Result<u64> {
        let file = match (self.version, self.controller) {
            (Version::One, Controller::Memory) => "memory.usage_in_bytes",
            (Version::Two, Controller::Memory) => "memory.current",
            (_, Controller::Threads) => "pids.current",
        };
        Ok(fs::read_to_string(self.path.join(file))?.trim().parse()?)
    }
}

impl Drop for Confinement {
    fn drop(&mut self) {
        // Who ended a moment ago may be in it yet.
        let removed = wait_for("the cgroup is empty", || Ok(fs::remove_dir(&self.path).is_ok()));
        if let Err(error) = removed {
            volvox_system::complain!("{} stays: {error}", self.path.display());
        }
    }
}

/// Outside of the lab, removes its groups once this process has ended, in whatever way.
pub struct Janitor(Child);

impl Janitor {
    /// Starts to wait.
    pub fn start(controllers: &[Controller]) -> Result<Self> {
        let mut groups = Vec::new();
        for controller in controllers {
            let (version, own) = controller.own()?;
            let root = mounted(version, *controller).context("cgroups are not mounted")?;
            groups.push(root.join(own).join(name(&std::process::id().to_string())));
        }
        // Its input ends when this process does. Whom the lab's end kills takes a moment to go.
        let script = "cat; for group; do for try in $(seq 200); do \
                      [ -d \"$group\" ] || break; rmdir \"$group\" 2>/dev/null || sleep 0.05; done; done";
        let child = std::os::unix::process::CommandExt::process_group(
            Command::new("sh").args(["-c", script, "janitor"]).args(groups),
            0,
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start a shell")?;
        Ok(Self(child))
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
