//! Tests: the list of plugins is installed and removed, and other lists get their names back.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use serde_json::{Value, json};

use crate::{
    CONFLIST_FILE, CniVersion, Command, Composition, Conflist, CustomConflist, NetworkConfig,
};

fn list() -> Conflist {
    Conflist {
        socket: "/run/v/agent.sock".into(),
        delete_queue: "/run/v/deleteQueue".into(),
        debug: true,
        log_file: Some("/var/log/volvox-cni.log".into()),
        composition: Composition::Alone,
    }
}

/// What is written, as a runtime reads it.
fn written(list: &Conflist) -> Value {
    let dir = tempfile::tempdir().unwrap();
    list.install(dir.path(), false).unwrap();
    read(&dir.path().join(CONFLIST_FILE))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_plugin_reads_what_the_agent_writes() {
    let json = written(&list());
    assert_eq!((&json["cniVersion"], &json["name"]), (&"1.0.0".into(), &"volvox".into()));
    // A runtime hands each plugin its part, with the list's version and name.
    let mut plugin = json["plugins"][0].clone();
    plugin["cniVersion"] = json["cniVersion"].clone();
    plugin["name"] = json["name"].clone();
    let config = NetworkConfig::parse(plugin.to_string().as_bytes(), Command::Add).unwrap();
    assert_eq!(config.version, CniVersion::V1_0_0);
    assert_eq!((config.socket, config.delete_queue), (list().socket, list().delete_queue));
    assert_eq!((config.debug, config.log_file), (true, list().log_file));
}

#[test]
fn others_are_set_aside_and_get_their_names_back() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("net.d");
    fs::create_dir(&dir).unwrap();
    for name in ["10-bridge.conf", "99-loop.conflist", "README"] {
        fs::write(dir.join(name), name).unwrap();
    }
    list().install(&dir, true).unwrap();
    let aside = ["10-bridge.conf.volvox_bak", "99-loop.conflist.volvox_bak"];
    assert_eq!(names(&dir), [CONFLIST_FILE, aside[0], aside[1], "README"]);

    // Written anew by its owner meanwhile.
    fs::write(dir.join("99-loop.conflist"), "newer").unwrap();
    let done = Conflist::uninstall(&dir).unwrap();
    assert_eq!(done.len(), 2, "{done:?}");
    assert_eq!(names(&dir), ["10-bridge.conf", "99-loop.conflist", aside[1], "README"]);
    assert_eq!(fs::read_to_string(dir.join("99-loop.conflist")).unwrap(), "newer");
}

#[test]
fn one_that_runtimes_take_before_ours_is_named() {
    let dir = tempfile::tempdir().unwrap();
    list().install(dir.path(), false).unwrap();
    assert_eq!(Conflist::preceded_by(dir.path()), None);
    fs::write(dir.path().join("10-bridge.conf"), "{}").unwrap();
    fs::write(dir.path().join("00-README"), "").unwrap();
    assert_eq!(Conflist::preceded_by(dir.path()), None);
    let first = dir.path().join("00-bridge.conf");
    fs::write(&first, "{}").unwrap();
    assert_eq!(Conflist::preceded_by(dir.path()), Some(first));
    list().install(dir.path(), true).unwrap();
    assert_eq!(Conflist::preceded_by(dir.path()), None);
}

#[test]
fn it_is_written_where_it_is_told_and_one_of_before_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    // Of the same plugin, but made by hand.
    let mine = written(&list()).to_string().replace("\"volvox\"", "\"second\"");
    fs::write(path("20-second.conflist"), mine).unwrap();
    list().install(dir.path(), false).unwrap();
    list().install(&path("10-mine.conflist"), false).unwrap();
    assert_eq!(names(dir.path()), ["10-mine.conflist", "20-second.conflist"]);
    let list = Conflist { debug: false, log_file: None, ..list() };
    list.install(&path("deeper/30-more.conflist"), false).unwrap();
    assert_eq!(names(&path("deeper")), ["30-more.conflist"]);
    list.install(&path("30-more.conflist"), true).unwrap();
    let aside = "20-second.conflist.volvox_bak";
    assert_eq!(names(dir.path()), [aside, "30-more.conflist", "deeper"]);
    // Whatever it was called then.
    Conflist::uninstall(&path("40-other.conflist")).unwrap();
    assert_eq!(names(dir.path()), ["20-second.conflist", "deeper"]);
}

