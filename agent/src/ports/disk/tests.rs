//! Tests: steps on a real disk, also on one that is full or read-only, and the locks.

mod killed;

use std::{
    env, fs,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use tokio::sync::oneshot;
use volvox_actors::{
    host::Reply,
    model::EndpointId,
    ports::{Disk, DiskError, FsOp},
    state_directory::{EndpointRecord, NodeState, StateFiles, commit_plan, remove_plan, scan},
};

use super::{Directories, DirectoriesError, DiskFiles, DiskPort, hold_bpf};

struct Scratch {
    dir: TempDir,
    held: Directories,
}

impl Scratch {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let held = Directories::hold(&dir.path().join("run"), &dir.path().join("lib")).unwrap();
        Self { dir, held }
    }

    fn run(&self, ops: &[FsOp]) -> Result<(), DiskError> {
        self.held.steps.run(ops)
    }

    fn files(&self) -> DiskFiles {
        DiskFiles::new(&self.held.steps)
    }

    fn state(&self, path: &str) -> PathBuf {
        self.dir.path().join("run/state").join(path)
    }

    /// Everything in the state directory, by name.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.state("")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn record(generation: u32) -> EndpointRecord {
    EndpointRecord { id: EndpointId(7), generation, ..Default::default() }
}

#[test]
fn what_keeps_it_from_being_written_is_known_until_something_is() {
    let scratch = Scratch::new();
    let trouble = || scratch.held.steps.trouble().now().map(|error| error.to_string());
    assert_eq!(trouble(), None);
    let write = |path: &str| [FsOp::Write { path: path.into(), bytes: vec![1] }];
    scratch.run(&write("file")).unwrap();
    let refused = scratch.run(&write("file/below")).unwrap_err();
    assert_eq!(trouble(), Some(refused.to_string()));
    scratch.run(&write("file")).unwrap();
    assert_eq!(trouble(), None);
}

