use etcd_client::{Client, EventType, WatchOptions, WatchResponse};
use tokio::{sync::mpsc::Sender, time::interval};
use volvox_actors::ports::{Change, KvError, Pair, Revision, WATCH_ALIVE_EVERY, WatchEvent};

use super::{ANSWER_MAX, client::Connection};

/// Tells of what changes below a prefix until nobody listens or it ends.
pub(super) async fn follow(
    connection: Connection,
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
async fn watch(
    connection: &Connection,
    prefix: &str,
    from: Revision,
    events: &Sender<WatchEvent>,
) -> Result<Option<WatchEvent>, KvError> {
    let options = WatchOptions::new().with_prefix().with_start_revision(from.0);
    let begin = |client: Client| async move {
        let mut client = client.watch_client().max_decoding_message_size(ANSWER_MAX);
        client.watch(prefix, Some(options)).await
    };
    let (mut requests, mut responses) = connection.call("watch", prefix, begin).await?.split();
    let ended = |error: etcd_client::Error| super::EtcdError::from(error).told("watch", prefix);
    let mut ticks = interval(WATCH_ALIVE_EVERY);
    loop {
        let response = tokio::select! {
            response = responses.message() => response.map_err(ended)?,
            _ = ticks.tick() => {
                requests.request_progress().await.map_err(ended)?;
                continue;
            }
            () = events.closed() => return Ok(None),
        };
        let Some(response) = response else {
            let cause = etcd_client::Error::WatchError("the server ended it".to_owned());
            return Err(ended(cause));
        };
        if response.canceled() {
            if response.compact_revision() > 0 {
                return Ok(Some(WatchEvent::Compacted));
            }
            let cause = etcd_client::Error::WatchError(response.cancel_reason().to_owned());
            return Err(ended(cause));
        }
        if events.send(event(&response)).await.is_err() {
            return Ok(None);
        }
    }
}

/// What a response says. Revisions come whole: the last one is what to go on from.
fn event(response: &WatchResponse) -> WatchEvent {
    let pairs =
        response.events().iter().filter_map(|event| Some((event.event_type(), event.kv()?)));
    let (mut revision, mut changes) = (None, Vec::new());
    for (kind, pair) in pairs {
        revision = revision.max(Some(Revision(pair.mod_revision())));
        // Nobody of ours writes keys that are no text.
        let Ok(key) = pair.key_str() else { continue };
        changes.push(match kind {
            EventType::Put => {
                Change::Put(Pair { key: key.to_owned(), value: pair.value().to_vec() })
            }
            EventType::Delete => Change::Delete(key.to_owned()),
        });
    }
    match revision {
        Some(revision) => WatchEvent::Changed { revision, changes },
        None => WatchEvent::Alive,
    }
}
