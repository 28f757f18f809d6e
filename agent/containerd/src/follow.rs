//! Follows containerd by one connection until nobody listens or it ends.

use tokio::{
    sync::mpsc::{self, Sender},
    task::{JoinSet, yield_now},
    time::{MissedTickBehavior, interval},
};
use tonic::Streaming;
use volvox_actors::ports::{RuntimeError, RuntimeEvent, WATCH_ALIVE_EVERY};

use super::{
    ContainerdError, EVENTS_MAX,
    client::{Client, Connection, NAMESPACE, refused},
    messages::{Envelope, topics},
};

/// Tells of what happens; why it ended is told last.
pub(crate) async fn follow(client: Client, events: Sender<RuntimeEvent>) {
    if let Err(error) = hear(&client, &events).await {
        // Whoever listened may be gone by now.
        let _ = events.send(RuntimeEvent::Ended(RuntimeError(error.to_string()))).await;
    }
}

/// Ends without an error only if nobody listens any more.
async fn hear(client: &Client, events: &Sender<RuntimeEvent>) -> Result<(), ContainerdError> {
    let connection = client.connect().await?;
    let (heard, mut said) = mpsc::channel(EVENTS_MAX);
    // Ends with this future. The answer begins with the first event only, so nobody waits for it.
    let mut listening = JoinSet::new();
    listening.spawn(listen(connection.clone(), heard));
    yield_now().await;
    let version = connection.version().await?;
    if events.send(RuntimeEvent::Follows(version)).await.is_err() {
        return Ok(());
    }
    let mut ticks = interval(WATCH_ALIVE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    loop {
        let event = tokio::select! {
            container = said.recv() => match container {
                Some(container) => RuntimeEvent::Changed(container),
                None => {
                    let end = listening.join_next().await;
                    return Err(end.and_then(Result::ok).unwrap_or(ContainerdError::Ended));
                }
            },
            _ = ticks.tick() => {
                connection.version().await?;
                RuntimeEvent::Alive
            }
            () = events.closed() => return Ok(()),
        };
        if events.send(event).await.is_err() {
            return Ok(());
        }
    }
}

/// Hands on which containers events are about; why there are no more.
async fn listen(connection: Connection, heard: Sender<String>) -> ContainerdError {
    let mut stream: Streaming<Envelope> = match connection.subscribe(topics(NAMESPACE)).await {
        Ok(stream) => stream,
        Err(error) => return error,
    };
    loop {
        match stream.message().await {
            Ok(Some(envelope)) => {
                if let Some(container) = envelope.subject(NAMESPACE)
                    && heard.send(container).await.is_err()
                {
                    return ContainerdError::Ended;
                }
            }
            Ok(None) => return ContainerdError::Ended,
            Err(status) => return refused("events")(status),
        }
    }
}
