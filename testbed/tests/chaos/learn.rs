//! Tests: a recording of real processes becomes a history, which is perturbed; a known bug is found by it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Runs the program in that folder; its status, and all that it printed.
fn testbed(folder: &Path, words: &[&str], mutant: Option<&str>) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.arg("chaos").args(words).current_dir(folder).env_remove("CARGO");
    command.envs(mutant.map(|name| ("VOLVOX_MUTANT", name)));
    let Output { status, stdout, stderr } = command.output().expect("it is built");
    let printed = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    (status.code().expect("it ended by itself"), printed)
}

/// A folder of its own; removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("volvox-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("it can be made");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const LIVED: &str = "about: x
pods: {client: {app: client}, web-0: {app: web}}
manifests:
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: web}
  spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}]}]}
steps:
- create: {pod: web-1, labels: {app: web}}
- label: {pod: client, labels: {app: other}}
- wait: applied
- kill
- start
- wait: ready
- delete: web-1
- delete: networkpolicy/web
- wait: applied
";

#[test]
fn a_recording_is_learned_and_perturbed_and_a_known_bug_is_found_by_it() {
    let folder = Folder::new("learned");
    let place = &folder.0;
    fs::write(place.join("lived.yaml"), LIVED).expect("it can be written");
    let (status, printed) = testbed(place, &["run", "./lived.yaml", "--html", "lived.html"], None);
    assert_eq!(status, 0, "{printed}");
    let ring = |name: &str| format!("lived.recordings/lived/{name}");
    let rings = [ring("flight.previous.ring"), ring("flight.ring")];
    let learn = |more: &[&str], mutant| {
        testbed(place, &[&["learn", &rings[0], &rings[1]], more].concat(), mutant)
    };
    let (status, printed) = learn(&["--seeds", "1", "--most", "150"], None);
    assert_eq!(status, 0, "{printed}");
    assert!(printed.contains("deaths, one at each message") && printed.contains(" a second"));
    let text = fs::read_to_string(place.join("learned.yaml")).expect("it was kept");
    for words in ["pod: default/web-1", "delete: default/web-1", "- label:", "- apply:", "- kill"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let (status, printed) = testbed(place, &["run", "./learned.yaml", "--in", "sim"], None);
    assert_eq!(status, 0, "{printed}");

    let (status, printed) = learn(&["--seeds", "1", "--most", "400"], Some(MUTANT));
    assert_eq!(status, 1, "{printed}");
    let again = ["run", "./learned.violation-1.yaml", "--in", "sim"];
    let (status, printed) = testbed(place, &again, Some(MUTANT));
    assert_eq!(status, 1, "{printed}");

    fs::write(place.join("rubbish.ring"), "rubbish").expect("it can be written");
    for name in ["rubbish.ring", "nothing.ring"] {
        let (status, printed) = testbed(place, &["learn", name], None);
        assert!(status == 2 && printed.contains(name), "{status}: {printed}");
    }
}

/// Who asks for a deletion is answered before it is done: seen where the agent dies a moment later.
const MUTANT: &str = "delete-answered-early";