#[test]
fn an_unchanged_list_is_not_written_and_others_stay_unless_told() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("10-bridge.conf"), "").unwrap();
    list().install(dir.path(), false).unwrap();
    let inode = || fs::metadata(dir.path().join(CONFLIST_FILE)).unwrap().ino();
    let first = inode();
    list().install(dir.path(), false).unwrap();
    assert_eq!(inode(), first);
    Conflist { debug: false, ..list() }.install(dir.path(), false).unwrap();
    assert_ne!(inode(), first);
    assert_eq!(names(dir.path()), [CONFLIST_FILE, "10-bridge.conf"]);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = list().install(&file.path().join("net.d/"), true).unwrap_err().to_string();
    assert!(error.contains("net.d") && error.contains("--write-cni-conf-when-ready"), "{error}");
    assert_eq!(Conflist::uninstall(Path::new("/none/such")).unwrap(), Vec::<String>::new());
}

fn into(network: &str) -> Conflist {
    let composition =
        Composition::Into { network: network.to_owned(), mode: "generic-veth".to_owned() };
    Conflist { composition, ..list() }
}

fn types(list: &Value) -> Vec<&str> {
    list["plugins"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect()
}

#[test]
fn portmap_and_flannel_stand_where_they_belong() {
    let portmap = written(&Conflist { composition: Composition::Portmap, ..list() });
    assert_eq!(types(&portmap), ["volvox-cni", "portmap"]);
    assert_eq!(portmap["plugins"][1]["capabilities"], json!({"portMappings": true}));
    assert_eq!(portmap["plugins"][0].get("chaining-mode"), None);
    let flannel = written(&Conflist { composition: Composition::Flannel, ..list() });
    assert_eq!(types(&flannel), ["flannel", "portmap", "volvox-cni"]);
    assert_eq!(flannel["plugins"][2]["chaining-mode"], "flannel");
    // Of whatever make, one of ours under another name goes.
    let dir = tempfile::tempdir().unwrap();
    for composition in [Composition::Portmap, Composition::Flannel] {
        let before = Conflist { composition, ..list() };
        before.install(&dir.path().join("50-before.conflist"), false).unwrap();
        list().install(dir.path(), false).unwrap();
        assert_eq!(names(dir.path()), [CONFLIST_FILE]);
    }
}

#[test]
fn ours_is_put_behind_the_plugins_of_a_target_and_follows_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let error = into("site").install(dir.path(), true).unwrap_err().to_string();
    assert!(error.contains("network site") && error.contains("--cni-chaining-target"), "{error}");
    assert_eq!(names(dir.path()), [""; 0], "nothing half is written");

    let site = json!({"cniVersion": "0.4.0", "name": "site", "extra": 1,
        "plugins": [{"type": "bridge"}, {"type": "portmap"}]});
    fs::write(path("10-site.conflist"), site.to_string()).unwrap();
    for _ in 0..2 {
        into("site").install(dir.path(), true).unwrap();
        let ours = read(&path(CONFLIST_FILE));
        assert_eq!(types(&ours), ["bridge", "portmap", "volvox-cni"]);
        assert_eq!(ours["plugins"][2]["chaining-mode"], "generic-veth");
        assert_eq!((&ours["cniVersion"], &ours["extra"]), (&json!("0.4.0"), &json!(1)));
        assert_eq!(names(dir.path()), [CONFLIST_FILE, "10-site.conflist.volvox_bak"]);
    }
    // Its plugin comes again with another list.
    let newer = json!({"cniVersion": "0.4.0", "name": "site", "plugins": [{"type": "ptp"}]});
    fs::write(path("10-site.conflist"), newer.to_string()).unwrap();
    into("site").install(dir.path(), true).unwrap();
    assert_eq!(types(&read(&path(CONFLIST_FILE))), ["ptp", "volvox-cni"]);
    assert!(Conflist::installed(dir.path()).is_some());
    Conflist::uninstall(dir.path()).unwrap();
    assert_eq!(names(dir.path()), ["10-site.conflist"]);
    assert_eq!(read(&path("10-site.conflist")), newer);
}

