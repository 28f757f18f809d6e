//! What is done about what is seen at an endpoint's interface.

use std::{sync::Arc, time::Duration};

use super::{
    Endpoint, EndpointNews, EndpointState, Level, answers::EndpointAnswer, lost::Lost,
    trigger::Trigger,
};
use crate::{
    host::{Cx, Time},
    mutants::{Mutant, mutated},
    ports::Probe,
};

/// An answer that is older than the last work is asked for again after that long.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

impl Endpoint {
    /// Takes in what was seen at its interface, and has put right what can be.
    pub(super) fn probed(&mut self, cx: &mut Cx<'_, Self>, probe: &Probe, asked: Time) {
        if !self.is_at_rest() {
            self.interface.missed = true;
            return;
        }
        // What was done after the question may not show in the answer: it is asked again then.
        if self.datapath.worked_at >= asked {
            cx.after(AGAIN_AFTER, EndpointAnswer::LookAgain);
            return;
        }
        let lost = Lost::seen(&self.record.spec, probe).filter(|_| !mutated(Mutant::LostUnnoticed));
        let Some(known) =
            self.datapath.known.as_mut().filter(|_| lost != self.interface.lost || lost.is_some())
        else {
            return;
        };
        known.attachment = probe.attachment;
        known.routes.clone_from(&probe.routes);
        known.up = self.record.spec.is_up(probe.link.as_ref());
        self.lose(cx, lost);
        self.repair(cx);
    }

    /// Shows what keeps it from being served.
    pub(super) fn lose(&mut self, cx: &mut Cx<'_, Self>, lost: Option<Lost>) {
        if self.interface.lost == lost {
            return;
        }
        match &lost {
            Some(Lost { why, .. }) => {
                tracing::warn!(endpoint = %self.id, %why, "endpoint is not served");
                self.note(cx, "Warning", &format!("Not served: {why}"));
            }
            None => self.note(cx, "OK", "Served again"),
        }
        self.interface.lost = lost;
        self.publish(cx);
    }

    /// Whether it is ready, and nobody works at it.
    fn is_at_rest(&self) -> bool {
        let works = self.datapath.busy || self.datapath.settling || !self.phase.is_idle();
        !works && self.state == EndpointState::Ready
    }

    /// Has its interface looked at again, if what was seen there could not be taken in and now could.
    pub(super) fn take_up_missed(&mut self) {
        if self.interface.missed && self.is_at_rest() {
            self.interface.missed = false;
            self.look_again();
        }
    }

    /// Has its interface looked at.
    pub(super) fn look_again(&self) {
        if let Err(refused) = self.peers.supervisor.say(EndpointNews::LookAgain(self.id)) {
            tracing::warn!(endpoint = %self.id, %refused, "its interface is looked at later");
        }
    }

    /// Puts right what keeps it from being served, unless that was done too often lately: then later.
    pub(super) fn repair(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(Lost { why, gone: false }) = &self.interface.lost else { return };
        if let Some(wait) = self.interface.repairs.wait(cx.now()) {
            return self.retry_in(cx, wait);
        }
        self.interface.repairs.spend(cx.now());
        let trigger = Trigger::new(Level::Load, Arc::clone(why), Vec::new());
        self.trigger(cx, trigger);
    }
}
