//! An uninstall that dies, what is left behind the next one, and a node that begins anew.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use aya::programs::{SchedClassifier, tc::TcAttachType};
use volvox_system::netlink::{Direction, Socket};

use super::World;
use crate::{
    judge::Judge,
    lab::{Node, before_all, before_death},
};

impl World<'_> {
    /// Notes all calls of an uninstall.
    pub(in crate::chaos) fn note_uninstall(&mut self, file: &Path) -> Result<()> {
        self.node.stop_agent()?;
        let before = before_all(file, &self.node.binaries().agent);
        ensure!(self.node.begin_uninstall(&before)?.ends_well()?, "{}", self.node.log_end());
        nothing_is_left(&self.node)
    }

    /// An uninstall that dies before that call, if it makes so many; whether it died. An agent starts on what
    /// is left then; the next uninstall leaves nothing.
    pub(in crate::chaos) fn uninstall_dies(&mut self, call: &str, nth: u32) -> Result<bool> {
        self.node.stop_agent()?;
        let before = before_death(call, nth, &self.node.binaries().agent);
        let died = !self.node.begin_uninstall(&before)?.ends_well()?;
        if died {
            self.node.start_agent().context("an agent does not start on what is left")?;
            self.node.wait_until_restored()?;
            self.node.stop_agent()?;
            let ended = self.node.begin_uninstall(&[])?.ends_well()?;
            ensure!(ended, "the next uninstall fails:\n{}", self.node.log_end());
        }
        nothing_is_left(&self.node)?;
        Ok(died)
    }

    /// Begins anew, with the pods of the beginning.
    pub(in crate::chaos) fn begin_anew(&mut self) -> Result<()> {
        self.node.bury_agent();
        self.pods.clear();
        self.node.start_agent()?;
        self.judge = Judge::begin(&self.node)?;
        self.make_all()?;
        self.settle()
    }
}

/// Fails if anything of ours is there but the pods' own interfaces.
fn nothing_is_left(node: &Node) -> Result<()> {
    let mut left = Vec::new();
    pins(node.bpf_root(), &mut left)?;
    for name in ["cilium", "lib"] {
        let files = fs::read_dir(node.path(name)).into_iter().flatten().flatten();
        left.extend(files.map(|file| file.path().display().to_string()));
    }
    let files = ["cilium.sock", "cni/05-volvox.conflist"].map(|name| node.path(name));
    left.extend(files.iter().filter(|it| it.exists()).map(|it| it.display().to_string()));
    let mut socket = Socket::open()?;
    left.extend(socket.routes()?.into_keys().map(|address| format!("a route to {address}")));
    for (ifindex, link) in socket.links()? {
        if link.name.starts_with("cilium_") {
            left.push(format!("the interface {}", link.name));
        }
        let hooks = [
            (Direction::Ingress, TcAttachType::Ingress),
            (Direction::Egress, TcAttachType::Egress),
        ];
        for (direction, hook) in hooks {
            let filters = socket.filter_show(ifindex, direction).unwrap_or_default();
            let by_link = SchedClassifier::query_tcx(&link.name, hook)
                .is_ok_and(|(_, programs)| !programs.is_empty());
            if by_link || !filters.is_empty() {
                left.push(format!("a program at {}", link.name));
            }
        }
    }
    ensure!(left.is_empty(), "an uninstall leaves {}", left.join(", "));
    Ok(())
}

/// Every pin below a folder of the BPF file system; the kernel's own files are `*.debug`.
fn pins(folder: &Path, all: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            pins(&path, all)?;
        } else if path.extension().is_none_or(|end| end != "debug") {
            all.push(path.display().to_string());
        }
    }
    Ok(())
}
