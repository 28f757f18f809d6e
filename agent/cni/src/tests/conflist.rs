//! Tests: the list of plugins is installed and removed, and other lists get their names back.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use crate::{CONFLIST_FILE, CniVersion, Command, Conflist, NetworkConfig};

fn list() -> Conflist {
    Conflist {
        socket: "/run/v/agent.sock".into(),
        delete_queue: "/run/v/deleteQueue".into(),
        debug: true,
        log_file: Some("/var/log/volvox-cni.log".into()),
    }
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
    let json = list().to_json();
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
    let mine = list().to_json().to_string().replace("\"volvox\"", "\"second\"");
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
