//! How a stream reads the ring: where it begins, what it skips, when it ends, and what it says of flows
//! that were overwritten before it came to them.

use std::{sync::Arc, time::Duration};

use prost::Message;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::{Instant, timeout},
};
use tonic::Status;

use crate::{
    filter::Filters,
    mask::Mask,
    messages::{
        FlowsResponse, GetAgentEventsResponse, GetEventsRequest, GetFlowsRequest, GetFlowsResponse,
        LostEvent, Timestamp, lost, now,
    },
    observer::{Observer, STREAMS_MAX},
    ring::{Content, Stored},
    wire::{Wire, members, put_bytes},
};

/// How many answers wait for a client at most,
const WAITING_MAX: usize = 64;
/// and how long it may take none of them.
const CLIENT_PATIENCE: Duration = Duration::from_secs(300);
/// After how many records others have their turn.
const TURN: u64 = 128;
/// How long a flow waits for the name of a new endpoint.
const NAME_PATIENCE: Duration = Duration::from_millis(100);

/// What is sent to a client.
pub(crate) type Answers = mpsc::Receiver<Result<Vec<u8>, Status>>;
type Sender = mpsc::Sender<Result<Vec<u8>, Status>>;

/// The client is gone, or has not read for too long.
struct Gone;

/// A stream of flows that is being read.
struct Reading {
    observer: Arc<Observer>,
    answers: Sender,
    filters: Filters,
    mask: Option<Mask>,
    until: Option<u64>,
    /// How many may come yet, if that is bounded.
    left: Option<u64>,
    follow: bool,
    /// What it lost since it was last told.
    missed: Option<(u64, u64)>,
    told: Option<Instant>,
}

/// A place for a stream; refused if there is none.
pub(crate) fn place(observer: &Observer) -> Result<OwnedSemaphorePermit, Status> {
    Arc::clone(observer.streams()).try_acquire_owned().map_err(|_| {
        Status::resource_exhausted(format!(
            "{STREAMS_MAX} streams are served already, which is as many as this node serves: end one of \
             them, or ask through a relay"
        ))
    })
}

/// Answers a request for flows. What is wrong with it is said at once.
pub(crate) async fn flows(
    observer: Arc<Observer>,
    request: GetFlowsRequest,
) -> Result<Answers, Status> {
    if request.first && request.follow {
        return Err(Status::invalid_argument(
            "first and follow together have no meaning: ask for one of them",
        ));
    }
    let invalid = |error: &dyn ToString| Status::invalid_argument(error.to_string());
    let filters =
        Filters::new(&request.whitelist, &request.blacklist).map_err(|it| invalid(&it))?;
    let paths = request.field_mask.as_ref().map_or(&[][..], |mask| &mask.paths);
    let mask = Mask::of_flow(paths).map_err(|it| invalid(&it))?;
    let place = place(&observer)?;
    observer.freshen().await;
    let (answers, receiver) = mpsc::channel(WAITING_MAX);
    let reading = Reading {
        observer,
        answers,
        filters,
        mask,
        until: request.until.map(|at| at.nanoseconds()),
        left: (request.number > 0 && !request.follow).then_some(request.number),
        follow: request.follow,
        missed: None,
        told: None,
    };
    tokio::spawn(async move {
        let _place = place;
        reading.run(&request).await;
    });
    Ok(receiver)
}

impl Reading {
    async fn run(mut self, request: &GetFlowsRequest) {
        let (mut at, end) = self.start(request).await;
        let mut news = self.observer.news();
        loop {
            news.borrow_and_update();
            let limit = if self.follow { self.observer.ring().bounds().1 } else { end };
            match self.read(&mut at, limit).await {
                Ok(true) if self.follow => {}
                // Nobody is left, or all is said.
                _ => return,
            }
            let gone = self.answers.clone();
            let changed = async {
                match self.missed {
                    Some(_) => {
                        let _ = timeout(self.observer.lost_interval(), news.changed()).await;
                        true
                    }
                    None => news.changed().await.is_ok(),
                }
            };
            tokio::select! {
                is_there = changed => if !is_there { return },
                () = gone.closed() => return,
            }
        }
    }

