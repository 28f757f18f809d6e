//! Tests: what a scan makes of each state that a directory of records can be in.

use std::collections::BTreeMap;

use super::{MemoryFs, sample};
use crate::{
    model::{EndpointId, IdentityId, Labels},
    ports::FsOp,
    state_directory::{
        EndpointRecord, Form, ScannedDirectory, SecurityLabels, StateError, StateFiles, scan,
    },
};

/// A directory made of one letter for each file: `j` a good `ep_config.json`, `J` a torn one,
/// `h` and `H` likewise `ep_config.h`, `l` a `lxc_config.h`.
fn fill(fs: &mut MemoryFs, dir: &str, id: u16, files: &str) {
    fs.make_dir(dir.as_ref()).unwrap();
    let record = sample(id, 1);
    for letter in files.chars() {
        let (name, bytes) = match letter.to_ascii_lowercase() {
            'j' => ("ep_config.json", record.to_json()),
            'h' => ("ep_config.h", record.to_header(&record.to_json())),
            _ => ("lxc_config.h", record.to_header(&record.to_json())),
        };
        let end = if letter.is_ascii_uppercase() { bytes.len() / 2 } else { bytes.len() };
        fs.write(&format!("{dir}/{name}"), &bytes[..end]);
    }
}

fn dirs(found: &ScannedDirectory) -> Vec<&str> {
    found.records.iter().map(|found| found.dir.as_str()).collect()
}

fn aside(found: &ScannedDirectory) -> Vec<&str> {
    found.quarantined.iter().map(|bad| bad.dir.as_str()).collect()
}

#[test]
fn each_state_of_a_directory_is_told_apart() {
    // Directories with their files; then what is restored, removed and put aside.
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a [&'a str], &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        (&[("7", "jh")], &["7"], &[], &[]),
        (&[("7", "h")], &["7"], &[], &[]),
        (&[("7", "l")], &["7"], &[], &[]),
        (&[("7", "Jh")], &["7"], &[], &[]),
        (&[("7", "JH")], &[], &[], &["7"]),
        (&[("7", "")], &[], &[], &["7"]),
        (
            &[("7", "j"), ("7_next", "j"), ("7_next_fail", "J")],
            &["7"],
            &["7_next", "7_next_fail"],
            &[],
        ),
        (&[("7_next", "j")], &["7_next"], &[], &[]),
        (&[("7_next_fail", "j")], &["7_next_fail"], &[], &[]),
        (&[("7_next", "j"), ("7_next_fail", "j")], &["7_next"], &["7_next_fail"], &[]),
        (&[("7_next", "")], &[], &["7_next"], &[]),
        (&[("7_next", "J")], &[], &[], &["7_next"]),
        (&[("7", "J"), ("7_next", "j")], &["7_next"], &[], &["7"]),
        (
            &[("7", "J"), ("7_next", ""), ("7_next_fail", "j")],
            &["7_next_fail"],
            &["7_next"],
            &["7"],
        ),
        (&[("07", "j"), ("+7", "j"), ("7_old", "j"), ("70000", "j"), ("0", "j")], &[], &[], &[]),
        (&[("templates", "j"), ("quarantine", ""), ("globals", "")], &[], &[], &[]),
    ];
    for (made, restored, removed, put_aside) in cases {
        let mut fs = MemoryFs::default();
        for (dir, files) in *made {
            fill(&mut fs, dir, 7, files);
        }
        let found = scan(&fs);
        assert_eq!(dirs(&found), *restored, "{made:?}");
        assert_eq!(found.incomplete, *removed, "{made:?}");
        assert_eq!(aside(&found), *put_aside, "{made:?}");
        after_tidying(fs, &found);
    }
}

/// Once tidied there is nothing more to tidy, the same endpoints are found, and each lives in the
/// directory of its number.
fn after_tidying(mut fs: MemoryFs, found: &ScannedDirectory) {
    for op in found.tidying.values().flatten() {
        fs.apply(op).unwrap();
    }
    let again = scan(&fs);
    assert_eq!(again.tidying, BTreeMap::new());
    let homes: Vec<_> = found.records.iter().map(|found| found.record.id.to_string()).collect();
    assert_eq!(dirs(&again), homes);
}

