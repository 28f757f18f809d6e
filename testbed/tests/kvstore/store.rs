//! Each client of etcd that the agent was built with, against a real server.

use std::{cell::RefCell, fs, path::Path, rc::Rc, sync::Mutex, thread, time::Duration};

use anyhow::{Result, ensure};
use tokio::{runtime::Builder, task::LocalSet, time::sleep};
#[cfg(feature = "etcd-rs")]
use volvox_etcd::EtcdRs;
use volvox_etcd::{Etcd, EtcdOptions};
use volvox_testbed::lab::{self, Authority, Validity, wait_for};

use super::{
    api::{KvStore, Listing, Revision, WatchEvent},
    conformance::{Fixture, run},
};

const PLACE: &str = "/run/volvox/etcd";
const PREFIX: &str = "suite/";

type Start = fn(EtcdOptions) -> Result<Box<dyn KvStore>>;

/// The clients, and how each is started.
const CLIENTS: &[(&str, Start)] = &[
    ("etcd", |options| Ok(Box::new(Etcd::start(options)?))),
    #[cfg(feature = "etcd-rs")]
    ("etcd-rs", |options| Ok(Box::new(EtcdRs::start(options)?))),
];

/// Does something with each client, on a thread of its own: what it leaves behind must not stop the
/// runtime's end.
fn with_each(option: &str, work: impl Fn(&str, &Fixture<'_>) -> Result<()> + Sync) -> Result<()> {
    for (name, start) in CLIENTS {
        let work = || {
            with_actors(|pump| {
                let store = start(option.parse()?)?;
                work(name, &Fixture { store: &*store, pump, prefix: PREFIX })
            })
        };
        thread::scope(|scope| scope.spawn(work).join().expect("nothing panics"))?;
    }
    Ok(())
}

/// Runs something where actors could live; what it is given lets them go on for a moment.
pub(super) fn with_actors(work: impl FnOnce(&dyn Fn()) -> Result<()>) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let actors = LocalSet::new();
    let _runtime = runtime.enter();
    let _actors = actors.enter();
    work(&|| actors.block_on(&runtime, sleep(Duration::from_millis(1))))
}

#[test]
fn etcd_does_what_every_store_must() {
    lab::test("store::etcd_does_what_every_store_must", || {
        let server = lab::Etcd::start(Path::new(PLACE))?;
        // Another prefix beside it must not be seen.
        server.put("suitf", "x")?;
        with_each(&server.option(), |_, fixture| {
            run(fixture);
            Ok(())
        })
    });
}

/// The first part of the list, or what an operator reads.
fn list(fixture: &Fixture<'_>) -> Result<Listing, String> {
    let listed = fixture.answer(|reply| fixture.store.list(PREFIX, None, reply));
    listed.map_err(|error| error.to_string())
}

/// The first event of a watch from there on for which a closure has something.
fn watch_for<T>(
    fixture: &Fixture<'_>,
    from: Revision,
    mut pick: impl FnMut(WatchEvent) -> Option<T>,
) -> T {
    let reported = Rc::new(RefCell::new(Vec::new()));
    let tell = {
        let reported = Rc::clone(&reported);
        Box::new(move |event| {
            reported.borrow_mut().push(event);
            true
        })
    };
    let _watch = fixture.store.watch(PREFIX, from, tell);
    loop {
        if let Some(picked) = reported.take().into_iter().find_map(&mut pick) {
            return picked;
        }
        (fixture.pump)();
    }
}

#[test]
fn a_watch_of_what_was_compacted_says_so() {
    lab::test("store::a_watch_of_what_was_compacted_says_so", || {
        let server = lab::Etcd::start(Path::new(PLACE))?;
        for value in ["1", "2", "3"] {
            server.put("suite/key", value)?;
        }
        server.compact()?;
        with_each(&server.option(), |name, fixture| {
            let end = watch_for(fixture, Revision(2), |event| match event {
                WatchEvent::Compacted => Some(Ok(())),
                WatchEvent::Ended(error) => Some(Err(error)),
                _ => None,
            });
            ensure!(end.is_ok(), "{name}: {end:?}");
            Ok(())
        })
    });
}

