//! Images that every machine of a cluster has: the agent's and the operator's, of the programs under
//! test, and one with busybox for pods.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Machine;
use crate::lab::{binaries, image, wait_for};

/// Archives of images.
pub(super) struct Images(Vec<PathBuf>);

impl Images {
    /// Makes them below `place`.
    pub(super) fn make(place: &Path) -> Result<Self> {
        let programs = binaries::directory()?;
        let made = |name: &str, options: &[&str]| -> Result<PathBuf> {
            let file = place.join(name);
            // The least compression: nobody keeps it.
            image::packaged(&programs, &[options, &["--level", "1"]].concat(), &file)?;
            Ok(file)
        };
        let pods = image::archive(&place.join("busybox"))?;
        Ok(Self(vec![pods, made("agent.tar", &[])?, made("operator.tar", &["--operator"])?]))
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
