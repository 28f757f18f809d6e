//! Tests: the command as people and scripts call it.

use std::{
    fs,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

fn chaos(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    // The programs are built: cargo holds a lock that its child would wait for.
    command.arg("chaos").args(words).env_remove("CARGO");
    command
}

fn output(words: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = chaos(words).output().expect("it is built");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (status.code().expect("it ended by itself"), text(stdout), text(stderr))
}

fn file(name: &str, text: &str) -> String {
    let path = std::env::temp_dir().join(format!("volvox-{}-{name}", std::process::id()));
    fs::write(&path, text).expect("it can be written");
    path.to_str().expect("it is text").to_owned()
}

#[test]
fn the_list_has_files_and_scenarios() {
    let (status, listed, _) = output(&["list"]);
    assert_eq!(status, 0);
    for name in ["kill-under-traffic", "lab, sim", "a_restart_while_another_cluster_is_away"] {
        assert!(listed.contains(name), "{name}: {listed}");
    }
}

#[test]
fn a_history_is_explained_in_plain_words() {
    let (status, told, _) = output(&["explain", "kill-under-traffic"]);
    assert_eq!(status, 0);
    for words in [
        "The agent is killed (SIGKILL).",
        "5 times.",
        "no packets and connections lost (guarantee 1)",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn bad_input_is_refused_before_anything_starts() {
    let bad = file("bad.yaml", "about: x\nsteps: [kil]\n");
    let nothing = file("nothing.yaml", "about: x\nsteps: [{kill: {before: nosuchcall}}]\n");
    let flags = file("flags.yaml", "about: x\nsteps: [{flags: {mtu: 1400}}, restart]\n");
    for (words, says) in [
        (vec!["run", &bad], ":2:9: \"kil\" is not a word here: did you mean kill?".to_owned()),
        (vec!["run", "kill-under-trafic"], "did you mean kill-under-traffic?".to_owned()),
        (
            vec!["run", "/no/such/file.yaml"],
            "cannot read the history /no/such/file.yaml".to_owned(),
        ),
        (vec!["run", &nothing], "the kernel has no system call nosuchcall".to_owned()),
        (vec!["run", "--in", "sim", &flags], "its agents have no flags".to_owned()),
        (
            vec!["run", "--junit", "/no/such/x.xml", &flags],
            "cannot write /no/such/x.xml".to_owned(),
        ),
    ] {
        let (status, printed, complaint) = output(&words);
        assert_eq!(status, 2, "{words:?}: {printed} {complaint}");
        assert!(complaint.contains(&says), "{words:?}: {complaint}");
        assert_eq!(printed, "", "{words:?}");
    }
    [bad, nothing, flags].iter().for_each(|it| fs::remove_file(it).expect("it is there"));
}

#[test]
fn scripts_read_the_status_and_junit() {
    let wrong = "about: x\npods: {a: {app: a}, b: {app: b}}\n\
        traffic: [{from: a, to: b, kind: connect, expected: denied}]\nsteps: [restart]\n";
    let (wrong, xml) = (file("wrong.yaml", wrong), file("out.xml", ""));
    let (status, printed, _) =
        output(&["run", "--in", "sim", "--junit", &xml, &wrong, "disk-full"]);
    assert_eq!(status, 1, "{printed}");
    assert!(printed.contains("BROKEN"), "{printed}");
    let written = fs::read_to_string(&xml).expect("it was written");
    assert!(written.contains("tests=\"2\" failures=\"1\" errors=\"0\""), "{written}");
    assert!(written.contains("packets let through that are denied"), "{written}");
    [wrong, xml].iter().for_each(|it| fs::remove_file(it).expect("it is there"));
}

/// Processes that know which process waits for their lab.
fn of_the_lab(outside: u32) -> usize {
    let wanted = format!("VOLVOX_LAB_OUTSIDE={outside}");
    let processes = fs::read_dir("/proc").expect("it is there").flatten();
    let has = |path: std::path::PathBuf| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|it| it == wanted.as_bytes())
    };
    processes.filter(|process| has(process.path())).count()
}

fn within_a_minute(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn whoever_interrupts_it_leaves_nothing_behind() {
    let long = file("long.yaml", "about: x\npods: {a: {app: a}}\nsteps: [{sleep: 10m}]\n");
    // Who runs tests in the background may ignore that signal, and programs inherit it.
    let usual = chaos(&["run", &long]);
    let mut child = Command::new("env")
        .arg("--default-signal=INT")
        .arg(usual.get_program())
        .args(usual.get_args())
        .env_remove("CARGO")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it is built");
    // The lab's first process, its agent, and more.
    within_a_minute("the lab begins", || of_the_lab(child.id()) >= 2);
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.expect("kill is there").success());
    child.wait().expect("it ends");
    within_a_minute("the lab ends", || of_the_lab(child.id()) == 0);
    fs::remove_file(long).expect("it is there");
}

#[test]
fn a_gauntlet_goes_on_where_it_was_interrupted() {
    let state = file("gauntlet.json", "");
    fs::remove_file(&state).expect("it is there");
    let walk = |endpoints: &str| {
        output(&["gauntlet", "restart", "--endpoints", endpoints, "--most", "6", "--state", &state])
    };
    let tried = |printed: &str| -> (u32, u32) {
        let numbers: Vec<u32> = printed.split(' ').filter_map(|word| word.parse().ok()).collect();
        // Died, of all, endpoints, not reached.
        (numbers[0] + numbers[3], numbers[1])
    };
    let (status, first, complaint) = walk("12");
    assert_eq!(status, 0, "{first} {complaint}");
    let (done, all) = tried(&first);
    assert!(done == 6 && all > 300 && first.contains("0 violations"), "{first}");
    let (status, second, complaint) = walk("12");
    assert_eq!(status, 0, "{second} {complaint}");
    assert_eq!(tried(&second), (12, all), "{second}");
    let (status, _, complaint) = walk("13");
    assert!(status == 2 && complaint.contains("take another --state"), "{complaint}");
    fs::write(&state, "{}").expect("it can be written");
    let (status, _, complaint) = walk("12");
    assert!(status == 2 && complaint.contains("is no state of a gauntlet"), "{complaint}");
    let (status, _, complaint) = output(&["gauntlet", "restart", "--state", "/run/gauntlet.json"]);
    assert!(status == 2 && complaint.contains("is below /run"), "{complaint}");
    fs::remove_file(&state).expect("it is there");
    fs::remove_file(state.replace(".json", ".lock")).expect("it is there");
}

/// A few deaths of each, of calls of all kinds; the whole gauntlets are a command.
#[test]
fn who_dies_in_any_operation_is_not_noticed() {
    let state = file("gauntlets.json", "");
    fs::remove_file(&state).expect("it is there");
    let (status, printed, complaint) =
        output(&["gauntlet", "all", "--endpoints", "14", "--most", "2", "--state", &state]);
    assert_eq!(status, 0, "{printed} {complaint}");
    for operation in [
        "a restart",
        "a creation",
        "a deletion",
        "a policy change",
        "a service change",
        "an identity change",
        "an upgrade",
        "an uninstall",
    ] {
        let its = printed.lines().find(|line| line.contains(&format!("calls of {operation} ")));
        let its = its.unwrap_or_else(|| panic!("{operation}: {printed} {complaint}"));
        assert!(its.ends_with("0 violations"), "{its}");
        // Died, of all, endpoints, not reached.
        let numbers: Vec<u32> = its.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(numbers[0] + numbers[3] == 2 && numbers[1] > 100, "{its}");
    }
    let (status, _, complaint) = output(&["gauntlet", "service", "--endpoints", "11"]);
    assert!(status == 2 && complaint.contains("take --endpoints 14 or more"), "{complaint}");
    fs::remove_file(&state).expect("it is there");
    fs::remove_file(state.replace(".json", ".lock")).expect("it is there");
}

/// A known bug, switched into real processes: services go before anybody has said that they are no more.
#[test]
fn a_mutant_on_real_processes_is_found_shrunk_and_kept() {
    let folder = std::env::temp_dir().join(format!("volvox-{}-shrunk", std::process::id()));
    fs::create_dir(&folder).expect("it can be made");
    let text = "about: x\npods: {a: {app: a}, b: {app: b}, c: {app: c}}\n\
        manifests:\n- {apiVersion: v1, kind: Service, metadata: {name: b}, \
        spec: {selector: {app: b}, ports: [{port: 80}]}}\n\
        traffic:\n- {from: a, to: service/b, kind: connect}\n- {from: c, to: b, kind: udp, port: 90}\n\
        steps:\n- restart: {killed: [{at: api}, {after: 20ms}]}\nexpect: {leaks: any}\n";
    fs::write(folder.join("bug.yaml"), text).expect("it can be written");
    let run = |words: &[&str], mutant: Option<&str>| {
        let mut command = chaos(&[&["run"], words].concat());
        command.current_dir(&folder).envs(mutant.map(|name| ("VOLVOX_MUTANT", name)));
        let Output { status, stdout, stderr } = command.output().expect("it is built");
        let printed = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        (status.code().expect("it ended by itself"), printed)
    };
    let mutant = Some("services-pruned-early");
    let (status, printed) = run(&["./bug.yaml", "--shrink"], mutant);
    assert_eq!(status, 1, "{printed}");
    assert!(printed.contains("again: testbed chaos run bug.shrunk.yaml"), "{printed}");
    let shrunk = fs::read_to_string(folder.join("bug.shrunk.yaml")).expect("it was kept");
    assert!(shrunk.contains("service/b") && shrunk.contains("kind: Service"), "{shrunk}");
    assert!(!shrunk.contains("udp") && !shrunk.contains("killed"), "{shrunk}");
    let (status, printed) = run(&["./bug.shrunk.yaml"], mutant);
    assert_eq!(status, 1, "{printed}");
    let (status, printed) = run(&["./bug.shrunk.yaml", "--html", "page.html"], None);
    assert_eq!(status, 0, "{printed}");
    let page = fs::read_to_string(folder.join("page.html")).expect("it was written");
    assert!(page.contains("class=death") && page.contains("flight.previous.ring"), "{page}");
    let ring = fs::metadata(folder.join("page.recordings/bug.shrunk/flight.ring"));
    assert!(ring.expect("it is beside").len() > 100_000);
    let faults = fs::read_to_string(folder.join("page.recordings/bug.shrunk/faults.json"));
    assert!(faults.expect("it is beside").contains("the agent dies"));
    let (status, printed) = run(&["./bug.yaml"], Some("services-pruned-erly"));
    assert!(status == 2 && printed.contains("did you mean services-pruned-early?"), "{printed}");
    fs::remove_dir_all(folder).expect("it is there");
}