#[test]
fn lists_of_large_values_come_in_parts() {
    /// So that a dozen is more than any client reads at once by itself.
    const LARGE: usize = 1_000_000;
    lab::test("store::lists_of_large_values_come_in_parts", || {
        let server = lab::Etcd::start(Path::new(PLACE))?;
        let value = "x".repeat(LARGE);
        let pairs: Vec<_> = (0..12).map(|n| (format!("{PREFIX}{n:02}"), value.clone())).collect();
        server.connect()?.put(&pairs)?;
        with_each(&server.option(), |name, fixture| {
            let (mut found, mut from) = (0, None);
            loop {
                let part = fixture.answer(|reply| fixture.store.list(PREFIX, from, reply))?;
                ensure!(part.pairs.iter().all(|pair| pair.value.len() == LARGE), "{name}");
                found += part.pairs.len();
                from = part.next;
                if from.is_none() {
                    break;
                }
            }
            ensure!(found == 12, "{name}: {found} pairs");
            // Whoever was away meanwhile is told of each, or that all must be listed again.
            let mut changes = 0;
            let seen = watch_for(fixture, Revision(2), |event| match event {
                WatchEvent::Changed { changes: some, .. } => {
                    changes += some.len();
                    (changes == 12).then_some(Ok(()))
                }
                WatchEvent::Compacted => Some(Ok(())),
                WatchEvent::Ended(error) => Some(Err(error)),
                WatchEvent::Alive(_) => None,
            });
            ensure!(seen.is_ok(), "{name}: {seen:?}");
            Ok(())
        })
    });
}

#[test]
fn certificates_and_passwords_are_shown_and_seen() {
    lab::test("store::certificates_and_passwords_are_shown_and_seen", || {
        let place = Path::new(PLACE);
        let authority = Authority::create(&place.join("certificates"))?;
        for name in ["etcd", "lab", "node"] {
            authority.sign(name, Validity::Today)?;
        }
        let mut server = lab::Etcd::start_guarded(place, &authority)?;
        server.want_password("node", "secret", "suite")?;
        let config = place.join("etcd.yaml");
        let option = format!("etcd.config={}", config.display());
        let address = server.address();
        let write = |password: &str, own: bool| {
            let file = |name: &str| authority.place().join(name).display().to_string();
            let mut text = format!(
                "endpoints: [\"{address}\"]\ntrusted-ca-file: {}\nusername: node\npassword: {password}\n",
                file("ca.pem")
            );
            if own {
                text +=
                    &format!("cert-file: {}\nkey-file: {}\n", file("node.pem"), file("node.key"));
            }
            fs::write(&config, text)
        };
        write("secret", true)?;
        let server = Mutex::new(server);
        with_each(&option, |name, fixture| {
            let listed = list(fixture);
            ensure!(listed.is_ok(), "{name}: {listed:?}");
            let alive = watch_for(fixture, Revision(0), |event| match event {
                WatchEvent::Alive(_) => Some(Ok(())),
                WatchEvent::Ended(error) => Some(Err(error)),
                _ => None,
            });
            ensure!(alive.is_ok(), "{name}: {alive:?}");
            // The next life of the server does not know its logins any more.
            let mut server = server.lock().expect("nobody panicked");
            server.kill()?;
            server.start_again()?;
            wait_for("the client logs in again", || Ok(list(fixture).is_ok()))
        })?;
        write("guessed", true)?;
        with_each(&option, |name, fixture| {
            let refused = list(fixture).expect_err("nobody knows that password");
            let names_it = refused.contains("invalid user ID or password");
            ensure!(names_it && refused.contains("etcd.config"), "{name}: {refused}");
            Ok(())
        })?;
        write("secret", false)?;
        with_each(&option, |name, fixture| {
            let refused = list(fixture).expect_err("a certificate is expected");
            let ours = name != "etcd-rs" || refused.contains("trusted-ca-file, cert-file and key");
            ensure!(ours && refused.contains("etcd.config"), "{name}: {refused}");
            Ok(())
        })?;
        write("secret", true)?;
        authority.sign("node", Validity::Over)?;
        with_each(&option, |name, fixture| {
            // A connection that was cut can look like a server that died. It is tried again.
            wait_for(&format!("{name} names the certificate"), || {
                let refused =
                    list(fixture).expect_err("a certificate is expected that is not over");
                Ok(refused.contains("certificate") && refused.contains("etcd.config"))
            })
        })?;
        authority.sign("node", Validity::Today)?;
        authority.sign("etcd", Validity::Over)?;
        let mut server = server.into_inner()?;
        server.kill()?;
        server.start_again()?;
        with_each(&option, |name, fixture| {
            let refused = list(fixture).expect_err("the server's certificate is over");
            let names_it = refused.to_lowercase().contains("expired");
            ensure!(names_it && refused.contains("etcd.config"), "{name}: {refused}");
            Ok(())
        })
    });
}
