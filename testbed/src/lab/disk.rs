//! A disk of its own for the agent's directories, whose power can fail.

use std::{
    fs::{self, File},
    os::fd::AsFd,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use super::{Node, sys};

/// The image and where it is mounted, in the lab's own file system.
const IMAGE: &str = "/run/disk.img";
const PLACE: &str = "/run/disk";
/// Size of the image, bytes; sparse.
const SIZE: u64 = 64 << 20;
/// The agent's directories, below the node's.
const DIRECTORIES: [&str; 2] = ["cilium", "lib"];

/// An ext4 file system in a file, with the agent's directories on it.
#[derive(Debug)]
pub struct Disk(());

impl Disk {
    /// Whether this machine lets a file be a disk.
    pub fn is_possible() -> bool {
        Path::new("/dev/loop-control").exists()
    }

    /// Makes it, and puts it under the directories of a node whose agent has not started yet.
    pub fn make(node: &Node) -> Result<Self> {
        File::create(IMAGE)?.set_len(SIZE)?;
        run("mkfs.ext4", &["-q", "-F", IMAGE])?;
        fs::create_dir_all(PLACE)?;
        let disk = Self(());
        run("mount", &["-o", "loop", IMAGE, PLACE])?;
        for name in DIRECTORIES {
            fs::create_dir_all(Path::new(PLACE).join(name))?;
        }
        disk.bind(node)?;
        Ok(disk)
    }

    /// The power fails.
    pub fn cut_power(&self) -> Result<()> {
        let place = File::open(PLACE)?;
        sys::cut_power(place.as_fd()).context("the file system cannot be shut down")
    }

    /// From now on whatever is asked of it is an error; what was written is safe.
    pub fn fail(&self) -> Result<()> {
        let place = File::open(PLACE)?;
        sys::fail(place.as_fd()).context("the file system cannot be made to fail")
    }

    /// The power is back, or the disk works again: what is on the disk is mounted again. Nobody must use it meanwhile.
    pub fn restore_power(&self, node: &Node) -> Result<()> {
        for name in DIRECTORIES {
            let path = node.path(name);
            unmount(&path, UnmountFlags::empty())
                .with_context(|| format!("cannot unmount {}", path.display()))?;
        }
        unmount(PLACE, UnmountFlags::empty()).context("cannot unmount the disk")?;
        run("mount", &["-o", "loop", IMAGE, PLACE])?;
        self.bind(node)
    }

    fn bind(&self, node: &Node) -> Result<()> {
        for name in DIRECTORIES {
            let (source, path) = (Path::new(PLACE).join(name), node.path(name));
            mount_bind(&source, &path)
                .with_context(|| format!("cannot mount {}", path.display()))?;
        }
        Ok(())
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {arguments:?}: {}: {complaint}", output.status);
    Ok(())
}