#[test]
fn commits_replaces_and_removes_a_record() {
    let scratch = Scratch::new();
    scratch.run(&commit_plan(&record(1))).unwrap();
    fs::write(scratch.state("7/template.txt"), "kept").unwrap();
    symlink("ep_config.h", scratch.state("7/lxc_config.h")).unwrap();
    fs::create_dir(scratch.state("7_next_fail")).unwrap();
    scratch.run(&commit_plan(&record(2))).unwrap();
    assert_eq!(scratch.names(), ["7"]);
    assert_eq!(fs::read_to_string(scratch.state("7/template.txt")).unwrap(), "kept");
    assert!(scratch.state("7/lxc_config.h").is_symlink());

    let found = scan(&scratch.files());
    assert_eq!(found.records[0].record, record(2));
    assert!(found.tidying.is_empty());
    assert_eq!(fs::metadata(scratch.state("7")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(scratch.state("7/ep_config.json")).unwrap().mode() & 0o777, 0o600);

    scratch.run(&remove_plan(EndpointId(7))).unwrap();
    assert_eq!(scratch.names(), Vec::<String>::new());
}

#[test]
fn keeps_tables_in_both_directories() {
    let scratch = Scratch::new();
    scratch.run(&[NodeState::SLOTS.save(&NodeState::default(), 1)]).unwrap();
    let lib = FsOp::Write { path: "lib/identities.0.json".into(), bytes: b"{}".to_vec() };
    scratch.run(&[lib]).unwrap();
    assert!(scratch.dir.path().join("lib/identities.0.json").exists());
    assert_eq!(scratch.files().read("lib/identities.0.json"), Ok(Some(b"{}".to_vec())));
    assert_eq!(NodeState::SLOTS.load(&scratch.files()).generation, 1);
}

#[test]
fn stops_at_the_first_failure_and_says_what_to_do() {
    let scratch = Scratch::new();
    let write = |path: &str| FsOp::Write { path: path.into(), bytes: b"x".to_vec() };
    let error = scratch.run(&[write("absent/file"), write("after")]).unwrap_err();
    assert_eq!(error.op, "write");
    assert_eq!(
        error.path,
        scratch.state("absent/file").canonicalize().unwrap_or(error.path.clone())
    );
    assert!(error.to_string().contains("restart the agent"), "{error}");
    assert_eq!(scratch.names(), Vec::<String>::new());

    scratch.run(&[FsOp::MakeDir("a".into())]).unwrap();
    fs::write(scratch.state("file"), b"").unwrap();
    let error = scratch.run(&[FsOp::MakeDir("file".into())]).unwrap_err();
    assert!(error.to_string().contains("look at it, then remove it"), "{error}");
    let error = scratch.run(&[FsOp::Exchange("c".into(), "a".into())]).unwrap_err();
    assert_eq!(error.op, "rename", "there is nothing to swap");
}

#[test]
fn a_rename_that_was_done_is_not_done_again() {
    let scratch = Scratch::new();
    let rename = [FsOp::Rename("a".into(), "b".into())];
    scratch.run(&rename).unwrap();
    assert_eq!(scratch.names(), Vec::<String>::new(), "there was nothing to rename");
    scratch.run(&[FsOp::MakeDir("a".into())]).unwrap();
    scratch.run(&rename).unwrap();
    assert_eq!(scratch.names(), ["b"]);
    scratch.run(&[FsOp::MakeDir("a".into())]).unwrap();
    scratch.run(&rename).unwrap();
    assert_eq!(scratch.names(), ["a", "b"], "what has the name now is another one");
}

#[test]
fn no_path_leads_out() {
    let scratch = Scratch::new();
    for path in ["../out", "/out", "7/../../out", "lib/../out"] {
        let error = scratch.run(&[FsOp::MakeDir(path.into())]).unwrap_err();
        assert!(error.to_string().contains("leads out"), "{error}");
    }
}

#[test]
fn sweeps_what_a_crash_left_and_nothing_else() {
    let scratch = Scratch::new();
    for dir in [".removed-7", ".swapped-8", "9", ".other"] {
        fs::create_dir(scratch.state(dir)).unwrap();
    }
    scratch.held.steps.sweep().unwrap();
    assert_eq!(scratch.names(), [".other", "9"]);
}

#[test]
fn reads_no_giant_no_pipe_and_no_rubbish() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.state("7")).unwrap();
    let giant = fs::File::create(scratch.state("7/ep_config.json")).unwrap();
    giant.set_len(100 << 20).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scratch.state("7/ep_config.h"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    fs::create_dir(scratch.state("7/lxc_config.h")).unwrap();
    symlink(scratch.state("7"), scratch.state("8")).unwrap();
    let found = scan(&scratch.files());
    assert_eq!(found.quarantined.len(), 1, "a symbolic link is no endpoint's directory");
    let reason = found.quarantined[0].reason.to_string();
    assert!(reason.contains("7/ep_config.json is torn or not what its name says"), "{reason}");
    // Neither is read, or waited for.
    for name in ["7/ep_config.json", "7/ep_config.h", "7/lxc_config.h"] {
        assert_eq!(scratch.files().read(name), Ok(Some(Vec::new())), "{name}");
    }
}

#[test]
fn a_second_agent_is_refused_until_the_first_is_gone() {
    let scratch = Scratch::new();
    let (run, lib) = (scratch.dir.path().join("run"), scratch.dir.path().join("lib"));
    let error = Directories::hold(&run, &lib).unwrap_err();
    assert!(matches!(error, DirectoriesError::InUse { .. }));
    let pid = format!("the agent with pid {}", std::process::id());
    assert!(error.to_string().contains(&pid), "{error}");
    let Scratch { dir: _dir, held } = scratch;
    drop(held);
    Directories::hold(&run, &lib).unwrap();
}

#[test]
fn makes_the_directories_with_their_rights() {
    let scratch = Scratch::new();
    for (dir, mode) in [("run", 0o775), ("run/state", 0o770), ("lib", 0o755)] {
        let metadata = fs::metadata(scratch.dir.path().join(dir)).unwrap();
        assert_eq!(metadata.mode() & 0o777, mode, "{dir}");
    }
    let error = Directories::hold(Path::new("/proc/none"), Path::new("/tmp")).unwrap_err();
    assert!(error.to_string().starts_with("make directory \"/proc/none\""), "{error}");
}

#[actix::test]
async fn answers_through_the_port() {
    let scratch = Scratch::new();
    let port = DiskPort::start(&scratch.held.steps).unwrap();
    let (tell, outcome) = oneshot::channel();
    let reply = Reply::to(|answer| tell.send(answer).unwrap());
    port.submit(commit_plan(&record(1)), reply);
    port.finish().await;
    assert_eq!(outcome.await.unwrap().unwrap(), Ok(()));
    assert_eq!(scan(&scratch.files()).records.len(), 1);
}

