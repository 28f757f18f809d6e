//! What a watcher is to follow, and how one is brought to life.

use std::rc::Rc;

use super::{CAPACITY, Doubt, Update, Watcher, WatcherMsg};
use crate::{
    cluster::{dice::Dice, kvstore::outage::Outage, sources::Hearing},
    host::{Host, Message, Ref, Survives},
    ports::KvStore,
};

/// What is followed.
pub struct Followed {
    store: Rc<dyn KvStore>,
    prefix: Rc<str>,
    canary: Option<Rc<str>>,
}

impl Followed {
    /// What stands below that prefix of a store.
    pub fn new(store: &Rc<dyn KvStore>, prefix: impl Into<Rc<str>>) -> Self {
        Self { store: Rc::clone(store), prefix: prefix.into(), canary: None }
    }

    /// The same where that key, if any, is there once all of it is written: nothing is taken for
    /// the whole before.
    pub fn once_there_is(mut self, canary: Option<String>) -> Self {
        self.canary = canary.map(Into::into);
        self
    }

    /// Brings a watcher to life that tells `listener` of it.
    pub fn tell<M: Message>(
        self,
        host: &Host,
        name: impl Into<String>,
        seed: u64,
        listener: &Ref<M>,
        message: impl Fn(Update) -> M + 'static,
    ) -> Ref<WatcherMsg> {
        let (listener, known) = (listener.clone(), Survives::default());
        let message: Rc<dyn Fn(Update) -> M> = Rc::new(message);
        let watcher = move || Watcher {
            store: Rc::clone(&self.store),
            prefix: Rc::clone(&self.prefix),
            canary: self.canary.clone(),
            listener: listener.clone(),
            message: Rc::clone(&message),
            known: known.lend(),
            revision: None,
            listing: None,
            begun: 0,
            lists: 0,
            watch: None,
            number: 0,
            alarm: None,
            heard: None,
            doubt: Doubt::None,
            hearing: Hearing::default(),
            outage: Outage::new(Dice::new(seed)),
            awaiting: Vec::new(),
        };
        host.spawn(name, CAPACITY, watcher)
    }
}
