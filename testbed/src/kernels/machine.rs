//! A virtual machine: boots a kernel under software emulation over this machine's own files, read-only, and runs one
//! command in it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::lab::Binaries;

/// Seconds until a machine is switched off that does not end.
const PATIENCE: u32 = 900;
/// Modules that bring up a root over 9p.
const MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];
/// Commands of busybox that the first program needs.
const APPLETS: [&str; 6] = ["sh", "mount", "insmod", "mkdir", "switch_root", "cat"];
/// Programs that this needs, and the packages that bring them.
const PARTS: [(&str, &str); 4] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("modprobe", "kmod"),
    ("cpio", "cpio"),
    ("busybox", "busybox-static"),
];

/// The first program: the host's files below, what is written above them in memory.
const INIT: &str = r#"#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod /modules/$module; done
over=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o ro,$over,cache=loose root /below
mount -t tmpfs -o size=90% above /above; mkdir -p /above/files /above/work
mount -t overlay -o lowerdir=/below,upperdir=/above/files,workdir=/above/work all /root
mkdir -p /root/vm
mount -t 9p -o rw,$over,cache=none vm /root/vm
mount -o move /proc /root/proc; mount -o move /sys /root/sys; mount -o move /dev /root/dev
exec switch_root /root /bin/bash /vm/boot.sh
"#;

/// What it hands over to. What the host has below /tmp and /run is not seen.
const BOOT: &str = r#"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C
mount -t tmpfs run /run; mount -t tmpfs -o size=60% tmp /tmp
mkdir -p /dev/pts /dev/shm /run/lock
mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup; mount -t bpf bpf /sys/fs/bpf; mount -t debugfs debug /sys/kernel/debug
over=trans=virtio,version=9p2000.L,msize=512000
mkdir -p /lib/modules "$PROGRAMS"
mount -t 9p -o ro,$over,cache=loose modules /lib/modules
mount -t 9p -o ro,$over,cache=loose programs "$PROGRAMS"
ip link set lo up
cd /vm
"$PROGRAMS/testbed" kernels --inside /vm >/vm/log 2>&1
echo $? >/vm/code
sync
echo o >/proc/sysrq-trigger
sleep 60
"#;

/// A kernel that lies in a directory.
pub(super) struct Kernel {
    image: PathBuf,
    modules: PathBuf,
    release: String,
}

impl Kernel {
    pub(super) fn open(place: &Path) -> Result<Self> {
        let modules = place.join("lib/modules");
        let entry = fs::read_dir(&modules)
            .with_context(|| format!("{} has no modules", place.display()))?
            .next()
            .with_context(|| format!("{} is empty", modules.display()))??;
        let release = entry.file_name().to_string_lossy().into_owned();
        Ok(Self { image: place.join("vmlinuz"), modules, release })
    }

    /// Boots it, and has the testbed try what it tries inside; `place` is /vm there. What it found.
    pub(super) fn run(&self, place: &Path) -> Result<String> {
        for (program, package) in PARTS {
            let found = Command::new(program).arg("--help").output();
            ensure!(found.is_ok(), "there is no {program}: install the package {package}");
        }
        let programs = Binaries::find()?.agent;
        let programs = programs.parent().context("the programs are in no directory")?;
        let boot = format!("PROGRAMS={:?}\n{BOOT}", programs.display().to_string());
        fs::write(place.join("boot.sh"), boot)?;
        let first = self.first_files(place)?;
        let share = |path: &Path, tag: &str, more: &str| {
            let path = path.display();
            let how = "security_model=none,multidevs=remap";
            ["-virtfs".to_owned(), format!("local,path={path},mount_tag={tag},{how}{more}")]
        };
        let mut machine = Command::new("timeout");
        machine.arg(PATIENCE.to_string()).args(["qemu-system-x86_64", "-nodefaults"]);
        machine.args(["-no-user-config", "-M", "q35", "-cpu", "max", "-accel", "tcg,thread=multi"]);
        machine.args(["-m", "3G", "-smp", "2", "-nographic", "-monitor", "none", "-no-reboot"]);
        machine.arg("-kernel").arg(&self.image).arg("-initrd").arg(&first);
        machine.args(["-append", "console=ttyS0 panic=-1 quiet mitigations=off loglevel=4"]);
        machine.arg("-serial").arg(format!("file:{}", place.join("console").display()));
        machine.args(share(Path::new("/"), "root", ",readonly=on"));
        machine.args(share(place, "vm", ""));
        machine.args(share(&self.modules, "modules", ",readonly=on"));
        machine.args(share(programs, "programs", ",readonly=on"));
        let done = machine.stdin(Stdio::null()).output().context("cannot start qemu")?;
        let read = |name: &str| fs::read_to_string(place.join(name)).unwrap_or_default();
        match read("code").trim() {
            "0" => Ok(read("findings")),
            "" => bail!(
                "Linux {} did not end by itself ({}{}): {}",
                self.release,
                done.status,
                String::from_utf8_lossy(&done.stderr),
                [read("console"), read("log")].concat()
            ),
            code => bail!("Linux {}: it ended with {code}: {}", self.release, read("log")),
        }
    }

    /// The archive that the kernel starts from: busybox, and modules in the order in which they are needed.
    fn first_files(&self, place: &Path) -> Result<PathBuf> {
        let files = place.join("first");
        for directory in ["bin", "modules", "proc", "sys", "dev", "below", "above", "root"] {
            fs::create_dir_all(files.join(directory))?;
        }
        fs::copy("/bin/busybox", files.join("bin/busybox")).context("busybox-static is missing")?;
        for applet in APPLETS {
            let _ = std::os::unix::fs::symlink("busybox", files.join("bin").join(applet));
        }
        let mut order = Vec::new();
        for path in self.modules_needed()? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let packed = [(".xz", "xz"), (".zst", "zstd")];
            let unpacked =
                packed.iter().find_map(|(end, tool)| Some((name.strip_suffix(end)?, tool)));
            match unpacked {
                Some((unpacked, tool)) => {
                    let done = Command::new(tool).arg("-dc").arg(&path).output()?;
                    ensure!(done.status.success(), "{tool} of {} failed", path.display());
                    fs::write(files.join("modules").join(unpacked), done.stdout)?;
                    order.push(unpacked.to_owned());
                }
                None => {
                    fs::copy(&path, files.join("modules").join(&name))?;
                    order.push(name);
                }
            }
        }
        fs::write(files.join("modules/order"), order.join("\n"))?;
        fs::write(files.join("init"), INIT)?;
        let archive = place.join("first.cpio");
        let made = Command::new("sh")
            .arg("-c")
            .arg("chmod +x init && find . | cpio -o -H newc --quiet >\"$1\"")
            .arg("sh")
            .arg(&archive)
            .current_dir(&files)
            .status()?;
        ensure!(made.success(), "cpio failed");
        Ok(archive)
    }

    fn modules_needed(&self) -> Result<Vec<PathBuf>> {
        let root = self.modules.parent().and_then(Path::parent).context("modules are nowhere")?;
        let mut needed: Vec<PathBuf> = Vec::new();
        for module in MODULES {
            // One that is built in has no file, and is no module to some versions.
            let told = Command::new("modprobe")
                .args(["--show-depends", "-S", &self.release, "-d"])
                .args([root.as_os_str(), module.as_ref()])
                .output()?;
            for line in String::from_utf8_lossy(&told.stdout).lines() {
                let Some(path) = line.strip_prefix("insmod ") else { continue };
                let path = PathBuf::from(path.trim());
                if !needed.contains(&path) {
                    needed.push(path);
                }
            }
        }
        Ok(needed)
    }
}