    /// Where to begin, and where to end if it does not follow.
    async fn start(&self, request: &GetFlowsRequest) -> (u64, u64) {
        let ring = self.observer.ring();
        let (oldest, next) = ring.bounds();
        if let Some(since) = request.since {
            let since = since.nanoseconds();
            // Times never go back, but for a clock that is set: the newest that is older ends it.
            let before = (oldest..next).rev().find(|it| ring.time(*it).is_some_and(|t| t < since));
            return (before.map_or(oldest, |before| before + 1), next);
        }
        if request.first || (request.number == 0 && !request.follow) {
            return (oldest, next);
        }
        let (mut at, mut counted) = (next, 0);
        while at > oldest && counted < request.number {
            at -= 1;
            let is_counted = match self.filters.is_empty() && self.until.is_none() {
                true => ring.get(at).is_some_and(|it| matches!(it.content, Content::Record { .. })),
                false => self.matches(at),
            };
            counted += u64::from(is_counted);
            if at.is_multiple_of(TURN) {
                tokio::task::yield_now().await;
            }
        }
        (at, next)
    }

    fn matches(&self, number: u64) -> bool {
        let stored = self.observer.ring().get(number);
        let decoded = stored.and_then(|stored| self.observer.decode(&stored));
        decoded.is_some_and(|it| self.is_in_time(&it.flow.time) && self.filters.pass(&it.flow))
    }

    fn is_in_time(&self, time: &Option<Timestamp>) -> bool {
        let time = time.map_or(0, |time| time.nanoseconds());
        self.until.is_none_or(|until| time <= until)
    }

    /// Reads up to a record; false when there is nothing more to say.
    async fn read(&mut self, at: &mut u64, limit: u64) -> Result<bool, Gone> {
        while *at < limit {
            let (oldest, _) = self.observer.ring().bounds();
            if *at < oldest {
                let (count, first) = self.missed.unwrap_or((0, now()));
                self.missed = Some((count + oldest - *at, first));
                *at = oldest;
            }
            self.tell_missed().await?;
            let stored = self.observer.ring().get(*at);
            *at += 1;
            if at.is_multiple_of(TURN) {
                tokio::task::yield_now().await;
            }
            // Of a slot that a kill left half written nothing is known.
            let Some(stored) = stored else { continue };
            if !self.answer(&stored).await? {
                return Ok(false);
            }
        }
        self.tell_missed().await?;
        Ok(true)
    }

    /// Answers a record if it is asked for; false if that was the last.
    async fn answer(&mut self, stored: &Stored) -> Result<bool, Gone> {
        if let Content::Lost { source, count, first } = stored.content {
            let event = LostEvent {
                source: source as i32,
                num_events_lost: count,
                cpu: i32::try_from(stored.cpu).ok(),
                first: Some(Timestamp::from_nanoseconds(first)),
                last: Some(Timestamp::from_nanoseconds(stored.time)),
            };
            self.tell_lost(event, stored.time).await?;
            return Ok(true);
        }
        if self.until.is_some_and(|until| stored.time > until) {
            return Ok(false);
        }
        if self.follow && self.observer.want_names(stored) {
            let _ = timeout(NAME_PATIENCE, self.named(stored)).await;
        }
        let Some(decoded) = self.observer.decode(stored) else { return Ok(true) };
        if !self.filters.pass(&decoded.flow) {
            return Ok(true);
        }
        let bytes = match &self.mask {
            Some(mask) => response(&mask.apply(&decoded.bytes)),
            None => response(&decoded.bytes),
        };
        self.send(bytes).await?;
        if let Some(left) = &mut self.left {
            *left -= 1;
            return Ok(*left > 0);
        }
        Ok(true)
    }

    /// Waits until a record's endpoint has a name.
    async fn named(&self, stored: &Stored) {
        while self.observer.want_names(stored) {
            tokio::time::sleep(NAME_PATIENCE / 5).await;
        }
    }

