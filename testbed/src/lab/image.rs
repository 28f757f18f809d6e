//! An image with busybox and nothing else, from Debian's static build.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use sha2::{Digest, Sha256};

/// The image's name, whole, as a runtime knows it.
pub const NAME: &str = "docker.io/library/volvox-busybox:1";

/// And as people write it.
const USUAL_NAME: &str = "docker.io/library/busybox:1.36";

/// Where Debian and Ubuntu put it.
const BUSYBOX: [&str; 2] = ["/bin/busybox", "/usr/bin/busybox"];

/// Programs that the tests run in pods.
const APPLETS: [&str; 13] = [
    "cat", "cp", "grep", "httpd", "ls", "mount", "mv", "nc", "ping", "printf", "sh", "sleep",
    "wget",
];

/// What makes the images that are packaged.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../agent/packaging/image");

/// Makes a packaged image of these programs; with other options, the operator's or a smaller one.
pub fn packaged(programs: &Path, options: &[&str], file: &Path) -> Result<()> {
    let made =
        Command::new(SCRIPT).args(options).arg("--programs").arg(programs).arg(file).output();
    let made = made.with_context(|| format!("cannot start {SCRIPT}"))?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

/// Makes a docker archive of the image in `directory`.
pub fn archive(directory: &Path) -> Result<PathBuf> {
    let (root, parts) = (directory.join("root"), directory.join("parts"));
    fs::create_dir_all(root.join("bin"))?;
    fs::create_dir_all(root.join("www"))?;
    fs::create_dir_all(&parts)?;
    let Some(busybox) = BUSYBOX.iter().find(|path| Path::new(path).exists()) else {
        bail!("busybox is missing: install the package busybox-static");
    };
    fs::copy(busybox, root.join("bin/busybox"))?;
    for applet in APPLETS {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    fs::write(root.join("www/index.html"), "hello\n")?;
    let layer = parts.join("layer.tar");
    tar(&root, &layer)?;
    let digest: String =
        Sha256::digest(fs::read(&layer)?).iter().map(|byte| format!("{byte:02x}")).collect();
    let config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": { "Cmd": ["/bin/sleep", "1000000"], "Env": ["PATH=/bin"] },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
    });
    fs::write(parts.join("config.json"), config.to_string())?;
    let manifest = json!([{ "Config": "config.json", "RepoTags": [NAME, USUAL_NAME], "Layers": ["layer.tar"] }]);
    fs::write(parts.join("manifest.json"), manifest.to_string())?;
    let archive = directory.join("image.tar");
    tar(&parts, &archive)?;
    Ok(archive)
}

fn tar(folder: &Path, to: &Path) -> Result<()> {
    let status = Command::new("tar").arg("-cf").arg(to).arg("-C").arg(folder).arg(".").status();
    let status = status.context("cannot start tar")?;
    ensure!(status.success(), "tar of {}: {status}", folder.display());
    Ok(())
}
