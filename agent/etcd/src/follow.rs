//! Follows one prefix of the store by a watch, and hands what changes to its subscriber. To begin a
//! new watch after an end is left to the subscriber.

use tokio::{sync::mpsc::Sender, time::interval};
use volvox_actors::ports::{KvError, Revision, WATCH_ALIVE_EVERY, WatchEvent};

use super::{
    EtcdError,
    client::{Client, Watching},
    connection::Connection,
};

/// Tells of what changes below a prefix until nobody listens or it ends.
pub(super) async fn follow<C: Client>(
    connection: Connection<C>,
    prefix: String,
    from: Revision,
    events: Sender<WatchEvent>,
) {
    let end = match watch(&connection, &prefix, from, &events).await {
        Ok(end) => end,
        Err(error) => Some(WatchEvent::Ended(error)),
    };
    if let Some(end) = end {
        // Whoever listened may be gone by now.
        let _ = events.send(end).await;
    }
}

/// How it ended; none if nobody listens any more.
async fn watch<C: Client>(
    connection: &Connection<C>,
    prefix: &str,
    from: Revision,
    events: &Sender<WatchEvent>,
) -> Result<Option<WatchEvent>, KvError> {
    let begin = |client: C| client.watch(prefix, from);
    let mut watch = connection.call("watch", prefix, begin).await?;
    let ended = |error: EtcdError| error.reported("watch", prefix);
    let mut ticks = interval(WATCH_ALIVE_EVERY);
    loop {
        let reported = tokio::select! {
            reported = watch.next() => Some(reported.map_err(ended)?),
            _ = ticks.tick() => watch.ask().await.map_err(ended)?,
            () = events.closed() => return Ok(None),
        };
        let Some(reported) = reported else { continue };
        if reported == WatchEvent::Compacted {
            return Ok(Some(reported));
        }
        if events.send(reported).await.is_err() {
            return Ok(None);
        }
    }
}
