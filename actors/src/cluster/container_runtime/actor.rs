//! The actor that follows the container runtime: it connects, hears, and connects again after ever longer
//! pauses. What it does with what it hears is in the rounds.

use std::time::Duration;

use super::{
    RuntimeFollowerMsg, RuntimeFollowerView, answers::RuntimeFollowerAnswer, state::RuntimeFollower,
};
use crate::{
    host::{Behaviour, Cx, Pauses},
    ports::{RuntimeEvent, WATCH_ALIVE_EVERY},
    restore::RestoreMsg,
};

/// How long restored endpoints are waited for before it is asked again: as long as it takes.
const PROGRAMMED_PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// How long nothing may come by a connection.
const SILENCE_MAX: Duration = WATCH_ALIVE_EVERY.saturating_mul(3);
/// How long a runtime that is away is left alone.
const PAUSES: Pauses =
    Pauses::Doubling { first: Duration::from_secs(1), most: Duration::from_secs(60) };
/// Who was followed for so long is asked soon again; who was not is one that fails again and again.
const LASTED: Duration = Duration::from_secs(60);

impl RuntimeFollower {
    /// Restored endpoints go first: nothing here is urgent.
    fn await_programmed(&self, cx: &mut Cx<'_, Self>) {
        cx.ask(
            &self.peers.restore,
            PROGRAMMED_PATIENCE,
            "restored endpoints to be programmed",
            RestoreMsg::AwaitProgrammed,
            RuntimeFollowerAnswer::Programmed,
        );
    }

    fn connect(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.tries.begin() {
            return;
        }
        self.known.number += 1;
        let number = self.known.number;
        let (home, host) = (cx.home().clone(), cx.host().clone());
        let tell = move |event| {
            host.outside("container runtime", || {
                home.tell(RuntimeFollowerAnswer::Told(number, event))
            })
        };
        self.watch = Some(self.peers.runtime.follow(Box::new(tell)));
        self.heed_silence(cx);
    }

    fn told(&mut self, cx: &mut Cx<'_, Self>, event: RuntimeEvent) {
        match event {
            RuntimeEvent::Ended(error) => return self.lose(cx, error.to_string()),
            RuntimeEvent::Follows(version) => self.follows(cx, version),
            RuntimeEvent::Alive => {}
            RuntimeEvent::Changed(container) => self.changed(cx, container),
        }
        self.known.view.hearing.hear(cx.now());
        self.heed_silence(cx);
    }

    fn follows(&mut self, cx: &mut Cx<'_, Self>, version: String) {
        let view = &mut self.known.view;
        tracing::info!(version, "container runtime is followed");
        (view.version, view.error, view.was_followed) = (Some(version), None, true);
        self.followed = Some(cx.now());
        self.begin_anew(cx);
    }

    /// The connection is of no use any more, and what came by it is not believed.
    pub(super) fn lose(&mut self, cx: &mut Cx<'_, Self>, error: String) {
        if self.watch.take().is_none() {
            return;
        }
        self.known.number += 1;
        if let Some(timer) = self.silence.take() {
            cx.cancel(timer);
        }
        let followed = self.followed.take();
        if followed.is_some_and(|since| cx.now().since(since) >= LASTED) {
            self.tries.succeeded();
        }
        self.forget(cx);
        let pause = self.tries.failed(PAUSES, cx, RuntimeFollowerAnswer::Connect);
        let view = &mut self.known.view;
        // Where there is none, that is no news.
        match followed.is_some() {
            true => tracing::warn!(error, again = ?pause, "container runtime is not followed"),
            false => tracing::debug!(error, again = ?pause, "container runtime does not answer"),
        }
        (view.version, view.error) = (None, Some(error));
        view.hearing.lose();
    }

    fn heed_silence(&mut self, cx: &mut Cx<'_, Self>) {
        if self.watch.is_none() {
            return;
        }
        if let Some(timer) = self.silence.take() {
            cx.cancel(timer);
        }
        self.silence =
            Some(cx.after(SILENCE_MAX, RuntimeFollowerAnswer::Silent(self.known.number)));
    }
}

impl Behaviour for RuntimeFollower {
    type Msg = RuntimeFollowerMsg;
    type Answer = RuntimeFollowerAnswer;
    type Observed = RuntimeFollowerView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        let view = &mut self.known.view;
        view.version = None;
        view.hearing.lose();
        self.await_programmed(cx);
    }

    fn handle(&mut self, msg: RuntimeFollowerMsg, _: &mut Cx<'_, Self>) {
        match msg {
            RuntimeFollowerMsg::Show(reply) => reply.send(self.view()),
        }
    }

    fn answered(&mut self, answer: RuntimeFollowerAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            RuntimeFollowerAnswer::Programmed(Ok(_)) => self.connect(cx),
            RuntimeFollowerAnswer::Programmed(Err(_)) => self.await_programmed(cx),
            RuntimeFollowerAnswer::Connect => {
                self.tries.over();
                self.connect(cx);
            }
            RuntimeFollowerAnswer::Told(number, event) if number == self.known.number => {
                self.told(cx, event);
            }
            RuntimeFollowerAnswer::Silent(number) if number == self.known.number => {
                self.silence = None;
                let seconds = SILENCE_MAX.as_secs();
                self.lose(cx, format!("it said nothing for {seconds} s; see whether it hangs"));
            }
            // Of a connection before this one.
            RuntimeFollowerAnswer::Told(..) | RuntimeFollowerAnswer::Silent(_) => {}
            RuntimeFollowerAnswer::Round => {
                self.round.timer = None;
                self.begin_round(cx);
            }
            RuntimeFollowerAnswer::Endpoints(answer) => self.endpoints_are(cx, answer),
            RuntimeFollowerAnswer::Listed(number, answer) => self.listed(cx, number, answer),
            RuntimeFollowerAnswer::LookedUp(number, asked, answer) => {
                self.looked_up(cx, number, &asked, answer);
            }
            RuntimeFollowerAnswer::Judged(answer) => self.judged(cx, answer),
        }
    }

    fn observe(&self) -> RuntimeFollowerView {
        self.view()
    }
}
