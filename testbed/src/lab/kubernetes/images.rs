//! Images that every machine of a cluster has: the agent's and the operator's, of the programs under
//! test, and one with busybox for pods.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::Machine;
use crate::lab::{binaries, image, wait_for};

/// What makes them.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../agent/packaging/image");

/// Archives of images.
pub(super) struct Images(Vec<PathBuf>);

impl Images {
    /// Makes them below `place`.
    pub(super) fn make(place: &Path) -> Result<Self> {
        let programs = binaries::directory()?;
        let made = |name: &str, option: Option<&str>| -> Result<PathBuf> {
            let file = place.join(name);
            // The least compression: nobody keeps it.
            let made = Command::new(SCRIPT)
                .args(option)
                .arg("--programs")
                .arg(&programs)
                .args(["--level", "1"])
                .arg(&file)
                .output()
                .with_context(|| format!("cannot start {SCRIPT}"))?;
            ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            Ok(file)
        };
        let pods = image::archive(&place.join("busybox"))?;
        Ok(Self(vec![pods, made("agent.tar", None)?, made("operator.tar", Some("--operator"))?]))
    }

    /// Has the runtime of a machine know them.
    pub(super) fn import_into(&self, machine: &Machine) -> Result<()> {
        for archive in &self.0 {
            let file = machine.give(archive)?;
            // While containerd starts, it refuses.
            wait_for("the image is imported", || {
                let words = format!("ctr --namespace k8s.io image import {file}");
                Ok(machine.run(&words).is_ok())
            })?;
        }
        Ok(())
    }
}
