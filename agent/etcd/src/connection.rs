//! The connection to etcd: made when it is first needed, and made anew after failures. Every call
//! has a time limit.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::timeout};
use volvox_actors::ports::KvError;

use super::{Endpoints, EtcdError, EtcdOptions, client::Client};

/// How long servers may take for an answer, connecting included.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// So many failures in a row, and the connection is made anew, from the options as they are then.
const FAILURES_MAX: u32 = 2;

/// A connection that is made when it is needed.
pub(super) struct Connection<C>(Arc<Inner<C>>);

struct Inner<C> {
    options: EtcdOptions,
    state: Mutex<State<C>>,
}

struct State<C> {
    client: Option<C>,
    failures: u32,
}

impl<C> Clone for Connection<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Client> Connection<C> {
    pub(super) fn new(options: EtcdOptions) -> Self {
        let state = Mutex::new(State { client: None, failures: 0 });
        Self(Arc::new(Inner { options, state }))
    }

    /// Does something with a client, in time.
    pub(super) async fn call<T, F>(
        &self,
        op: &'static str,
        about: &str,
        work: impl FnOnce(C) -> F,
    ) -> Result<T, KvError>
    where
        F: Future<Output = Result<T, EtcdError>>,
    {
        let done = async { work(self.client().await?).await };
        let done = match timeout(PATIENCE, done).await {
            Ok(done) => done,
            Err(_) => Err(EtcdError::Silence(PATIENCE.as_secs())),
        };
        self.note(done.as_ref().err()).await;
        done.map_err(|error| error.reported(op, about))
    }

    async fn client(&self) -> Result<C, EtcdError> {
        let mut state = self.0.state.lock().await;
        if let Some(client) = &state.client {
            return Ok(client.clone());
        }
        let client = C::connect(Endpoints::read(&self.0.options)?).await?;
        Ok(state.client.insert(client).clone())
    }

    /// After a few failures in a row, or where the login is over, the next call connects anew.
    async fn note(&self, failure: Option<&EtcdError>) {
        let mut state = self.0.state.lock().await;
        let Some(failure) = failure else {
            state.failures = 0;
            return;
        };
        state.failures += 1;
        if state.failures > FAILURES_MAX || failure.is_login_over() {
            *state = State { client: None, failures: 0 };
        }
    }
}