    async fn tell_missed(&mut self) -> Result<(), Gone> {
        let Some((count, first)) = self.missed else { return Ok(()) };
        let interval = self.observer.lost_interval();
        if self.told.is_some_and(|told| told.elapsed() < interval) && self.follow {
            return Ok(());
        }
        (self.missed, self.told) = (None, Some(Instant::now()));
        let at = now();
        let event = LostEvent {
            source: lost::RING,
            num_events_lost: count,
            cpu: None,
            first: Some(Timestamp::from_nanoseconds(first)),
            last: Some(Timestamp::from_nanoseconds(at)),
        };
        self.tell_lost(event, at).await
    }

    async fn tell_lost(&self, event: LostEvent, time: u64) -> Result<(), Gone> {
        let response = GetFlowsResponse {
            response: Some(FlowsResponse::LostEvents(event)),
            node_name: self.observer.names().flow_name().to_owned(),
            time: Some(Timestamp::from_nanoseconds(time)),
        };
        self.send(response.encode_to_vec()).await
    }

    async fn send(&self, bytes: Vec<u8>) -> Result<(), Gone> {
        send(&self.answers, bytes).await
    }
}

/// Sends an answer; whoever has not read any for long is let go.
async fn send(answers: &Sender, bytes: Vec<u8>) -> Result<(), Gone> {
    match timeout(CLIENT_PATIENCE, answers.send(Ok(bytes))).await {
        Ok(sent) => sent.map_err(|_| Gone),
        Err(_) => Err(Gone),
    }
}

/// The answer with a flow: its node and time are there as well, if the flow still has them.
pub(crate) fn response(flow: &[u8]) -> Vec<u8> {
    const TIME: u32 = 1;
    const NODE: u32 = 11;
    let mut bytes = Vec::with_capacity(flow.len() + 64);
    put_bytes(&mut bytes, 1, flow);
    let found = |wanted: u32| {
        let mut all = members(flow);
        all.find_map(|(number, wire, _)| match wire {
            Wire::Bytes(value) if number == wanted => Some(value),
            _ => None,
        })
    };
    if let Some(node) = found(NODE) {
        put_bytes(&mut bytes, 1000, node);
    }
    if let Some(time) = found(TIME) {
        put_bytes(&mut bytes, 1001, time);
    }
    bytes
}

/// Answers a request for events of the agent.
pub(crate) fn agent_events(
    observer: Arc<Observer>,
    request: GetEventsRequest,
) -> Result<Answers, Status> {
    if request.first && request.follow {
        return Err(Status::invalid_argument(
            "first and follow together have no meaning: ask for one of them",
        ));
    }
    let place = place(&observer)?;
    let (answers, receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(async move {
        let _place = place;
        // Whoever is gone needs no answer.
        let _ = tell_agent_events(&observer, &request, &answers).await;
    });
    Ok(receiver)
}

async fn tell_agent_events(
    observer: &Observer,
    request: &GetEventsRequest,
    answers: &Sender,
) -> Result<(), Gone> {
    let since = request.since.map_or(0, |at| at.nanoseconds());
    let until = request.until.map_or(u64::MAX, |at| at.nanoseconds());
    let mut news = observer.news();
    let (oldest, end) = observer.agent_events().bounds();
    let mut at = match (request.first || request.since.is_some(), request.follow, request.number) {
        (true, ..) | (false, false, 0) => oldest,
        (false, true, 0) => end,
        (.., number) => end.saturating_sub(number).max(oldest),
    };
    let mut left = if request.follow || request.number == 0 { u64::MAX } else { request.number };
    loop {
        news.borrow_and_update();
        loop {
            let (oldest, next) = observer.agent_events().bounds();
            at = at.max(oldest);
            if at >= if request.follow { next } else { end } || left == 0 {
                break;
            }
            let found = observer.agent_events().get(at).cloned();
            at += 1;
            let Some((time, event)) = found.filter(|(time, _)| *time >= since) else { continue };
            if time > until {
                return Ok(());
            }
            let response = GetAgentEventsResponse {
                agent_event: Some(event),
                node_name: observer.names().flow_name().to_owned(),
                time: Some(Timestamp::from_nanoseconds(time)),
            };
            send(answers, response.encode_to_vec()).await?;
            left -= 1;
        }
        if !request.follow {
            return Ok(());
        }
        tokio::select! {
            changed = news.changed() => changed.map_err(|_| Gone)?,
            () = answers.closed() => return Err(Gone),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
