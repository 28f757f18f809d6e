//! Tests: a process that is killed while it writes loses nothing that it reported.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;
use volvox_actors::state_directory::{commit_plan, scan};

use super::{Directories, DiskFiles, record};

/// Tells the second run of the test that it is the one to be killed, and where to write.
const WRITER: &str = "VOLVOX_TEST_WRITE_AT";
/// How often the writer is killed.
const KILLS: u32 = 12;

/// Killed however the test ends.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        // A child that ended by itself is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_writer_leaves_what_it_reported_or_more() {
    if let Some(dir) = env::var_os(WRITER) {
        write_for_ever(dir.as_ref());
    }
    let dir = TempDir::new().unwrap();
    let (run, lib) = (dir.path().join("run"), dir.path().join("lib"));
    let mut before = 0;
    for round in 0..KILLS {
        let reported = kill_after(&dir, 1 + round % 4);
        // The kernel let go of the dead one's lock; what it left is swept away.
        let held = Directories::hold(&run, &lib).unwrap();
        assert!(held.trouble.is_none(), "{:?}", held.trouble);
        let found = scan(&DiskFiles::new(&held.steps));
        assert_eq!(found.quarantined, []);
        let [found] = &found.records[..] else { panic!("{} records", found.records.len()) };
        let generation = found.record.generation;
        assert!(generation >= reported && reported > before, "{before} {reported} {generation}");
        before = generation;
    }
}

/// Starts a writer, kills it some time after it reported that many commits, and returns the last
/// generation that it reported.
fn kill_after(dir: &TempDir, commits: u32) -> u32 {
    let this = format!(
        "{}::a_killed_writer_leaves_what_it_reported_or_more",
        module_path!().split_once("::").unwrap().1
    );
    let writer = Command::new(env::current_exe().unwrap())
        .args(["--exact", &this, "--nocapture"])
        .env(WRITER, dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut writer = Writer(writer);
    let mut lines = BufReader::new(writer.0.stdout.take().unwrap()).lines();
    let mut reports = lines.by_ref().filter_map(|line| {
        // The test harness writes lines of its own.
        line.unwrap().strip_prefix("committed ")?.parse().ok()
    });
    let mut last = 0;
    for _ in 0..commits {
        last = reports.next().expect("it writes until it is killed");
    }
    drop(writer);
    last
}

fn write_for_ever(dir: &std::path::Path) -> ! {
    let held = Directories::hold(&dir.join("run"), &dir.join("lib")).unwrap();
    let found = scan(&DiskFiles::new(&held.steps));
    for tidying in found.tidying.values() {
        held.steps.run(tidying).unwrap();
    }
    let mut generation = found.records.first().map_or(0, |found| found.record.generation);
    let mut out = std::io::stdout();
    loop {
        generation += 1;
        held.steps.run(&commit_plan(&record(generation))).unwrap();
        // A line of its own, whatever the test harness began.
        writeln!(out, "\ncommitted {generation}").unwrap();
    }
}
