//! Names actors that wait for each other in a ring: none of them goes on before a deadline passes,
//! and somebody should know why.

use std::{collections::BTreeMap, time::Duration};

use volvox_actors::host::{CellId, Host, WaitCycle, WaitId, Waits, Whom};

/// How often it looks. A ring that is there twice is none that an answer on its way resolves; it is
/// named within a second.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// Looks for ever; each ring is logged once.
pub async fn watch(host: Host) {
    let mut watcher = Watcher::default();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        watcher.look(&host);
        // Nothing may be handled meanwhile that would have the recorder told.
        host.tell_waits();
    }
}

/// The rings that were there at the last look, and that was named last.
#[derive(Default)]
struct Watcher {
    seen: Vec<WaitId>,
    named: Vec<WaitId>,
}

impl Watcher {
    /// Logs a ring that was there at the last look already; its words, if it is a new one.
    fn look(&mut self, host: &Host) -> Option<String> {
        let cycle = host.with_waits(Waits::cycle)?;
        let waits: Vec<_> = cycle.0.iter().map(|wait| wait.id).collect();
        if waits != self.seen {
            self.seen = waits;
            return None;
        }
        if waits == self.named {
            return None;
        }
        self.named = waits;
        let ring = words(host, &cycle);
        tracing::error!(%ring, "actors wait for each other; each gives up at its deadline");
        Some(ring)
    }
}

/// `endpoint 4 for policy: its rows, policy for endpoint 4: its labels`.
pub(crate) fn words(host: &Host, cycle: &WaitCycle) -> String {
    let cells = host.cells().into_iter();
    let names: BTreeMap<CellId, String> = cells.map(|cell| (cell.id, cell.name)).collect();
    let name = |cell: CellId| names.get(&cell).cloned().unwrap_or_else(|| cell.to_string());
    let waits = cycle.0.iter().map(|wait| {
        let who = wait.who.map_or_else(|| "outside".to_owned(), name);
        let whom = match wait.whom {
            Whom::Cell(cell) => name(cell),
            Whom::Port(port) => port.to_owned(),
        };
        format!("{who} for {whom}: {}", wait.why)
    });
    waits.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use volvox_actors::host::{Behaviour, Cx, Message, Ref, Reply, Universe};

    use super::*;

    /// Asks another one, and never answers.
    struct Stubborn {
        owed: Vec<Reply<()>>,
    }

    enum Say {
        Ask(Ref<Say>),
        Asked(Reply<()>),
    }

    impl Message for Say {
        fn kind(&self) -> &'static str {
            "Say"
        }
    }

    struct Answered;

    impl Message for Answered {
        fn kind(&self) -> &'static str {
            "Answered"
        }
    }

    impl Behaviour for Stubborn {
        type Msg = Say;
        type Answer = Answered;
        type Observed = ();

        fn handle(&mut self, msg: Say, cx: &mut Cx<'_, Self>) {
            match msg {
                Say::Ask(peer) => {
                    let patience = Duration::from_secs(60);
                    cx.ask(&peer, patience, "a word", Say::Asked, |_| Answered);
                }
                Say::Asked(reply) => self.owed.push(reply),
            }
        }

        fn answered(&mut self, _: Answered, _: &mut Cx<'_, Self>) {}

        fn observe(&self) {}
    }

    #[test]
    fn a_ring_is_named_once_and_again_when_it_is_another() {
        let universe = Universe::default();
        let spawn = |name| universe.spawn(name, || Stubborn { owed: Vec::new() });
        let (one, two) = (spawn("one"), spawn("two"));
        let watcher = RefCell::new(Watcher::default());
        let look = || watcher.borrow_mut().look(&universe.host);
        one.tell(Say::Ask(two.clone())).unwrap();
        universe.settle();
        assert_eq!(look(), None);
        two.tell(Say::Ask(one.clone())).unwrap();
        universe.settle();
        assert_eq!(look(), None);
        assert_eq!(look().as_deref(), Some("one for two: a word, two for one: a word"));
        assert_eq!(look(), None);
        universe.advance(Duration::from_secs(61));
        assert_eq!(look(), None);
        one.tell(Say::Ask(one.clone())).unwrap();
        universe.settle();
        assert_eq!(look(), None);
        assert_eq!(look().as_deref(), Some("one for one: a word"));
    }
}
