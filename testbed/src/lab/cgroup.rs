//! A cgroup of the lab's own, below that of the test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount};

/// Only who is put into it is in it. Dropped, it is removed.
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes one, seen from the lab below `place`.
    pub fn create(place: &Path) -> Result<Self> {
        fs::create_dir_all(place)?;
        mount("none", place, "cgroup2", MountFlags::empty(), None)
            .context("cannot mount cgroups")?;
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
        let own = own.context("this process is in no cgroup of version 2")?;
        // Process numbers are the lab's own, and say nothing outside.
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        let path = place.join(own).join(format!("volvox-lab-{now}"));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A process in it that connects by TCP, says `?` and reads one byte; whether it got one.
    pub fn is_answered(&self, at: std::net::SocketAddr) -> Result<bool> {
        let script = format!(
            "echo $$ > {}/cgroup.procs && exec 3<>/dev/tcp/{}/{} && printf '?' >&3 && \
             read -r -t 2 -n 1 -u 3 answer && test -n \"$answer\"",
            self.0.display(),
            at.ip(),
            at.port(),
        );
        let done = Command::new("timeout").args(["3", "bash", "-c", &script]).output()?;
        Ok(done.status.success())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Whoever is left in it keeps it, and that is seen below `/sys/fs/cgroup`.
        if let Err(error) = fs::remove_dir(&self.0) {
            volvox_system::complain!("{} stays: {error}", self.0.display());
        }
    }
}
