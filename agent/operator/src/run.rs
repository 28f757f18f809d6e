//! Brings the operator to life, and ends with it.

use std::{
    collections::hash_map::DefaultHasher,
    env, fs,
    hash::{Hash, Hasher},
    io,
    rc::Rc,
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
    time::timeout,
};
use tracing_subscriber::EnvFilter;
use volvox_actors::{
    host::{ActixDriver, Host, NoRecorder, Reply},
    operator::{LeadershipSettings, OperatorQuestions, OperatorSettings, OperatorSupervisor},
    ports::KvStore,
};
use volvox_cluster::ClusterPort;
use volvox_etcd::Etcd;
use volvox_system::{SystemClock, resident};

use crate::{
    serve::{Ask, Shown, serve},
    settings::Settings,
};

/// The Lease of Cilium's operators: one of all of them leads.
const LEASE: &str = "cilium-operator-resource-lock";
/// Where a pod is told its name.
const POD_NAME: &str = "POD_NAME";
/// How long giving the Lease back may take: then it expires by itself.
const RELEASE_PATIENCE: Duration = Duration::from_secs(3);
/// How long who shows itself may take.
const SHOW_PATIENCE: Duration = Duration::from_secs(3);
/// Who asks at a time.
const ASKS_MAX: usize = 16;

/// Begins to log, on stderr; `VOLVOX_LOG` says how much.
pub fn log() {
    let filter = EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::INFO.into())
        .with_env_var("VOLVOX_LOG")
        .from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
}

/// Runs until a signal ends it, or it leads no more.
pub fn run(settings: Settings) -> anyhow::Result<()> {
    actix::System::new().block_on(begin(settings))
}

async fn begin(settings: Settings) -> anyhow::Result<()> {
    let cluster = Rc::new(ClusterPort::start(settings.access()?)?);
    let store = match settings.etcd()? {
        Some(options) => Some(Rc::new(Etcd::start(options)?) as Rc<dyn KvStore>),
        None => None,
    };
    let identity = identity()?;
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    let operator = OperatorSettings {
        leadership: LeadershipSettings {
            namespace: settings.k8s_namespace.clone(),
            name: LEASE.to_owned(),
            identity,
            seed: hasher.finish(),
        },
        prefixes: settings.prefixes()?,
        collector: settings.collector(),
        stored_identities: settings.stored_identities(),
        marks: settings.marks(),
        definitions: settings.definitions(),
    };
    let (asks, asked) = mpsc::channel(ASKS_MAX);
    let (health, metrics) =
        (settings.operator_api_serve_addr, settings.operator_prometheus_serve_addr);
    serve(health, metrics, asks).await?;
    let driver = Rc::new(ActixDriver::default());
    let host = Host::new(Rc::new(SystemClock), driver, Box::new(NoRecorder));
    let (end, ended) = oneshot::channel();
    let reply = Reply::to(move |why| drop(end.send(why)));
    let supervisor = OperatorSupervisor::spawn(&host, cluster, store, operator, reply);
    actix::spawn(show(supervisor.clone(), asked));
    // The first lists of a large cluster take much more than what is kept of them.
    actix::spawn(resident::keep_giving_back());
    let mut terminate = signal(SignalKind::terminate()).context("hear of SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("hear of SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => release(&supervisor).await,
        _ = interrupt.recv() => release(&supervisor).await,
        why = ended => match why {
            Ok(Ok(why)) => bail!("{why}"),
            _ => bail!("the actors ended"),
        },
    }
    Ok(())
}

/// Gives the Lease back, so that another operator need not wait.
async fn release(supervisor: &OperatorSupervisor) {
    let (done, released) = oneshot::channel();
    supervisor.release(Reply::to(move |_| done.send(()).unwrap_or_default()));
    if timeout(RELEASE_PATIENCE, released).await.is_err() {
        tracing::warn!("the Lease was not given back; it expires by itself");
    }
}

/// Answers those who look at the operator.
async fn show(supervisor: OperatorSupervisor, mut asked: mpsc::Receiver<Ask>) {
    while let Some(ask) = asked.recv().await {
        let (reply, leadership) = awaited();
        supervisor.show_leadership(reply);
        let (to_prefixes, prefixes) = awaited();
        let (to_collector, collector) = awaited();
        let (to_store, store) = awaited();
        let (to_marks, marks) = awaited();
        supervisor.show(OperatorQuestions {
            prefixes: to_prefixes,
            collector: to_collector,
            store: to_store,
            marks: to_marks,
        });
        let gathered = async move {
            Some(Shown {
                leadership: leadership.await?,
                prefixes: prefixes.await,
                collector: collector.await,
                store: store.await,
                marks: marks.await,
            })
        };
        if let Ok(Some(shown)) = timeout(SHOW_PATIENCE, gathered).await {
            // Whoever asked may not wait any more.
            drop(ask.send(shown));
        }
    }
}

/// Where an answer goes, and the answer; none if whoever was asked let go of the question.
fn awaited<T: 'static>() -> (Reply<T>, impl Future<Output = Option<T>>) {
    let (send, answer) = oneshot::channel();
    let reply = Reply::to(move |answer| drop(send.send(answer)));
    (reply, async move { answer.await.ok()?.ok() })
}

/// A name that no other operator has, and no earlier life of this one. It begins with the pod's, for people
/// who read the Lease.
fn identity() -> anyhow::Result<String> {
    let read = |path: &str| {
        let text = fs::read_to_string(path).with_context(|| format!("read {path}"))?;
        Ok::<_, anyhow::Error>(text.trim().to_owned())
    };
    let pod = env::var(POD_NAME).ok().filter(|name| !name.is_empty());
    let name = pod.map_or_else(|| read("/proc/sys/kernel/hostname"), Ok)?;
    Ok(format!("{name}_{}", read("/proc/sys/kernel/random/uuid")?))
}
