//! Tests of the actor runtime: lanes, crashes, deadlines, waits, traces, and state that survives.

use std::{cell::Cell, rc::Rc, time::Duration};

use super::*;

/// Counts, doubles, crashes; asks another of its kind.
struct Counter {
    sum: u32,
    peer: Option<Ref<Say>>,
    heard: Rc<Cell<Option<Result<u32, AskError>>>>,
}

enum Say {
    Add(u32),
    Later(u32),
    Sum(Reply<u32>),
    Keep(Vec<Reply<u32>>),
    AskPeer(Duration),
    Panic,
    PanicOver(Reply<u32>),
    Stop,
}

impl Message for Say {
    fn kind(&self) -> &'static str {
        match self {
            Self::Add(_) => "add",
            Self::Later(_) => "later",
            Self::Sum(_) => "sum",
            Self::Keep(_) => "keep",
            Self::AskPeer(_) => "ask-peer",
            Self::Panic | Self::PanicOver(_) => "panic",
            Self::Stop => "stop",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::Later(_) => Lane::Regeneration,
            Self::Add(_) => Lane::Request,
            _ => Lane::Control,
        }
    }

    fn absorb(&mut self, incoming: Self) -> Absorbed<Self> {
        match (self, incoming) {
            (Self::Later(mine), Self::Later(more)) => {
                *mine = (*mine).max(more);
                Absorbed::Yes
            }
            (_, incoming) => Absorbed::No(incoming),
        }
    }
}

/// What its peer answered.
struct Heard(Result<u32, AskError>);

impl Message for Heard {
    fn kind(&self) -> &'static str {
        "heard"
    }
}

impl Behaviour for Counter {
    type Msg = Say;
    type Answer = Heard;
    type Observed = u32;

    fn handle(&mut self, msg: Say, cx: &mut Cx<'_, Self>) {
        match msg {
            Say::Add(n) => self.sum += n,
            Say::Later(n) => self.sum = self.sum * 10 + n,
            Say::Sum(reply) => reply.send(self.sum),
            Say::Keep(replies) => std::mem::forget(replies),
            Say::AskPeer(patience) => {
                let peer = self.peer.clone().unwrap();
                cx.ask(&peer, patience, "the sum", Say::Sum, Heard);
            }
            Say::Panic => panic!("on purpose"),
            Say::PanicOver(_reply) => panic!("over a question"),
            Say::Stop => cx.stop(),
        }
    }

    fn answered(&mut self, Heard(answer): Heard, _: &mut Cx<'_, Self>) {
        self.heard.set(Some(answer));
    }

    fn observe(&self) -> u32 {
        self.sum
    }
}

fn counter(universe: &Universe, peer: Option<Ref<Say>>) -> Ref<Say> {
    let heard = Rc::default();
    universe.spawn("counter", move || Counter {
        sum: 0,
        peer: peer.clone(),
        heard: Rc::clone(&heard),
    })
}

const PATIENCE: Duration = Duration::from_secs(1);

#[test]
fn lanes_go_before_order_and_triggers_coalesce() {
    let universe = Universe::default();
    let cell = counter(&universe, None);
    for say in [Say::Later(3), Say::Later(7), Say::Later(5), Say::Add(1)] {
        cell.tell(say).unwrap();
    }
    universe.settle();
    assert_eq!(universe.host.observe(cell.id()), Some(17.into()));
}

#[test]
fn a_full_mailbox_hands_the_message_back() {
    let universe = Universe::default();
    let cell = counter(&universe, None);
    let refused = (0..30).filter(|&n| cell.tell(Say::Add(n)).is_err()).count();
    assert_eq!(refused, 5);
    let mut answer = universe.host.ask(&cell, PATIENCE, "the sum", Say::Sum);
    assert_eq!(answer.now(), Some(Err(AskError::Full)));
    universe.settle();
    assert!(cell.tell(Say::Add(0)).is_ok());
}

#[test]
fn a_crash_keeps_address_and_mailbox_and_answers_the_question() {
    let universe = Universe::default();
    let cell = counter(&universe, None);
    cell.tell(Say::Add(5)).unwrap();
    let mut answer = universe.host.ask(&cell, PATIENCE, "nothing", Say::PanicOver);
    universe.settle();
    assert_eq!(answer.now(), Some(Err(AskError::Crashed)));
    cell.tell(Say::Add(2)).unwrap();
    universe.settle();
    // Add(5) came after the panic: control goes first.
    assert_eq!(universe.host.observe(cell.id()), Some(7.into()));
    assert_eq!(universe.host.cells()[0].crashes, 1);
}

