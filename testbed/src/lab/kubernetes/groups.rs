//! Control groups of a machine's own: one in each hierarchy, below those of the test.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// How they are called, before the moment when they were made.
const PREFIX: &str = "volvox-machine-";
/// After that long, those of a test that was killed are nobody's.
const STALE: Duration = Duration::from_secs(3600);
/// How often they are looked at until all who were in them have ended.
const LOOKS: u32 = 200;

/// A control group in each hierarchy that this process is in. Dropped, they are removed with all that
/// was made in them.
#[derive(Debug)]
pub(super) struct Groups(Vec<Group>);

#[derive(Debug)]
struct Group {
    hierarchy: Hierarchy,
    /// Where that is mounted.
    at: PathBuf,
    path: PathBuf,
}

/// A hierarchy, as `/proc/self/cgroup` names it.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    /// What it is called below `/sys/fs/cgroup`.
    name: String,
    /// What it is mounted with; of version 2, nothing.
    options: Option<String>,
    /// Where this process is in it.
    own: PathBuf,
}

impl Groups {
    /// Makes them; hierarchies are mounted below `place`.
    pub(super) fn create(place: &Path, machine: &str) -> Result<Self> {
        let all = fs::read_to_string("/proc/self/cgroup")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let mut groups = Self(Vec::new());
        let mut all: Vec<Hierarchy> = all.lines().filter_map(Hierarchy::parse).collect();
        // Where there is no other, it is all of `/sys/fs/cgroup`, and a group that has processes, as this
        // one's has, gives no controllers to those below.
        if let [only] = &mut all[..] {
            *only = Hierarchy { name: String::new(), options: None, own: PathBuf::new() };
        }
        for hierarchy in all {
            let at = place.join(&hierarchy.name);
            hierarchy.mount(&at)?;
            let above = at.join(&hierarchy.own);
            remove_stale(&above, now)?;
            let path = above.join(format!("{PREFIX}{}-{machine}", now.as_nanos()));
            fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
            // One without processors takes no process.
            for name in ["cpuset.cpus", "cpuset.mems"] {
                let (from, to) = (above.join(name), path.join(name));
                if hierarchy.options.is_some() && from.exists() {
                    fs::write(to, fs::read(from)?)?;
                }
            }
            groups.0.push(Group { hierarchy, at, path });
        }
        Ok(groups)
    }

    /// A line each: path, type, options, and name below `/sys/fs/cgroup`.
    pub(super) fn lines(&self) -> String {
        let line = |Group { hierarchy, path, .. }: &Group| {
            let (kind, options) = match &hierarchy.options {
                Some(options) => ("cgroup", options.as_str()),
                None => ("cgroup2", "rw"),
            };
            format!("{} {kind} {options} {}\n", path.display(), hierarchy.name)
        };
        self.0.iter().map(line).collect()
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for Group { path, at, .. } in &self.0 {
            // Who was in it may still be ending.
            let mut looks = 0..LOOKS;
            while let Err(error) = remove(path) {
                if looks.next().is_none() {
                    volvox_system::complain!("{} stays: {error}", path.display());
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
            // Otherwise it ends with the lab.
            let _ = unmount(at, UnmountFlags::DETACH);
        }
    }
}

impl Hierarchy {
    /// `NUMBER:CONTROLLERS:PATH`.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, own) = (parts.next()?, parts.next()?, parts.next()?);
        let (name, options) = match controllers.strip_prefix("name=") {
            _ if controllers.is_empty() => ("unified", None),
            Some(name) => (name, Some(format!("none,{controllers}"))),
            None => (controllers, Some(controllers.to_owned())),
        };
        let own = own.trim_start_matches('/').into();
        Some(Self { name: name.to_owned(), options, own })
    }

    fn mount(&self, at: &Path) -> Result<()> {
        fs::create_dir_all(at)?;
        let options = self.options.as_deref().map(std::ffi::CString::new).transpose()?;
        let kind = if self.options.is_some() { "cgroup" } else { "cgroup2" };
        mount("none", at, kind, MountFlags::empty(), options.as_deref())
            .with_context(|| format!("cannot mount control groups {}", self.name))
    }
}

/// Removes those of tests that were killed.
fn remove_stale(above: &Path, now: Duration) -> Result<()> {
    for entry in fs::read_dir(above)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let made = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
        let is_stale =
            made.is_some_and(|made| now.saturating_sub(Duration::from_nanos(made)) > STALE);
        if is_stale {
            // Whoever is in it keeps it.
            let _ = remove(&entry.path());
        }
    }
    Ok(())
}

/// Removes a group and those in it.
fn remove(group: &Path) -> io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_read() {
        let read = |line| Hierarchy::parse(line).map(|it| (it.name, it.options, it.own));
        let expected = ("memory".into(), Some("memory".into()), PathBuf::from("a/b"));
        assert_eq!(read("4:memory:/a/b"), Some(expected));
        let expected = ("systemd".into(), Some("none,name=systemd".into()), PathBuf::new());
        assert_eq!(read("9:name=systemd:/"), Some(expected));
        assert_eq!(read("0::/x"), Some(("unified".into(), None, PathBuf::from("x"))));
        assert_eq!(read(""), None);
    }
}