/// Runs a test again in a mount namespace of its own; returns a directory to mount at in that
/// second run, which the first then removes, however the second ended.
fn in_own_mount_namespace(test: &str) -> Option<PathBuf> {
    const INSIDE: &str = "VOLVOX_TEST_MOUNT_AT";
    if let Some(dir) = env::var_os(INSIDE) {
        return Some(dir.into());
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED {test}: mounting needs root");
        return None;
    }
    let dir = TempDir::new().unwrap();
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", &format!("{}::{test}", module_path!().split_once("::").unwrap().1)])
        .env(INSIDE, dir.path())
        .status()
        .expect("util-linux's unshare is installed");
    assert!(status.success());
    None
}

fn mount_tmpfs(at: &Path, options: &str) {
    use rustix::mount::{MountFlags, mount};
    let options = std::ffi::CString::new(options).unwrap();
    mount("volvox-test", at, "tmpfs", MountFlags::empty(), options.as_c_str()).unwrap();
}

#[test]
fn a_full_disk_loses_nothing_and_says_so() {
    let Some(dir) = in_own_mount_namespace("a_full_disk_loses_nothing_and_says_so") else { return };
    mount_tmpfs(&dir, "size=64k");
    let (run, lib) = (dir.join("run"), dir.join("lib"));
    let held = Directories::hold(&run, &lib).unwrap();
    held.steps.run(&commit_plan(&record(1))).unwrap();
    let ballast = run.join("ballast");
    assert!(fs::write(&ballast, vec![0; 64 << 10]).is_err());

    let mut large = record(2);
    large.container_name = "x".repeat(8 << 10);
    let error = held.steps.run(&commit_plan(&large)).unwrap_err();
    assert!(error.to_string().contains("free space or inodes"), "{error}");
    let found = scan(&DiskFiles::new(&held.steps));
    assert_eq!(found.records[0].record, record(1));

    drop(held);
    let held = Directories::hold(&run, &lib).unwrap();
    assert!(held.trouble.unwrap().to_string().contains("free space or inodes"));
    fs::remove_file(ballast).unwrap();
    held.steps.run(&commit_plan(&large)).unwrap();
}

#[test]
fn a_read_only_disk_can_still_be_read() {
    let Some(dir) = in_own_mount_namespace("a_read_only_disk_can_still_be_read") else { return };
    use rustix::mount::{MountFlags, mount_remount};
    mount_tmpfs(&dir, "");
    let (run, lib) = (dir.join("run"), dir.join("lib"));
    let held = Directories::hold(&run, &lib).unwrap();
    held.steps.run(&commit_plan(&record(1))).unwrap();
    drop(held);
    mount_remount(&dir, MountFlags::RDONLY, c"").unwrap();

    let held = Directories::hold(&run, &lib).unwrap();
    let trouble = held.trouble.as_ref().unwrap().to_string();
    assert!(trouble.contains("mount that file system writable"), "{trouble}");
    assert_eq!(scan(&DiskFiles::new(&held.steps)).records.len(), 1);
    assert!(held.steps.run(&commit_plan(&record(2))).is_err());
}

#[test]
fn swaps_in_three_steps_where_one_does_not_do() {
    let scratch = Scratch::new();
    scratch.run(&[FsOp::MakeDir("7".into()), FsOp::MakeDir("7_next".into())]).unwrap();
    fs::write(scratch.state("7_next/new"), "").unwrap();
    let (next, current) = (scratch.state("7_next"), scratch.state("7"));
    super::steps::exchange_in_three(&next, &current).unwrap();
    assert!(scratch.state("7/new").exists());
    assert_eq!(scratch.names(), ["7", "7_next"]);
}

#[test]
fn a_second_agent_at_the_same_maps_is_refused_until_the_first_is_gone() {
    let root = tempfile::tempdir().unwrap();
    let held = hold_bpf(root.path()).unwrap();
    let error = hold_bpf(root.path()).unwrap_err().to_string();
    assert!(error.contains("--bpf-root"), "{error}");
    drop(held);
    assert!(hold_bpf(root.path()).unwrap().is_some());
    assert!(hold_bpf(&root.path().join("missing")).unwrap().is_none());
}
