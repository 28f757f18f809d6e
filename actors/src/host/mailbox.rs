//! The queue of a cell: it keeps lanes, merges messages, and refuses what exceeds its capacity.

use std::collections::VecDeque;

use super::{Absorbed, Lane, Message, envelope::Envelope};

/// A bounded queue with lanes: the first message of the first lane that has one comes next.
pub(super) struct Mailbox<M> {
    answers: VecDeque<Envelope<M>>,
    control: VecDeque<Envelope<M>>,
    request: VecDeque<Envelope<M>>,
    regeneration: VecDeque<Envelope<M>>,
    capacity: usize,
}

/// What became of a message that was put into a mailbox.
pub(super) enum EnqueueOutcome<M> {
    Queued,
    Absorbed,
    Full(Envelope<M>),
}

impl<M: Message> Mailbox<M> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            answers: VecDeque::new(),
            control: VecDeque::new(),
            request: VecDeque::new(),
            regeneration: VecDeque::new(),
            capacity,
        }
    }

    /// Queues a message in its lane, if there is room.
    pub(super) fn put(&mut self, mut envelope: Envelope<M>) -> EnqueueOutcome<M> {
        let lane = envelope.msg.lane();
        if let Some(last) = self.lane(lane).back_mut() {
            match last.msg.absorb(envelope.msg) {
                Absorbed::Yes => return EnqueueOutcome::Absorbed,
                Absorbed::No(msg) => envelope.msg = msg,
            }
        }
        if self.waiting() >= self.capacity {
            return EnqueueOutcome::Full(envelope);
        }
        push(self.lane(lane), envelope);
        EnqueueOutcome::Queued
    }

    /// Queues an answer before all that was told. Open asks bound their number: none is refused.
    pub(super) fn put_answer(&mut self, envelope: Envelope<M>) {
        push(&mut self.answers, envelope);
    }

    pub(super) fn take(&mut self) -> Option<Envelope<M>> {
        let Self { answers, control, request, regeneration, .. } = self;
        [answers, control, request, regeneration].into_iter().find_map(|lane| {
            let first = lane.pop_front();
            if lane.is_empty() {
                // There are thousands of mailboxes, and few messages.
                *lane = VecDeque::new();
            }
            first
        })
    }

    pub(super) fn len(&self) -> usize {
        self.waiting() + self.answers.len()
    }

    fn waiting(&self) -> usize {
        self.control.len() + self.request.len() + self.regeneration.len()
    }

    fn lane(&mut self, lane: Lane) -> &mut VecDeque<Envelope<M>> {
        match lane {
            Lane::Control => &mut self.control,
            Lane::Request => &mut self.request,
            Lane::Regeneration => &mut self.regeneration,
        }
    }
}

fn push<M>(lane: &mut VecDeque<Envelope<M>>, envelope: Envelope<M>) {
    if lane.capacity() == 0 {
        // Most hold one message at a time, if any.
        lane.reserve_exact(1);
    }
    lane.push_back(envelope);
}
