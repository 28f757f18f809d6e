use std::{future::Future, sync::Arc, time::Duration};

use etcd_client::{Client, ConnectOptions};
use tokio::{sync::Mutex, time::timeout};
use volvox_actors::ports::KvError;

use super::{EtcdError, EtcdOptions};

/// How long servers may take for an answer, connecting included.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a server may take to take a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// An idle connection is asked that often whether it lives, and given up after so long.
const PING: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5));
/// So many failures in a row, and the connection is made anew, from the options as they are then.
const FAILURES_MAX: u32 = 2;

/// A connection that is made when it is needed.
#[derive(Clone)]
pub(super) struct Connection(Arc<Inner>);

struct Inner {
    options: EtcdOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    client: Option<Client>,
    failures: u32,
}

impl Connection {
    pub(super) fn new(options: EtcdOptions) -> Self {
        Self(Arc::new(Inner { options, state: Mutex::default() }))
    }

    /// Does something with a client, in time.
    pub(super) async fn call<T, F>(
        &self,
        op: &'static str,
        about: &str,
        work: impl FnOnce(Client) -> F,
    ) -> Result<T, KvError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let done = async { Ok(work(self.client().await?).await?) };
        let done = match timeout(PATIENCE, done).await {
            Ok(done) => done,
            Err(_) => Err(EtcdError::Silence(PATIENCE.as_secs())),
        };
        self.note(done.is_ok()).await;
        done.map_err(|error: EtcdError| error.told(op, about))
    }

    async fn client(&self) -> Result<Client, EtcdError> {
        let mut state = self.0.state.lock().await;
        if let Some(client) = &state.client {
            return Ok(client.clone());
        }
        let endpoints = self.0.options.read()?;
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_PATIENCE)
            .with_keep_alive(PING.0, PING.1)
            .with_keep_alive_while_idle(true)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some(tls) = endpoints.tls {
            options = options.with_tls(tls);
        }
        if let Some((name, password)) = endpoints.user {
            options = options.with_user(name, password);
        }
        let client = Client::connect(endpoints.servers, Some(options)).await?;
        Ok(state.client.insert(client).clone())
    }

    /// After a few failures in a row the next call connects anew.
    async fn note(&self, good: bool) {
        let mut state = self.0.state.lock().await;
        if good {
            state.failures = 0;
            return;
        }
        state.failures += 1;
        if state.failures > FAILURES_MAX {
            *state = State::default();
        }
    }
}
