//! Lists that begin before anybody asks for them: while an agent reads its disk and its kernel, the
//! servers have nothing else to do for it.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::mpsc, time::timeout};
use volvox_actors::ports::{KvError, Listing, Place};

/// Parts of a list that are kept for who will ask.
const PARTS_MAX: usize = 4;
/// What nobody asked for in that time is thrown away.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A part, and where it was to begin.
type Part = (Option<Place>, Result<Listing, KvError>);

/// Lists under way, by their prefix.
#[derive(Clone, Default)]
pub(super) struct Ahead(Arc<Mutex<BTreeMap<String, mpsc::Receiver<Part>>>>);

impl Ahead {
    /// Announces the list of a prefix; what is returned reads it, part by part, by `list`.
    pub(super) fn begin<L, F>(
        &self,
        prefix: &str,
        patience: Duration,
        list: L,
    ) -> impl Future<Output = ()> + use<L, F>
    where
        L: Fn(Option<Place>) -> F,
        F: Future<Output = Result<Listing, KvError>>,
    {
        let (parts, taken) = mpsc::channel(PARTS_MAX);
        self.lists().insert(prefix.to_owned(), taken);
        let (ahead, prefix) = (self.clone(), prefix.to_owned());
        async move {
            let mut from = None;
            loop {
                let part = list(from.clone()).await;
                let next = part.as_ref().ok().and_then(|part| part.next.clone());
                match timeout(patience, parts.send((from, part))).await {
                    Ok(Ok(())) if next.is_some() => from = next,
                    Ok(_) => break,
                    Err(_) => return drop(ahead.lists().remove(&prefix)),
                }
            }
            // The last parts are kept no longer than the others.
            if timeout(patience, parts.closed()).await.is_err() {
                ahead.lists().remove(&prefix);
            }
        }
    }

    /// The part that begins there, if it is the next one of a list under way.
    pub(super) async fn take(
        &self,
        prefix: &str,
        from: Option<&Place>,
    ) -> Option<Result<Listing, KvError>> {
        let mut parts = self.lists().remove(prefix)?;
        let (begins, part) = parts.recv().await?;
        if begins.as_ref() != from {
            return None;
        }
        if part.as_ref().is_ok_and(|part| part.next.is_some()) {
            self.lists().insert(prefix.to_owned(), parts);
        }
        Some(part)
    }

    fn lists(&self) -> MutexGuard<'_, BTreeMap<String, mpsc::Receiver<Part>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::ready,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use tokio::{runtime::Builder, task::yield_now};
    use volvox_actors::ports::{Pair, Revision};

    use super::*;

    const PREFIX: &str = "some/";

    fn place(nth: usize) -> Option<Place> {
        let key = vec![u8::try_from(nth).unwrap()];
        (nth > 0).then_some(Place { revision: Revision(7), key, limit: 1 })
    }

    /// Of a list of so many parts.
    fn part(from: Option<&Place>, count: usize) -> Result<Listing, KvError> {
        let nth = from.map_or(0, |place| usize::from(place.key[0]));
        let pairs = vec![Pair { key: format!("{PREFIX}{nth}"), value: Vec::new() }];
        let next = place(nth + 1).filter(|_| nth + 1 < count);
        Ok(Listing { revision: Revision(7), pairs, next })
    }

    fn run(test: impl Future<Output = ()>) {
        Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
    }

    #[test]
    fn a_list_that_was_begun_is_told_part_by_part_and_once() {
        run(async {
            let (ahead, read) = (Ahead::default(), Arc::new(AtomicUsize::new(0)));
            let count = Arc::clone(&read);
            let list = move |from: Option<Place>| {
                count.fetch_add(1, Ordering::Relaxed);
                ready(part(from.as_ref(), 9))
            };
            let reading = tokio::spawn(ahead.begin(PREFIX, PATIENCE, list));
            for _ in 0..100 {
                yield_now().await;
            }
            // It does not run away from who will ask: these wait, and one is in its hand.
            assert_eq!(read.load(Ordering::Relaxed), PARTS_MAX + 1);
            for nth in 0..9 {
                let from = place(nth);
                let told = ahead.take(PREFIX, from.as_ref()).await;
                assert_eq!(told, Some(part(from.as_ref(), 9)), "part {nth}");
            }
            reading.await.unwrap();
            assert_eq!(ahead.take(PREFIX, None).await, None);
            assert_eq!(ahead.take("other/", None).await, None);
            assert_eq!(read.load(Ordering::Relaxed), 9);
        });
    }

    #[test]
    fn who_begins_anew_gets_nothing_of_the_list_before() {
        run(async {
            let ahead = Ahead::default();
            let list = |from: Option<Place>| ready(part(from.as_ref(), 3));
            let reading = tokio::spawn(ahead.begin(PREFIX, PATIENCE, list));
            assert_eq!(ahead.take(PREFIX, None).await, Some(part(None, 3)));
            assert_eq!(ahead.take(PREFIX, None).await, None);
            assert_eq!(ahead.take(PREFIX, place(1).as_ref()).await, None);
            reading.await.unwrap();
        });
    }

    #[test]
    fn what_nobody_asks_for_is_thrown_away() {
        run(async {
            for count in [1, 9] {
                let ahead = Ahead::default();
                let list = move |from: Option<Place>| ready(part(from.as_ref(), count));
                ahead.begin(PREFIX, Duration::from_millis(1), list).await;
                assert!(ahead.lists().is_empty(), "of {count} parts some are kept");
            }
        });
    }
}
