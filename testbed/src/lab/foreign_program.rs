//! A program of somebody else at the interface of a pod, in front of ours.

use std::{
    ffi::CString,
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result};
use aya::programs::{
    LinkOrder, SchedClassifier, TcAttachType,
    tc::{SchedClassifierLink, TcAttachOptions},
};

use super::sys;

/// It passes packets on to who is next. Dropped, it goes.
pub struct ForeignProgram {
    _program: SchedClassifier,
    _links: Vec<SchedClassifierLink>,
    pin: PathBuf,
}

impl ForeignProgram {
    /// Puts it in front of all others at both hooks of an interface.
    pub fn in_front(interface: &str) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let pin = PathBuf::from(format!("/sys/fs/bpf/somebody-else-{number}"));
        let path = CString::new(pin.display().to_string())?;
        sys::pin_foreign_program(&path).context("a program of somebody else cannot be loaded")?;
        let mut program = SchedClassifier::from_pin(&pin)?;
        let mut links = Vec::new();
        for hook in [TcAttachType::Ingress, TcAttachType::Egress] {
            let options = TcAttachOptions::TcxOrder(LinkOrder::first());
            let id = program
                .attach_with_options(interface, hook, options)
                .with_context(|| format!("it cannot be attached to {interface}"))?;
            links.push(program.take_link(id)?);
        }
        Ok(Self { _program: program, _links: links, pin })
    }
}

impl Drop for ForeignProgram {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.pin);
    }
}