#[test]
fn a_target_may_be_any_network_and_one_plugin_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let one = json!({"cniVersion": "0.3.1", "name": "one", "type": "bridge", "bridge": "b0"});
    fs::write(path("10-one.conf"), one.to_string()).unwrap();
    into("*").install(dir.path(), false).unwrap();
    let ours = read(&path(CONFLIST_FILE));
    assert_eq!((&ours["name"], &ours["cniVersion"]), (&json!("one"), &json!("0.3.1")));
    assert_eq!(ours["plugins"][0], json!({"type": "bridge", "bridge": "b0"}));
    assert_eq!(types(&ours), ["bridge", "volvox-cni"]);
    let old = one.to_string().replace("0.3.1", "0.2.0");
    fs::write(path("10-one.conf"), old).unwrap();
    let error = into("one").install(dir.path(), false).unwrap_err().to_string();
    assert!(error.contains("0.2.0") && error.contains("cniVersion"), "{error}");
}

#[test]
fn what_others_add_stays_unless_ours_is_the_only_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(CONFLIST_FILE);
    list().install(dir.path(), false).unwrap();
    let mut with_istio = read(&path);
    with_istio["plugins"].as_array_mut().unwrap().push(json!({"type": "istio-cni"}));
    fs::write(&path, with_istio.to_string()).unwrap();
    list().install(dir.path(), false).unwrap();
    assert_eq!(types(&read(&path)), ["volvox-cni", "istio-cni"]);
    assert!(Conflist::installed(dir.path()).is_some());
    // What ours is told has changed: the list is written anew, and they add themselves again.
    Conflist { debug: false, ..list() }.install(dir.path(), false).unwrap();
    assert_eq!(types(&read(&path)), ["volvox-cni"]);
    fs::write(&path, with_istio.to_string()).unwrap();
    list().install(dir.path(), true).unwrap();
    assert_eq!(types(&read(&path)), ["volvox-cni"]);
}

#[test]
fn a_list_of_ones_own_is_written_as_it_is_and_a_wrong_one_is_refused_by_name() {
    let text = br#"{ "cniVersion": "1.0.0", "name": "mine",
        "plugins": [{"type": "bridge"}, {"type": "volvox-cni", "mtu": 1400, "chaining-mode": "generic-veth"}]}"#;
    let custom = CustomConflist::parse(text).unwrap();
    assert_eq!((custom.mtu, custom.chained), (Some(1400), true));
    let dir = tempfile::tempdir().unwrap();
    let list = Conflist { composition: Composition::Custom(custom), ..list() };
    list.install(dir.path(), false).unwrap();
    assert_eq!(fs::read(dir.path().join(CONFLIST_FILE)).unwrap(), text);
    let alone = CustomConflist::parse(br#"{"name": "a", "type": "volvox-cni"}"#).unwrap();
    assert_eq!((alone.mtu, alone.chained), (None, false));
    let own = |more: &str| format!(r#"{{"plugins": [{{"type": "volvox-cni", {more}}}]}}"#);
    for (text, word) in [
        ("{".to_owned(), "no JSON"),
        ("[]".to_owned(), "none at all"),
        (r#"{"plugins": [{"type": "bridge"}]}"#.to_owned(), "but bridge"),
        (own(r#""mtu": 20"#), "mtu of volvox-cni is 20"),
        (own(r#""mtu": "1400""#), "1400"),
        (own(r#""mtu": -1"#), "-1"),
        (own(r#""mtu": 70000"#), "65535"),
        (own(r#""chaining-mode": "cilium""#), "generic-veth"),
    ] {
        let error = CustomConflist::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(word), "{error} does not say {word}");
    }
}