#[test]
fn a_cell_that_crashes_again_and_again_rests_but_lives() {
    let universe = Universe::default();
    let cell = counter(&universe, None);
    for _ in 0..6 {
        cell.tell(Say::Panic).unwrap();
    }
    universe.settle();
    assert!(universe.host.cells()[0].waiting > 0);
    universe.advance(Duration::from_secs(60));
    assert_eq!(universe.host.cells()[0].waiting, 0);
    assert_eq!(universe.host.cells()[0].crashes, 6);
}

#[test]
fn an_ask_ends_at_its_deadline_and_its_wait_is_registered_until_then() {
    let universe = Universe::default();
    let silent = counter(&universe, None);
    let mut answer =
        universe.host.ask(&silent, PATIENCE, "an answer", |reply| Say::Keep(vec![reply]));
    universe.settle();
    let why = universe.host.with_waits(|waits| waits.iter().next().map(|wait| wait.why.clone()));
    assert_eq!(why.as_deref(), Some("an answer"));
    universe.advance(PATIENCE);
    assert_eq!(answer.now(), Some(Err(AskError::Deadline)));
    assert_eq!(universe.host.with_waits(|waits| waits.iter().count()), 0);
}

#[test]
fn actors_ask_each_other_and_a_cycle_is_named() {
    let universe = Universe::default();
    let heard = Rc::new(Cell::new(None));
    let peer = counter(&universe, None);
    peer.tell(Say::Add(4)).unwrap();
    let (to, ear) = (peer.clone(), Rc::clone(&heard));
    let cell = universe.spawn("asker", move || Counter {
        sum: 0,
        peer: Some(to.clone()),
        heard: Rc::clone(&ear),
    });
    universe.settle();
    cell.tell(Say::AskPeer(PATIENCE)).unwrap();
    universe.step(0);
    assert_eq!(universe.host.with_waits(|waits| waits.chain(cell.id()).len()), 1);
    universe.settle();
    assert_eq!(heard.get(), Some(Ok(4)));

    let mut waits = Waits::default();
    for (who, whom) in [(1, 2), (2, 3), (3, 2)] {
        let whom = Whom::Cell(CellId(whom));
        waits.begin(Some(CellId(who)), whom, "x".into(), Default::default(), Default::default());
    }
    assert_eq!(waits.cycle().unwrap().0.len(), 2);
}

#[test]
fn a_stopped_cell_refuses_and_discards() {
    let universe = Universe::default();
    let cell = counter(&universe, None);
    cell.tell(Say::Stop).unwrap();
    let mut answer = universe.host.ask(&cell, PATIENCE, "the sum", Say::Sum);
    universe.settle();
    assert_eq!(answer.now(), Some(Err(AskError::Gone)));
    assert!(cell.tell(Say::Add(1)).unwrap_err().gone);
}

#[test]
fn every_message_is_traced_to_its_root() {
    let universe = Universe::default();
    let peer = counter(&universe, None);
    let to = peer.clone();
    let cell = universe.spawn("asker", move || Counter {
        sum: 0,
        peer: Some(to.clone()),
        heard: Rc::default(),
    });
    universe.settle();
    universe.host.outside("test", || cell.tell(Say::AskPeer(PATIENCE)).unwrap());
    universe.settle();
    let before = universe.host.set_recorder(Box::new(RecordTexts(Vec::new())));
    drop(before);
    universe.host.outside("test again", || cell.tell(Say::AskPeer(PATIENCE)).unwrap());
    universe.settle();
    assert_eq!(universe.host.with_waits(|waits| waits.iter().count()), 0);
}

/// Checks on the spot that no message is without a root.
struct RecordTexts(Vec<u64>);

impl Recorder for RecordTexts {
    fn record(&mut self, record: Record<'_>) {
        if let Record::Message { header, .. } = record {
            assert_eq!(header.root, RootId(2), "{header:?}");
            self.0.push(header.id.0);
        }
    }
}

#[test]
fn actix_runs_the_same_cells() {
    struct Wall(std::time::Instant);
    impl Clock for Wall {
        fn now(&self) -> Time {
            Time(self.0.elapsed().as_nanos() as u64)
        }
        fn wall(&self) -> u64 {
            0
        }
    }
    actix::System::new().block_on(async {
        let clock = Rc::new(Wall(std::time::Instant::now()));
        let host = Host::new(clock, Rc::new(ActixDriver::default()), Box::new(NoRecorder));
        let cell =
            host.spawn("counter", 25, || Counter { sum: 1, peer: None, heard: Rc::default() });
        assert_eq!(host.ask(&cell, PATIENCE, "the sum", Say::Sum).await, Ok(1));
        let held = host.ask(&cell, Duration::from_millis(20), "never", |r| Say::Keep(vec![r]));
        assert_eq!(held.await, Err(AskError::Deadline));
        cell.tell(Say::Panic).unwrap();
        assert_eq!(host.ask(&cell, PATIENCE, "the sum", Say::Sum).await, Ok(1));
    });
}

