//! Tests: which network namespaces a round covers, and when another round follows.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use super::*;
use crate::{
    endpoints::{
        endpoint::{EndpointSpec, EndpointState, EndpointView},
        supervisor::EndpointsMsg,
    },
    host::{Behaviour, Cx, NoAnswer, Ref, Universe},
    model::EndpointId,
    ports::{KernelOp, KernelOutcome},
    testing::FakeKernel,
};

const ENDED: KernelOutcome = KernelOutcome::Ended(2);

type Paths = Rc<RefCell<Vec<&'static str>>>;

/// Stands for the supervisor of endpoints, which are in these namespaces.
struct Endpoints(Paths);

impl Behaviour for Endpoints {
    type Msg = EndpointsMsg;
    type Answer = NoAnswer;
    type Observed = ();

    fn handle(&mut self, msg: EndpointsMsg, _: &mut Cx<'_, Self>) {
        let EndpointsMsg::List { reply, .. } = msg else { panic!("it is only asked for all") };
        reply.send(self.0.borrow().iter().map(|path| Arc::new(view(path))).collect());
    }

    fn answered(&mut self, answer: NoAnswer, _: &mut Cx<'_, Self>) {
        match answer {}
    }

    fn observe(&self) {}
}

/// An endpoint of which only its namespace counts.
fn view(path: &str) -> EndpointView {
    let spec = EndpointSpec { container_netns_path: path.into(), ..EndpointSpec::default() };
    EndpointView::seed(EndpointId(1), &spec, EndpointState::Ready)
}

struct Fixture {
    universe: Universe,
    kernel: Rc<FakeKernel>,
    sockets: Ref<SocketsMsg>,
    paths: Paths,
}

impl Fixture {
    fn new() -> Self {
        let universe = Universe::default();
        let kernel = FakeKernel::new();
        let paths = Paths::default();
        let theirs = Rc::clone(&paths);
        let endpoints = universe.spawn("endpoints", move || Endpoints(Rc::clone(&theirs)));
        let made = Rc::clone(&kernel);
        let make = Sockets::factory(move || SocketsPeers {
            kernel: Rc::clone(&made) as _,
            endpoints: endpoints.clone(),
        });
        let sockets = universe.spawn("sockets", make);
        universe.settle();
        Self { universe, kernel, sockets, paths }
    }

    fn tell(&self) {
        self.sockets.tell(SocketsMsg::BackendsGone).unwrap();
        self.universe.settle();
    }

    /// Does the round; whose sockets were looked at.
    fn ends(&self) -> Vec<String> {
        let ops = self.kernel.answer(|_| ENDED);
        self.universe.settle();
        of(ops)
    }
}

fn of(ops: Vec<KernelOp>) -> Vec<String> {
    let [KernelOp::EndSockets { namespaces }] = &ops[..] else { panic!("{ops:?}") };
    namespaces.iter().cloned().collect()
}

#[test]
fn each_namespace_is_looked_at_once() {
    let fixture = Fixture::new();
    assert_eq!(fixture.kernel.pending(), 0, "no backend went");
    fixture.paths.borrow_mut().extend(["/run/netns/b", "", "/run/netns/a", "/run/netns/b"]);
    fixture.tell();
    assert_eq!(fixture.ends(), ["/run/netns/a", "/run/netns/b"]);
    assert_eq!(fixture.kernel.pending(), 0);
}

#[test]
fn what_goes_during_a_round_is_the_next_ones() {
    let fixture = Fixture::new();
    fixture.tell();
    fixture.paths.borrow_mut().push("/run/netns/new");
    fixture.tell();
    fixture.tell();
    assert_eq!(fixture.kernel.pending(), 1);
    assert_eq!(fixture.ends(), [""; 0]);
    assert_eq!(fixture.ends(), ["/run/netns/new"]);
    assert_eq!(fixture.kernel.pending(), 0);
}

#[test]
fn a_round_that_fails_is_done_again() {
    let fixture = Fixture::new();
    fixture.tell();
    fixture.kernel.fail();
    fixture.universe.settle();
    assert_eq!(fixture.kernel.pending(), 0);
    fixture.universe.advance(Duration::from_secs(31));
    assert_eq!(fixture.ends(), [""; 0]);
    fixture.universe.advance(Duration::from_secs(300));
    assert_eq!(fixture.kernel.pending(), 0);
}
