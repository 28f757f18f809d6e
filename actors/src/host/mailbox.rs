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
pub(super) enum Put<M> {
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

    pub(super) fn put(&mut self, lane: Lane, mut envelope: Envelope<M>) -> Put<M> {
        if lane != Lane::Answer {
            if let Some(last) = self.lane(lane).back_mut() {
                match last.msg.absorb(envelope.msg) {
                    Absorbed::Yes => return Put::Absorbed,
                    Absorbed::No(msg) => envelope.msg = msg,
                }
            }
            if self.waiting() >= self.capacity {
                return Put::Full(envelope);
            }
        }
        let lane = self.lane(lane);
        if lane.capacity() == 0 {
            // Most hold one message at a time, if any.
            lane.reserve_exact(1);
        }
        lane.push_back(envelope);
        Put::Queued
    }

    pub(super) fn take(&mut self) -> Option<Envelope<M>> {
        [Lane::Answer, Lane::Control, Lane::Request, Lane::Regeneration].into_iter().find_map(
            |lane| {
                let lane = self.lane(lane);
                let first = lane.pop_front();
                if lane.is_empty() {
                    // There are thousands of mailboxes, and few messages.
                    *lane = VecDeque::new();
                }
                first
            },
        )
    }

    pub(super) fn len(&self) -> usize {
        self.waiting() + self.answers.len()
    }

    fn waiting(&self) -> usize {
        self.control.len() + self.request.len() + self.regeneration.len()
    }

    fn lane(&mut self, lane: Lane) -> &mut VecDeque<Envelope<M>> {
        match lane {
            Lane::Answer => &mut self.answers,
            Lane::Control => &mut self.control,
            Lane::Request => &mut self.request,
            Lane::Regeneration => &mut self.regeneration,
        }
    }
}