#[test]
fn says_which_file_sufficed_and_what_was_wrong_with_the_others() {
    let mut fs = MemoryFs::default();
    fill(&mut fs, "7", 7, "Jhl");
    let found = scan(&fs);
    assert_eq!(found.records[0].form, Form::Header);
    let errors = &found.records[0].passed_over;
    assert!(matches!(&errors[..], [StateError::Syntax { file, .. }] if file == "7/ep_config.json"));
}

#[test]
fn a_record_in_another_s_directory_is_not_believed() {
    let mut fs = MemoryFs::default();
    fill(&mut fs, "7", 7, "j");
    fill(&mut fs, "8", 7, "j");
    let found = scan(&fs);
    assert_eq!(dirs(&found), ["7"]);
    assert_eq!(found.quarantined[0].reason, StateError::Misplaced { dir: "8".into(), id: 7 });
}

#[test]
fn quarantine_never_overwrites_and_says_why() {
    let mut fs = MemoryFs::default();
    for place in ["7", "quarantine/7.1", "quarantine/7.2"] {
        fill(&mut fs, place, 7, "J");
    }
    let found = scan(&fs);
    for op in found.tidying.values().flatten() {
        fs.apply(op).unwrap();
    }
    for retained in
        ["7.1/ep_config.json", "7.2/ep_config.json", "7.3/ep_config.json", "7.3/reason.txt"]
    {
        assert!(fs.has(&format!("quarantine/{retained}")), "{retained}");
    }
    assert!(!fs.has("7"));
}

#[test]
fn another_agents_health_endpoint_goes_and_the_host_endpoint_stays() {
    let mut fs = MemoryFs::default();
    // What another agent wrote has no writing of ours.
    for (id, name, generation) in [(4, "health", 0), (5, "host", 1), (6, "health", 1)] {
        let security = SecurityLabels { id: IdentityId(1), labels: Labels::reserved(name) };
        let record = EndpointRecord { security, ..sample(id, generation) };
        fs.write(&format!("{id}/ep_config.json"), &record.to_json());
    }
    let mut found = scan(&fs);
    assert_eq!(found.health, ["4"]);
    assert_eq!(dirs(&found), ["5", "6"]);
    assert!(found.quarantined.is_empty());
    assert_eq!(found.tidying, [(EndpointId(4), vec![FsOp::Remove("4".into())])].into());
    assert!(found.has_host());
    assert_eq!(found.lay_host_down(), [EndpointId(5)].into());
    assert!(dirs(&found) == ["6"] && !found.has_host());
}

/// A directory of which some things cannot be read.
struct Refusing<'a> {
    fs: &'a MemoryFs,
    names: &'static [&'static str],
}

impl StateFiles for Refusing<'_> {
    fn directories(&self, path: &str) -> Result<Vec<String>, String> {
        match self.names.contains(&path) {
            true => Err("Input/output error".to_owned()),
            false => self.fs.directories(path),
        }
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        match self.names.contains(&path) {
            true => Err("Input/output error".to_owned()),
            false => self.fs.read(path),
        }
    }
}

#[test]
fn what_cannot_be_read_is_neither_absent_nor_bad_and_is_left_as_it_is() {
    let mut fs = MemoryFs::default();
    // A build that was killed, too: it is older or newer.
    for (dir, id) in [("7", 7), ("7_next", 7), ("8", 8)] {
        fill(&mut fs, dir, id, "jh");
    }
    let numbers = |found: &ScannedDirectory| {
        found.records.iter().map(|it| it.record.id.0).collect::<Vec<_>>()
    };
    for names in [&["7/ep_config.json"][..], &["7/ep_config.json", "7/ep_config.h"]] {
        let found = scan(&Refusing { fs: &fs, names });
        assert_eq!(numbers(&found), [8]);
        assert!(found.unread.contains_key(&EndpointId(7)), "{found:?}");
        assert!(found.tidying.is_empty() && found.quarantined.is_empty(), "{found:?}");
    }
    for names in [&[""][..], &["quarantine"]] {
        let found = scan(&Refusing { fs: &fs, names });
        assert!(found.unlisted.is_some() && found.records.is_empty() && found.tidying.is_empty());
    }
    let found = scan(&fs);
    assert_eq!(numbers(&found), [7, 8]);
    assert!(found.unread.is_empty() && found.unlisted.is_none());
}
