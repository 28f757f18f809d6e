//! The transcript in `agent/docs/install.md`: its commands do what it says, and nothing is left.

use std::{path::Path, process::Command, time::Instant};

use anyhow::{Context, ensure};
use volvox_testbed::{
    lab::{self, Binaries, Kubernetes, ip},
    transcript::{Step, is_as_expected, steps},
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const PAGE: &str = include_str!("../../../agent/docs/install.md");
#[test]
fn the_transcript_of_installing_is_true() {
    lab::test("transcript::the_transcript_of_installing_is_true", || {
        let Some(mut cluster) = Kubernetes::start(2)? else { return Ok(()) };
        let programs = Binaries::find()?.client;
        let programs = programs.parent().unwrap_or(Path::new("/")).display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let steps = steps(PAGE);
        ensure!(steps.len() > 10, "the page has no transcript: {steps:?}");
        for Step { command, lines } in steps {
            let begun = Instant::now();
            let ran = Command::new("bash")
                .args(["-c", &format!("{command} 2>&1")])
                .current_dir(ROOT)
                .env("PATH", format!("{programs}:{path}"))
                .env("KUBECONFIG", cluster.kubeconfig())
                .output()?;
            let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
            let printed: Vec<_> = printed.lines().collect();
            volvox_system::say!("{:.1?} {command}", begun.elapsed());
            ensure!(
                is_as_expected(&printed, &lines),
                "{command} printed\n{}\nbut the page has\n{}\n{}",
                printed.join("\n"),
                lines.join("\n"),
                cluster.logs(),
            );
        }
        for machine in &mut cluster.machines {
            let links = machine.netns()?.run(|| ip("-o link"))?;
            let others =
                links.lines().filter(|it| !it.contains(": lo:") && !it.contains(": eth0@"));
            ensure!(others.count() == 0, "{} has interfaces left: {links}", machine.name);
            for (place, kept) in [
                // The kernel's own.
                ("/sys/fs/bpf", &["maps.debug", "progs.debug"][..]),
                ("/etc/cni/net.d", &[]),
                ("/var/lib/cilium", &[]),
                ("/opt/cni/bin", &["loopback", "volvox-cni"]),
            ] {
                let all = machine.run(&format!("ls -A {place}")).unwrap_or_default();
                let all: Vec<_> = all.lines().filter(|it| !kept.contains(it)).collect();
                ensure!(all.is_empty(), "{} keeps {all:?} in {place}", machine.name);
            }
        }
        cluster.kubectl("get nodes").map(drop).context("the cluster is as before")
    });
}