#[test]
fn what_is_being_handled_can_be_seen_from_another_thread() {
    let universe = Universe::default();
    let beat = universe.host.beat();
    assert_eq!(beat.handling(), None);
    let cell = counter(&universe, None);
    let (looker, seen) = (beat.clone(), Rc::new(Cell::new(None)));
    let note = Rc::clone(&seen);
    // The reply is sent, and so this look is taken, from within the handler.
    let reply = Reply::to(move |_: Result<u32, _>| {
        let look = std::thread::spawn(move || looker.handling().map(|handling| handling.message));
        note.set(look.join().unwrap());
    });
    cell.tell(Say::Sum(reply)).unwrap();
    universe.settle();
    assert_eq!(seen.get(), Some("sum"));
    assert_eq!(beat.handling(), None);
}

/// Keeps what is said of waits, as letters: begins, lasts, ends.
struct WaitLetters(Rc<std::cell::RefCell<String>>);

impl Recorder for WaitLetters {
    fn record(&mut self, record: Record<'_>) {
        let (letter, wait) = match record {
            Record::WaitBegan { wait } => ('b', wait),
            Record::WaitLasts { wait } => ('l', wait),
            Record::WaitEnded { wait, .. } => ('e', wait),
            _ => return,
        };
        let mut letters = self.0.borrow_mut();
        letters.push(letter);
        letters.push_str(&wait.id.0.to_string());
    }
}

#[test]
fn a_wait_that_lasts_is_told_of_once() {
    let letters = Rc::new(std::cell::RefCell::new(String::new()));
    let reported = |expected: &str| assert_eq!(letters.take(), expected);
    let universe = Universe::new(Box::new(WaitLetters(Rc::clone(&letters))));
    let cell = counter(&universe, None);
    let ask = |patience: u64| {
        universe
            .host
            .ask(&cell, Duration::from_millis(patience), "its word", |reply| Say::Keep(vec![reply]))
    };
    let _asked = (ask(100), ask(1000), ask(2000));
    universe.advance(Duration::from_millis(150));
    reported("b1b2b3e1");
    let _asked = ask(500);
    universe.advance(Duration::from_millis(100));
    // Nothing was handled meanwhile: a clock of one's own tells of it.
    reported("b4");
    universe.host.tell_waits();
    reported("l2l3");
    universe.advance(Duration::from_millis(150));
    cell.tell(Say::Add(1)).unwrap();
    universe.settle();
    universe.host.tell_waits();
    reported("l4");
    universe.advance(Duration::from_secs(2));
    reported("e4e2e3");
}

/// Counts in what outlives a crash, and beside it.
struct Lasting {
    memory: Lent<u32>,
    own: u32,
}

impl Behaviour for Lasting {
    type Msg = Say;
    type Answer = NoAnswer;
    type Observed = (u32, u32);

    fn handle(&mut self, msg: Say, _: &mut Cx<'_, Self>) {
        let Say::Add(n) = msg else { panic!("on purpose") };
        *self.memory += n;
        self.own += n;
    }

    fn answered(&mut self, answer: NoAnswer, _: &mut Cx<'_, Self>) {
        match answer {}
    }

    fn observe(&self) -> (u32, u32) {
        (*self.memory, self.own)
    }
}

#[test]
fn what_survives_is_lent_to_the_next_life_as_the_crash_left_it() {
    let universe = Universe::default();
    let memory = Survives::new(1);
    let cell = universe.spawn("lasting", move || Lasting { memory: memory.lend(), own: 0 });
    for say in [Say::Add(5), Say::Panic, Say::Add(2), Say::Panic, Say::Add(1)] {
        cell.tell(say).unwrap();
        universe.settle();
    }
    assert_eq!(universe.host.observe(cell.id()), Some(serde_json::json!([9, 1])));
}

#[test]
#[should_panic(expected = "the life before still has")]
fn two_lives_at_once_are_a_mistake() {
    let memory = Survives::new(1);
    let _first = memory.lend();
    let _second = memory.lend();
}
