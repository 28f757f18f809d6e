//! containerd and runc from the distribution, with files of their own.

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, mount};
use volvox_testbed::lab::{Node, image, wait_for};

use crate::{
    cri::Cri,
    messages::{ImageSpec, ImageStatusRequest, ImageStatusResponse},
};

/// Where containerd may find the plugin that sets up loopback.
const LOOPBACK: [&str; 2] = ["/usr/lib/cni/loopback", "/opt/cni/bin/loopback"];

/// Lets runc do without control groups: those of the machine are not the lab's to change.
const RUNC: &str = "#!/bin/sh\nexec runc --rootless=true \"$@\"\n";

/// A running containerd with the busybox image in it.
pub(crate) struct Containerd {
    process: Child,
    config: PathBuf,
    log: File,
    socket: PathBuf,
    /// Its CRI.
    pub cri: Cri,
}

impl Containerd {
    /// Starts it; its pods get their network from the agent of `node`.
    pub(crate) fn start(node: &Node) -> Result<Self> {
        let place = node.path("containerd");
        fs::create_dir_all(place.join("bin"))?;
        symlink(&node.binaries().cni, place.join("bin/volvox-cni"))?;
        let loopback = LOOPBACK.iter().find(|path| fs::exists(path).unwrap_or(false));
        let loopback = loopback.context("install the package containernetworking-plugins")?;
        symlink(loopback, place.join("bin/loopback"))?;
        // The plugin that runc wants to see control groups through, but may not change.
        let (cgroups, flags) = ("/sys/fs/cgroup", MountFlags::RDONLY | MountFlags::NOSUID);
        mount("cgroup2", cgroups, "cgroup2", flags, None)?;
        fs::write(place.join("bin/runc"), RUNC)?;
        fs::set_permissions(place.join("bin/runc"), fs::Permissions::from_mode(0o755))?;
        let (config, socket) = (place.join("config.toml"), place.join("containerd.sock"));
        fs::write(&config, configuration(&place, &node.path("cni")))?;
        let log = File::create(place.join("log"))?;
        let process = spawn(&config, &log)?;
        let runtime = Self { process, config, log, cri: Cri::new(&socket)?, socket };
        runtime.wait_for_answers()?;
        let archive = image::archive(&place.join("image"))?;
        runtime.import(&archive, image::NAME)?;
        Ok(runtime)
    }

    fn wait_for_answers(&self) -> Result<()> {
        let mut version = Command::new("ctr");
        version.arg("-a").arg(&self.socket).arg("version");
        wait_for("containerd answers", || Ok(version.output()?.status.success()))
    }

    /// Ends it, as with SIGKILL; its pods go on.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Starts it again.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        self.process = spawn(&self.config, &self.log)?;
        self.wait_for_answers()
    }

    /// Puts a script in the place of the agent's plugin.
    pub(crate) fn replace_plugin(&self, node: &Node, script: &str) -> Result<()> {
        let plugin = node.path("containerd/bin/volvox-cni");
        fs::remove_file(&plugin)?;
        fs::write(&plugin, script)?;
        Ok(fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755))?)
    }

    /// Takes in an archive that has the image of that name.
    pub(crate) fn import(&self, archive: &Path, image: &str) -> Result<()> {
        self.ctr(&["images", "import", &archive.display().to_string()])?;
        wait_for("the image is known", || self.has_image(image))
    }

    /// Has containerd's client do something in the namespace of Kubernetes.
    pub(crate) fn ctr(&self, words: &[&str]) -> Result<()> {
        let mut ctr = Command::new("ctr");
        ctr.arg("-a").arg(&self.socket).args(["-n", "k8s.io"]).args(words);
        let done = ctr.output()?;
        let stderr = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "ctr {words:?}: {stderr}");
        Ok(())
    }

    fn has_image(&self, image: &str) -> Result<bool> {
        let image = Some(ImageSpec { image: image.into() });
        let status: ImageStatusResponse =
            self.cri.call("ImageService/ImageStatus", ImageStatusRequest { image })?;
        Ok(status.image.is_some())
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // What it started ends with the lab.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(config: &Path, log: &File) -> Result<Child> {
    Command::new("containerd")
        .arg("--config")
        .arg(config)
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .spawn()
        .context("cannot start containerd: install the package containerd")
}

/// No control groups, and no change of the out-of-memory score: both would need more of the machine
/// than the lab has.
fn configuration(place: &Path, conf_dir: &Path) -> String {
    let place = place.display();
    let conf_dir = conf_dir.display();
    let image = image::NAME;
    format!(
        r#"version = 2
root = "{place}/root"
state = "{place}/state"

[grpc]
address = "{place}/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
disable_apparmor = true
disable_cgroup = true
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{place}/bin/runc"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{place}/bin"
conf_dir = "{conf_dir}"
"#
    )
}
