//! Watches over what this node announced where nobody else of this node follows the store: a key that
//! somebody deletes there is to come back at once.

use std::{rc::Rc, time::Duration};

use super::{IDENTITY_USERS, session::SessionAnswer, watch, watcher::SILENCE_MAX};
use crate::{
    host::{Behaviour, Cx, TimerId},
    ports::{Change, KvStore, Revision, StoreHeader, Watch, WatchEvent},
};

/// How soon a watch that ended is begun again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The watch.
#[derive(Default)]
pub(super) struct Guard {
    watch: Option<Watch>,
    number: u64,
    /// It has said that it began.
    began: bool,
    timer: Option<TimerId>,
}

/// What it tells.
pub(super) enum Guarded {
    /// It began: what happened before was not seen.
    Began(StoreHeader),
    /// The store still answers.
    Alive(StoreHeader),
    /// These changed.
    Changed(Vec<Change>),
    /// Nothing.
    Nothing,
}

impl Guard {
    /// Whether it watches over that key.
    pub(super) fn covers(key: &str) -> bool {
        key.starts_with(IDENTITY_USERS)
    }

    /// Begins, from now on.
    pub(super) fn begin<B: Behaviour<Answer = SessionAnswer>>(
        &mut self,
        cx: &mut Cx<'_, B>,
        store: &Rc<dyn KvStore>,
    ) {
        self.number += 1;
        self.began = false;
        let number = self.number;
        let answer = move |event| SessionAnswer::Guarded(number, event);
        let (what, from) = ("kvstore: own keys".to_owned(), Revision::default());
        self.watch = Some(watch(cx, store, what, (IDENTITY_USERS, from), answer));
        self.arm(cx, SILENCE_MAX);
    }

    /// Time to begin again, if that is said of this watch.
    pub(super) fn is_over(&self, number: u64) -> bool {
        number == self.number
    }

    /// Takes in what a watch told.
    pub(super) fn seen<B: Behaviour<Answer = SessionAnswer>>(
        &mut self,
        cx: &mut Cx<'_, B>,
        number: u64,
        event: WatchEvent,
    ) -> Guarded {
        if number != self.number || self.watch.is_none() {
            return Guarded::Nothing;
        }
        match event {
            WatchEvent::Alive(header) => {
                self.arm(cx, SILENCE_MAX);
                match std::mem::replace(&mut self.began, true) {
                    false => Guarded::Began(header),
                    true => Guarded::Alive(header),
                }
            }
            WatchEvent::Changed { changes, .. } => {
                self.arm(cx, SILENCE_MAX);
                Guarded::Changed(changes)
            }
            WatchEvent::Compacted | WatchEvent::Ended(_) => {
                self.watch = None;
                self.arm(cx, AGAIN_AFTER);
                Guarded::Nothing
            }
        }
    }

    fn arm<B: Behaviour<Answer = SessionAnswer>>(&mut self, cx: &mut Cx<'_, B>, after: Duration) {
        let timer = cx.after(after, SessionAnswer::GuardOver(self.number));
        if let Some(earlier) = self.timer.replace(timer) {
            cx.cancel(earlier);
        }
    }
}
