//! Namespaces of a run: made anew, taken over from a run that died, and never taken from somebody else.
//!
//! A run renews a lease in its namespace. Whether another run lives is seen by its lease changing, so
//! that no two clocks are compared.

use std::{process, time::Duration};

use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    ConnectivityError, Say,
    api::Api,
    objects::{self, LEASE, MANAGED_BY, MANAGER},
};

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How often a run renews its lease.
    pub(crate) beat: Duration,
    /// How long a lease is watched for a change: longer than several renewals.
    pub(crate) watched: Duration,
    /// How often the server is asked.
    pub(crate) pause: Duration,
    /// How long a namespace may take to go.
    pub(crate) going: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            beat: Duration::from_secs(2),
            watched: Duration::from_secs(8),
            pause: Duration::from_millis(500),
            going: Duration::from_secs(180),
        }
    }
}

/// Namespaces that this run made.
pub(crate) struct Claim {
    api: Api,
    pace: Pace,
    /// Names and UIDs, the other one first.
    made: Vec<(String, String)>,
    beats: Option<JoinHandle<()>>,
}

/// Who this run is.
pub(crate) fn holder() -> String {
    let host = rustix::system::uname();
    format!("{}, process {}", host.nodename().to_string_lossy(), process::id())
}

fn path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}")
}

fn lease_path(namespace: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
}

impl Claim {
    pub(crate) fn new(api: &Api, pace: Pace) -> Self {
        Self { api: api.clone(), pace, made: Vec::new(), beats: None }
    }

    /// Makes both namespaces.
    pub(crate) async fn take(
        &mut self,
        namespace: &str,
        holder: &str,
        say: Say<'_>,
    ) -> Result<(), ConnectivityError> {
        self.make(namespace, "main", holder, say).await?;
        let lease = objects::lease(namespace, holder);
        self.api.create(&lease_path(namespace), &lease).await?;
        let beat_every = self.pace.beat;
        let (api, path) = (self.api.clone(), format!("{}/{LEASE}", lease_path(namespace)));
        self.beats = Some(tokio::spawn(async move {
            loop {
                sleep(beat_every).await;
                // A server that is away for a moment is asked again.
                let _ = beat(&api, &path).await;
            }
        }));
        self.make(&objects::other(namespace), "other", holder, say).await
    }

    async fn make(
        &mut self,
        name: &str,
        part: &str,
        holder: &str,
        say: Say<'_>,
    ) -> Result<(), ConnectivityError> {
        let object = objects::namespace(name, part, holder);
        let until = Instant::now() + self.pace.going;
        loop {
            match self.api.create("/api/v1/namespaces", &object).await {
                Ok(made) => {
                    self.made.insert(0, (name.to_owned(), uid(&made)));
                    return Ok(());
                }
                Err(error) if error.code() != Some(409) => return Err(error),
                Err(_) => {}
            }
            let Some(there) = self.api.get(&path(name)).await? else { continue };
            if there["metadata"]["labels"][MANAGED_BY] != MANAGER {
                return Err(ConnectivityError::Refused(format!(
                    "namespace {name} is there and not of a connectivity test: name another by --namespace"
                )));
            }
            if there["metadata"]["deletionTimestamp"].is_null() {
                let by = there["metadata"]["annotations"]["volvox.io/run-by"].as_str();
                let by = by.unwrap_or("somebody").to_owned();
                if part == "main" {
                    refuse_alive(&self.api, self.pace, name, &by).await?;
                }
                say(&format!(
                    "namespace {name} is left of a run by {by} that has ended: it is removed"
                ));
                delete(&self.api, name, &uid(&there)).await?;
            }
            if Instant::now() >= until {
                return Err(ConnectivityError::Refused(stuck(name)));
            }
            sleep(self.pace.pause).await;
        }
    }

    /// Removes what this run made, and waits until it is gone.
    pub(crate) async fn release(&mut self, say: Say<'_>) -> Result<(), ConnectivityError> {
        self.keep();
        self.remove_pods(say).await?;
        let mut failed = Ok(());
        for (name, uid) in &self.made {
            failed = failed.and(delete(&self.api, name, uid).await);
        }
        failed?;
        let until = Instant::now() + self.pace.going;
        for (name, uid) in &self.made {
            loop {
                match self.api.get(&path(name)).await? {
                    Some(it) if self::uid(&it) == *uid => {}
                    _ => break,
                }
                if Instant::now() >= until {
                    return Err(ConnectivityError::Refused(stuck(name)));
                }
                sleep(self.pace.pause).await;
            }
            say(&format!("namespace {name} is removed"));
        }
        Ok(())
    }

    /// Pods go first: while there are any, the namespace's controller tries again ever more rarely.
    async fn remove_pods(&self, say: Say<'_>) -> Result<(), ConnectivityError> {
        let until = Instant::now() + self.pace.going;
        let mut told = false;
        for (name, _) in &self.made {
            let pods = format!("{}/pods", path(name));
            // Who may not remove them at once leaves them to the namespace's controller.
            if self.api.delete(&pods, &json!({})).await.is_err() {
                return Ok(());
            }
        }
        for (name, _) in &self.made {
            let pods = format!("{}/pods", path(name));
            while !self.api.list(&pods).await?.is_empty() && Instant::now() < until {
                if !told {
                    say("pods are removed, which some kubelets take a minute for");
                    told = true;
                }
                sleep(self.pace.pause).await;
            }
        }
        Ok(())
    }

    /// Leaves all as it is. The next run takes it over.
    pub(crate) fn keep(&mut self) {
        if let Some(beats) = self.beats.take() {
            beats.abort();
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.keep();
    }
}

fn stuck(name: &str) -> String {
    format!(
        "namespace {name} is being removed and does not go: kubectl get namespace {name} -o yaml says what \
         holds it"
    )
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

async fn delete(api: &Api, name: &str, uid: &str) -> Result<(), ConnectivityError> {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid },
        "propagationPolicy": "Background",
    });
    match api.delete(&path(name), &options).await {
        // Somebody else removed it and made another, or it is being removed.
        Err(error) if error.code() == Some(409) => Ok(()),
        done => done,
    }
}

async fn beat(api: &Api, path: &str) -> Result<(), ConnectivityError> {
    let Some(mut lease) = api.get(path).await? else { return Ok(()) };
    let beats = lease["spec"]["leaseTransitions"].as_u64().unwrap_or_default();
    lease["spec"]["leaseTransitions"] = (beats + 1).into();
    api.replace(path, &lease).await.map(drop)
}

/// Watches a lease, and fails if somebody renews it.
async fn refuse_alive(
    api: &Api,
    pace: Pace,
    name: &str,
    by: &str,
) -> Result<(), ConnectivityError> {
    let path = format!("{}/{LEASE}", lease_path(name));
    let read = || async {
        let lease = api.get(&path).await?;
        Ok::<_, ConnectivityError>(lease.map(|it| it["metadata"]["resourceVersion"].clone()))
    };
    let first = read().await?;
    let until = Instant::now() + pace.watched;
    while Instant::now() < until {
        sleep(pace.pause).await;
        let now = read().await?;
        if now.is_some() && now != first {
            return Err(ConnectivityError::Refused(format!(
                "a test runs in namespace {name} ({by}): wait for its end, or name another by --namespace"
            )));
        }
    }
    Ok(())
}
