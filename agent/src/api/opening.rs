//! Whether new endpoints may be made: the node's facts and restored endpoints are known, and what was
//! to be deleted while no agent lived is gone.

use std::{future::pending, time::Duration};

use tokio::{sync::watch, time::timeout};
use volvox_inspect::http::ApiError;

/// How long a question for something new waits, as long as Cilium's clients do.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it waits for what the cluster is to say: less than a plugin waits for addresses.
const CLUSTER_PATIENCE: Duration = Duration::from_secs(8);

#[derive(Clone, Debug, Default)]
struct Said {
    open: bool,
    awaits: Option<String>,
}

/// Tells it; what is asked before waits.
#[derive(Clone, Debug)]
pub struct Opener(watch::Sender<Said>);

/// Hears of it.
#[derive(Clone, Debug)]
pub struct Opening(watch::Receiver<Said>);

/// Who tells it and who hears of it.
pub fn opening() -> (Opener, Opening) {
    let (sender, receiver) = watch::channel(Said::default());
    (Opener(sender), Opening(receiver))
}

impl Opener {
    /// From now on new endpoints may be made.
    pub fn open(&self) {
        self.0.send_replace(Said { open: true, awaits: None });
    }

    /// What of the node is not known yet, and why; no new endpoint can be made before. False if
    /// that was said already.
    pub fn awaits(&self, what: &str) -> bool {
        self.0.send_if_modified(|said| {
            let is_new = said.awaits.as_deref() != Some(what);
            said.awaits = Some(what.to_owned());
            is_new
        })
    }
}

impl Opening {
    /// What of the node is not known yet.
    pub(super) fn awaited(&self) -> Option<String> {
        self.0.borrow().awaits.clone()
    }

    /// Waits until new endpoints may be made. Who waits when this life ends gets no answer: a plugin asks
    /// the next one.
    pub(super) async fn wait(&self) -> Result<(), ApiError> {
        self.wait_for([CLUSTER_PATIENCE, PATIENCE - CLUSTER_PATIENCE]).await
    }

    /// So long; after the first part only if it is not known what is missing.
    async fn wait_for(&self, parts: [Duration; 2]) -> Result<(), ApiError> {
        let mut receiver = self.0.clone();
        for patience in parts {
            let opened = timeout(patience, receiver.wait_for(|said| said.open)).await;
            match opened.map(|said| said.is_ok()) {
                Ok(true) => return Ok(()),
                Ok(false) => pending().await,
                Err(_) => {}
            }
            if let Some(what) = self.awaited() {
                return Err(ApiError::unavailable(format!("no new pod can come yet: {what}")));
            }
        }
        Err(ApiError::unavailable(
            "the agent still restores endpoints and deletes those of the queue: try again, and ask \
             `volvox why` what it waits for",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_too_early_waits_or_hears_what_is_not_known() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (opener, early) = opening();
            let waits = tokio::spawn(async move { early.wait().await.is_ok() });
            tokio::task::yield_now().await;
            opener.open();
            assert!(waits.await.unwrap());

            let moments = [Duration::from_millis(5); 2];
            let (opener, early) = opening();
            let text = early.wait_for(moments).await.unwrap_err().text;
            assert!(text.contains("still restores endpoints"), "{text}");
            assert!(opener.awaits("no prefix") && !opener.awaits("no prefix"));
            let text = early.wait_for(moments).await.unwrap_err().text;
            assert!(text.contains("no new pod can come yet: no prefix"), "{text}");
            assert_eq!(early.awaited().as_deref(), Some("no prefix"));
            opener.open();
            assert!(early.wait_for(moments).await.is_ok() && early.awaited().is_none());

            // The next life knows what this one only heard of when it ended.
            let (opener, early) = opening();
            opener.awaits("no prefix");
            let waits = tokio::spawn(async move { early.wait().await });
            tokio::task::yield_now().await;
            drop(opener);
            assert!(timeout(Duration::from_millis(20), waits).await.is_err());
        });
    }
}
