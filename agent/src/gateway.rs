//! The way from other threads to the actors.
//!
//! All actors live on one thread, and a message's [`Reply`] must not leave it. So whoever lives
//! elsewhere, the API above all, sends a closure over a bounded channel; it runs beside the
//! actors, asks one of them, and the answer travels back by itself.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};
use volvox_actors::{
    host::{AskError, Message, Ref, Reply},
    node_supervisor::NodeSupervisor,
};

/// How many errands may wait for the actors' thread.
const ERRANDS_MAX: usize = 256;
/// How long an actor may take to answer, as long as Cilium's clients wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much longer than that the asker waits, in case the actors' thread itself hangs.
const PATIENCE_EXTRA: Duration = Duration::from_secs(5);
/// How long who asks an agent that ends hears nothing: with the process his connection ends, and the next
/// life is there when he asks again. An answer he would believe.
const ENDING: Duration = Duration::from_secs(2);

/// Why an actor's answer did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// Too many questions wait already.
    #[error("{ERRANDS_MAX} questions wait for the agent already: try again later")]
    Busy,
    /// The actors' thread has ended.
    #[error("the agent is shutting down: ask again when it is back")]
    Down,
    /// The actors' thread does not answer at all.
    #[error("the agent's actors do not answer: a handler hangs; its name is in the agent's log")]
    Hung,
    /// The actor was reached, but gave no answer.
    #[error("the agent did not answer: {0}; `volvox status` shows who waits for whom")]
    Ask(#[from] AskError),
}

type Errand = Box<dyn FnOnce(&NodeSupervisor) + Send>;

/// Carries questions to the actors' thread, from any other.
#[derive(Clone)]
pub struct Gateway(mpsc::Sender<Errand>);

/// The end of the way, on the actors' thread.
pub struct Errands(mpsc::Receiver<Errand>);

/// A way to the actors.
pub fn gateway() -> (Gateway, Errands) {
    let (sender, receiver) = mpsc::channel(ERRANDS_MAX);
    (Gateway(sender), Errands(receiver))
}

impl Gateway {
    /// Looks at something on the actors' thread. `look` must be quick.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&NodeSupervisor) -> T + Send + 'static,
    ) -> Result<T, GatewayError> {
        let (tell, reported) = oneshot::channel();
        // Whoever asked may be gone by then; nobody needs the answer in that case.
        let errand: Errand =
            Box::new(move |node_supervisor| drop(tell.send(look(node_supervisor))));
        if let Err(mpsc::error::TrySendError::Full(_)) = self.0.try_send(errand) {
            return Err(GatewayError::Busy);
        }
        // An errand that was not taken is gone, and with it who would tell.
        match tokio::time::timeout(PATIENCE + PATIENCE_EXTRA, reported).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => {
                tokio::time::sleep(ENDING).await;
                Err(GatewayError::Down)
            }
            Err(_) => Err(GatewayError::Hung),
        }
    }

    /// Asks an actor that may not be there; `None` if it is not.
    pub async fn ask_if<M: Message, T: Send + 'static>(
        &self,
        what: &'static str,
        whom: fn(&NodeSupervisor) -> Option<&Ref<M>>,
        make: impl FnOnce(Reply<T>) -> M + Send + 'static,
    ) -> Result<Option<T>, GatewayError> {
        let ask = move |node_supervisor: &NodeSupervisor| {
            let whom = whom(node_supervisor)?;
            let host = &node_supervisor.host;
            Some(host.outside(what, || host.ask(whom, PATIENCE, what, make)))
        };
        let Some(answer) = self.look(ask).await? else { return Ok(None) };
        match tokio::time::timeout(PATIENCE + PATIENCE_EXTRA, answer).await {
            Ok(answer) => Ok(Some(answer?)),
            Err(_) => Err(GatewayError::Hung),
        }
    }

    /// Asks an actor. `what` is the outside event that the question and all that follows from it
    /// are traced back to; `make` makes the question, on the actors' thread.
    pub async fn ask<M: Message, T: Send + 'static>(
        &self,
        what: impl Into<String>,
        whom: fn(&NodeSupervisor) -> &Ref<M>,
        make: impl FnOnce(Reply<T>) -> M + Send + 'static,
    ) -> Result<T, GatewayError> {
        let what = what.into();
        let answer = self
            .look(move |node_supervisor| {
                node_supervisor.host.outside(&what, || {
                    node_supervisor.host.ask(whom(node_supervisor), PATIENCE, what.clone(), make)
                })
            })
            .await?;
        match tokio::time::timeout(PATIENCE + PATIENCE_EXTRA, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(GatewayError::Hung),
        }
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gateway")
    }
}

impl Errands {
    /// Runs each errand as it comes, until every [`Gateway`] is gone.
    pub async fn run(mut self, node_supervisor: NodeSupervisor) {
        while let Some(errand) = self.0.recv().await {
            // A question that cannot even be made must not take the actors along.
            if catch_unwind(AssertUnwindSafe(|| errand(&node_supervisor))).is_err() {
                tracing::error!("a question to the actors panicked before it was asked");
            }
        }
    }
}
