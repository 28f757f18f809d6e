//! Tests: outside of a checkout the program needs neither cargo nor sources; its manual page and completions.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// The programs that a package would have beside each other.
const PROGRAMS: [&str; 4] = ["testbed", "volvox-agent", "volvox", "volvox-cni"];

fn output(words: &[&str]) -> (bool, String) {
    let Output { status, stdout, .. } =
        Command::new(env!("CARGO_BIN_EXE_testbed")).args(words).output().expect("it is built");
    (status.success(), String::from_utf8(stdout).expect("it is text"))
}

#[test]
fn histories_happen_where_there_is_neither_cargo_nor_a_checkout() {
    let program = Path::new(env!("CARGO_BIN_EXE_testbed"));
    let built = program.parent().expect("it is in a directory");
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is in a checkout");
    let folder = std::env::temp_dir().join(format!("volvox-{}-installed", std::process::id()));
    fs::create_dir(&folder).expect("it can be made");
    for name in PROGRAMS {
        let (from, to) = (built.join(name), folder.join(name));
        // On another file system it has to be copied.
        if fs::hard_link(&from, &to).is_err() {
            fs::copy(&from, &to).expect("it is built");
        }
    }
    // Nothing of the checkout is seen.
    let script =
        "mount -t tmpfs none \"$1\" && cd / && exec \"$2\"/testbed chaos run kill-under-traffic";
    let Output { status, stdout, stderr } = Command::new("unshare")
        .args(["--mount", "--propagation=private", "sh", "-c", script, "sh"])
        .args([checkout, &folder])
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .expect("unshare is there");
    let printed = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    let missing = Command::new(folder.join("testbed"))
        .args(["chaos", "run", "kill-under-traffic"])
        .env("VOLVOX_PROGRAMS", "/no/such/place")
        .env_remove("CARGO")
        .output()
        .expect("it is there");
    fs::remove_dir_all(&folder).expect("it is there");
    assert!(status.success(), "{printed}");
    assert!(printed.contains("in the lab, seed 1") && printed.contains(": well"), "{printed}");
    let complaint =
        String::from_utf8_lossy(&[missing.stdout, missing.stderr].concat()).into_owned();
    assert_eq!(missing.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("name the directory of Volvox's programs"), "{complaint}");
}

#[test]
fn the_manual_page_and_completions_know_all_verbs() {
    let (ended_well, page) = output(&["chaos", "manual"]);
    assert!(ended_well && page.contains(".TH"), "{page}");
    for words in ["TESTBED CHAOS GAUNTLET", "TESTBED CHAOS LEARN", "\\-\\-shrink"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains("TESTBED CHAOS INSIDE"), "{page}");
    for shell in ["bash", "zsh", "fish"] {
        let (ended_well, script) = output(&["chaos", "completions", shell]);
        assert!(ended_well && script.contains("gauntlet") && script.contains("learn"), "{shell}");
    }
}
