//! The lab itself.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use volvox_testbed::lab::{self, Netns};

#[test]
fn is_apart_from_the_machine() {
    lab::test("is_apart_from_the_machine", || {
        let links = fs::read_dir("/sys/class/net")?.count();
        assert_eq!(links, 1, "only loopback");
        assert_eq!(std::process::id(), 1);
        let pod = Netns::create("a")?;
        let inode = || fs::read_link("/proc/thread-self/ns/net");
        assert_ne!(pod.run(|| Ok(inode()?))?, inode()?);
        Ok(())
    });
}

/// A lab in which a process sleeps, told from all others by how long.
struct Sleeper {
    outer: Child,
    seconds: String,
}

impl Sleeper {
    fn start() -> Self {
        let seconds = format!("1000.{}", std::process::id());
        let outer = Command::new(env!("CARGO_BIN_EXE_testbed"))
            .args(["lab", "sleep", &seconds])
            .stdin(Stdio::null())
            .spawn()
            .expect("the testbed starts");
        Self { outer, seconds }
    }

    /// Whether the process in the lab is there.
    fn sleeps(&self) -> bool {
        let expected = format!("sleep\0{}\0", self.seconds);
        let processes = fs::read_dir("/proc").expect("/proc is mounted").flatten();
        processes
            .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
            .any(|command| command == expected.as_bytes())
    }

    fn wait_until(&self, sleeps: bool) {
        let waited =
            lab::wait_for(&format!("sleeping is {sleeps}"), || Ok(self.sleeps() == sleeps));
        assert!(waited.is_ok(), "{waited:?}");
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.outer.kill();
        let _ = self.outer.wait();
    }
}

#[test]
fn ends_with_its_outer_process_even_by_sigkill() {
    let mut lab = Sleeper::start();
    lab.wait_until(true);
    lab.outer.kill().unwrap();
    lab.outer.wait().unwrap();
    lab.wait_until(false);
}

#[test]
fn an_unknown_test_has_not_passed() {
    let outcome = std::panic::catch_unwind(|| lab::test("no_such_test", || Ok(())));
    assert!(outcome.is_err());
}
