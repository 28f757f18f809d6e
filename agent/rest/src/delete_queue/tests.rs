//! Tests: no deletion is lost, rubbish is set aside, and the lock keeps plugin and agent apart.

use super::*;

fn queue() -> (tempfile::TempDir, DeleteQueue) {
    let dir = tempfile::tempdir().unwrap();
    let queue = DeleteQueue::at(dir.path().join(DIRECTORY));
    (dir, queue)
}

fn container(id: impl Into<String>) -> Deletion {
    Deletion::Container(id.into())
}

#[test]
fn a_hundred_deletions_are_written_read_and_done() {
    let (_dir, queue) = queue();
    thread::scope(|scope| {
        for part in 0..4 {
            let queue = &queue;
            scope.spawn(move || {
                let shared = queue.share(LOCK_PATIENCE).unwrap();
                for number in 0..25 {
                    shared.put(&container(format!("c{part}-{number}"))).unwrap();
                    shared.put(&container(format!("c{part}-{number}"))).unwrap();
                }
            });
        }
    });
    let held = queue.hold(LOCK_PATIENCE).unwrap();
    let (entries, bad) = held.read().unwrap();
    let expected: std::collections::BTreeSet<_> =
        (0..4).flat_map(|part| (0..25).map(move |number| format!("c{part}-{number}"))).collect();
    let found: std::collections::BTreeSet<_> = entries
        .iter()
        .map(|entry| match &entry.deletion {
            Deletion::Container(id) => id.clone(),
            Deletion::Endpoint(id) => panic!("{id}"),
        })
        .collect();
    assert_eq!((found, entries.len(), bad), (expected, 100, vec![]));
    for entry in &entries {
        held.done(entry).unwrap();
        held.done(entry).unwrap();
    }
    assert_eq!(held.read().unwrap().0, []);
}

#[test]
fn rubbish_is_set_aside_and_the_rest_is_read() {
    let (_dir, queue) = queue();
    queue.share(LOCK_PATIENCE).unwrap().put(&container("good")).unwrap();
    for (name, content) in [
        ("a", &b"{\"container-id\":"[..]),
        ("b", b"{}"),
        ("c", b"\xff\xfe"),
        ("d", &[b'x'; 5000]),
        ("e", b""),
        ("old", b"container-id:f00\n"),
    ] {
        fs::write(queue.dir.join(name).with_extension(SUFFIX), content).unwrap();
    }
    fs::create_dir(queue.dir.join("f.delete")).unwrap();
    fs::write(queue.dir.join("half.7.tmp"), "{").unwrap();
    let held = queue.hold(LOCK_PATIENCE).unwrap();
    let (entries, bad) = held.read().unwrap();
    let deletions: Vec<_> = entries.into_iter().map(|entry| entry.deletion).collect();
    assert!(deletions.contains(&Deletion::Container("good".into())));
    assert!(deletions.contains(&Deletion::Endpoint("container-id:f00".into())));
    assert_eq!(deletions.len(), 2);
    assert_eq!(bad.len(), 6, "{bad:?}");
    assert!(bad.iter().all(|entry| entry.path.exists()));
    assert_eq!(held.read().unwrap().1, [], "what was set aside is not met again");
    assert!(!queue.dir.join("half.7.tmp").exists());
}

proptest::proptest! {
    #[test]
    fn every_entry_is_read_or_refused(bytes: Vec<u8>, id in "[!-z]{1,80}") {
        drop(parse(&bytes));
        let container = Deletion::Container(id);
        proptest::prop_assert_eq!(parse(&container.to_bytes()), Ok(container));
    }
}

#[test]
fn the_agent_keeps_plugins_out_and_lets_them_in_again() {
    let (_dir, queue) = queue();
    let held = queue.hold(LOCK_PATIENCE).unwrap();
    let error = queue.share(Duration::ZERO).unwrap_err();
    assert!(matches!(error, DeleteQueueError::Busy { .. }), "{error}");
    drop(held);
    let shared = queue.share(LOCK_PATIENCE).unwrap();
    queue.share(LOCK_PATIENCE).unwrap();
    assert!(queue.hold(Duration::ZERO).is_err());
    drop(shared);
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let queue = DeleteQueue::at(dir.path().join("file").join(DIRECTORY));
    let error = queue.share(LOCK_PATIENCE).unwrap_err().to_string();
    assert!(error.contains("file/deleteQueue"), "{error}");
}
