//! Tests: the key-value store in memory passes the conformance suite.

use std::{cell::Cell, time::Duration};

use super::conformance::{Fixture, run};
use crate::{host::Time, testing::MemoryKvStore};

#[test]
fn the_store_in_memory_does_what_every_store_must() {
    let store = MemoryKvStore::default();
    let now = Cell::new(Time::default());
    let pump = || {
        if !store.step(now.get(), 0) {
            now.set(now.get() + Duration::from_millis(100));
        }
    };
    run(&Fixture { store: &store, pump: &pump, prefix: "suite/" });
}
