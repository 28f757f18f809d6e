//! The store in a file, alone and under a real agent.

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use volvox_actors::ports::{KvError, KvStore, Listing, Put, Transaction};
use volvox_agent::ports::Embedded;
use volvox_testbed::lab::{self, Inventory, Pod, Setup, Through};

use super::{
    conformance::{Fixture, run},
    store::with_actors,
};

/// The lab's own directory.
const PLACE: &str = "/run/volvox";

fn put(store: &Embedded, pump: &dyn Fn(), key: &str) -> Result<bool, KvError> {
    let put = Put { key: key.to_owned(), value: b"value".to_vec(), lease: None };
    let transaction = Transaction { puts: vec![put], ..Transaction::default() };
    Fixture { store, pump, prefix: "" }.answer(|reply| store.commit(transaction, reply))
}

fn list(store: &Embedded, pump: &dyn Fn()) -> Result<Listing, KvError> {
    Fixture { store, pump, prefix: "" }.answer(|reply| store.list("", None, reply))
}

#[test]
fn a_file_does_what_every_store_must() {
    lab::test("embedded::a_file_does_what_every_store_must", || {
        with_actors(|pump| {
            fs::create_dir_all(PLACE)?;
            let store = Embedded::start(&Path::new(PLACE).join("kvstore.redb"))?;
            run(&Fixture { store: &store, pump, prefix: "suite/" });
            Ok(())
        })
    });
}

#[test]
fn a_file_keeps_what_it_holds_is_held_by_one_and_put_aside_if_it_is_damaged() {
    let name = "embedded::a_file_keeps_what_it_holds_is_held_by_one_and_put_aside_if_it_is_damaged";
    lab::test(name, || {
        with_actors(|pump| {
            fs::create_dir_all(PLACE)?;
            let path = &Path::new(PLACE).join("kvstore.redb");
            let first = Embedded::start(path)?;
            ensure!(put(&first, pump, "a")? && put(&first, pump, "b")?, "it refuses");
            let retained = list(&first, pump)?;
            let second = Embedded::start(path)?;
            let refused = list(&second, pump).expect_err("another has the file").to_string();
            ensure!(refused.contains("kvstore.redb") && refused.contains("--lib-dir"), "{refused}");
            drop(first);
            // Its thread ends on its own.
            lab::wait_for("the file is free", || Ok(list(&second, pump).is_ok()))?;
            ensure!(
                list(&second, pump)? == retained,
                "{:?} became {retained:?}",
                list(&second, pump)?
            );

            let torn = &Path::new(PLACE).join("torn.redb");
            fs::write(torn, "rubbish")?;
            let third = Embedded::start(torn)?;
            ensure!(list(&third, pump)?.pairs.is_empty(), "rubbish was read");
            ensure!(fs::read(torn.with_extension("damaged"))? == b"rubbish", "it was not kept");
            ensure!(put(&third, pump, "c")?, "it refuses");

            // Where nothing can be written it says so, and works once that is mended.
            let nowhere = Path::new(PLACE).join("nowhere");
            let fourth = Embedded::start(&nowhere.join("kvstore.redb"))?;
            let refused = put(&fourth, pump, "d").expect_err("there is no directory").to_string();
            ensure!(refused.contains("nowhere/kvstore.redb"), "{refused}");
            fs::create_dir(nowhere)?;
            ensure!(put(&fourth, pump, "d")?, "it refuses still");
            Ok(())
        })
    });
}

#[test]
fn an_agent_alone_numbers_identities_in_a_file_and_keeps_them() {
    lab::test("embedded::an_agent_alone_numbers_identities_in_a_file_and_keeps_them", || {
        let setup = Setup::new().flag("kvstore", "embedded").pod("shop/web", &[("app", "web")]);
        let (mut node, [_web]) = setup.start()?;
        node.wait_for_store("Ok")?;
        let before = Inventory::read(&node)?;
        node.kill_agent()?;
        node.start_agent()?;
        node.wait_for_ready(1)?;
        node.wait_for_store("Ok")?;
        ensure!(before.moved(&Inventory::read(&node)?) == 0, "numbers moved");
        let _db = Pod::create(&node, "shop/db", &[("app", "db")], Through::Rest)?;
        node.wait_for_ready(2).map(drop)
    });
}
