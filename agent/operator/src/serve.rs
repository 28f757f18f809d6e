//! Health and metrics of the operator, for probes and for Prometheus.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use prometheus_client::{encoding::text::encode, metrics::gauge::Gauge, registry::Registry};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
    time::timeout,
};
use volvox_actors::operator::{
    CollectorView, LeadershipView, MarksView, PrefixesView, StoreCollectorView,
};

/// How long the actors may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the actors show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) leadership: LeadershipView,
    pub(crate) prefixes: Option<PrefixesView>,
    pub(crate) collector: Option<CollectorView>,
    pub(crate) store: Option<StoreCollectorView>,
    pub(crate) marks: Option<MarksView>,
}

/// Somebody who wants to see that.
pub(crate) type Ask = oneshot::Sender<Shown>;

#[derive(Clone)]
struct Asks(mpsc::Sender<Ask>);

impl Asks {
    async fn shown(&self) -> Option<Shown> {
        let (ask, shown) = oneshot::channel();
        self.0.send(ask).await.ok()?;
        timeout(PATIENCE, shown).await.ok()?.ok()
    }
}

/// Serves on both addresses, or on one of them if they are the same.
pub(crate) async fn serve(
    health: SocketAddr,
    metrics: SocketAddr,
    asks: mpsc::Sender<Ask>,
) -> anyhow::Result<()> {
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics_text))
        .with_state(Asks(asks));
    for (flag, address) in
        [("--operator-api-serve-addr", health), ("--operator-prometheus-serve-addr", metrics)]
    {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("listen on {address}; give {flag} another address"))?;
        let router = router.clone();
        tokio::spawn(async move { axum::serve(listener, router).await });
        if health == metrics {
            break;
        }
    }
    Ok(())
}

/// Alive if the actors answer: a server that is down is no reason to start this process again.
async fn healthz(State(asks): State<Asks>) -> Response {
    match asks.shown().await {
        Some(Shown { leadership, .. }) => {
            let what = match (leadership.leads, leadership.error) {
                (true, _) => "ok: leads".to_owned(),
                (false, None) => format!("ok: waits, {:?} leads", leadership.holder),
                (false, Some(error)) => format!("ok: waits, {error}"),
            };
            (StatusCode::OK, what + "\n").into_response()
        }
        None => (StatusCode::SERVICE_UNAVAILABLE, "the actors do not answer\n").into_response(),
    }
}

async fn metrics_text(State(asks): State<Asks>) -> Response {
    let Some(shown) = asks.shown().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, TEXT)], text(&shown)).into_response()
}

/// What Prometheus reads. Numbers are of this life, and those of work are none of who does not lead.
fn text(shown: &Shown) -> String {
    let mut registry = Registry::with_prefix("volvox_operator");
    let mut say = |name: &str, help: &str, value: u64| {
        let gauge = Gauge::<i64>::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, gauge);
    };
    say("leads", "Whether this operator leads", shown.leadership.leads.into());
    if let Some(prefixes) = &shown.prefixes {
        let PrefixesView { nodes, lacking, given, pools, pool_troubles, troubles, stopped } =
            prefixes;
        say("nodes", "CiliumNodes that are there", *nodes as u64);
        say("nodes_lacking_prefix", "CiliumNodes that lack a prefix", *lacking as u64);
        say("prefixes_given", "CiliumNodes that were given prefixes", *given);
        say("nodes_troubled", "CiliumNodes that are told of a trouble", troubles.len() as u64);
        say("pod_ip_pools", "CiliumPodIPPools that are there", *pools as u64);
        say("pod_ip_pools_troubled", "CiliumPodIPPools that are wrong", pool_troubles.len() as u64);
        say("prefixes_stopped", "Whether no prefixes are given", stopped.is_some().into());
    }
    if let Some(collector) = &shown.collector {
        let CollectorView { known, removed, marked, failed, .. } = collector;
        for (kind, (known, removed)) in
            ["endpoints", "identities", "nodes"].into_iter().zip(known.iter().zip(removed))
        {
            say(&format!("{kind}_known"), "Objects that are there", *known as u64);
            say(&format!("{kind}_removed"), "Objects that were left over and removed", *removed);
        }
        say("identities_marked", "Identities that were marked to go", *marked);
        say("collection_failures", "Writes that failed", *failed);
    }
    if let Some(StoreCollectorView { known, unused, removed, beats, lost, error }) = &shown.store {
        say("kvstore_answers", "Whether the kvstore answers", error.is_none().into());
        say("kvstore_identities_known", "Identities that are there", *known as u64);
        say("kvstore_identities_unused", "Identities that nobody uses", *unused as u64);
        say("kvstore_identities_removed", "Identities that nobody used and were removed", *removed);
        say("kvstore_heartbeats", "Heartbeats that were written", *beats);
        say("kvstore_lost", "How often the kvstore was away or another one", *lost);
    }
    if let Some(MarksView { ready, unready, untainted, tainted, said_up, failed, .. }) =
        &shown.marks
    {
        say("nodes_agent_ready", "Nodes on which an agent is ready", *ready as u64);
        say("nodes_agent_unready", "Nodes of which no agent is ready", *unready as u64);
        say("taints_removed", "Nodes whose taint was removed", *untainted);
        say("taints_set", "Nodes whose taint was set", *tainted);
        say("conditions_written", "Nodes that were said to have a network", *said_up);
        say("mark_failures", "Marks of Nodes that failed", *failed);
    }
    let mut text = String::new();
    // Writing to a text never fails.
    let _ = encode(&mut text, &registry);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_shows_less_than_who_leads() {
        let waiting = text(&Shown::default());
        assert!(waiting.contains("volvox_operator_leads 0\n"), "{waiting}");
        assert!(!waiting.contains("nodes"));
        let leadership = LeadershipView { leads: true, ..LeadershipView::default() };
        let prefixes = Some(PrefixesView { nodes: 3, lacking: 1, ..PrefixesView::default() });
        let collector = CollectorView { removed: [1, 2, 3], ..CollectorView::default() };
        let marks = Some(MarksView { untainted: 4, ..MarksView::default() });
        let store = Some(StoreCollectorView { removed: 5, ..StoreCollectorView::default() });
        let leading =
            text(&Shown { leadership, prefixes, collector: Some(collector), store, marks });
        for line in [
            "kvstore_identities_removed 5",
            "leads 1",
            "nodes_lacking_prefix 1",
            "identities_removed 2",
            "taints_removed 4",
        ] {
            assert!(leading.contains(&format!("volvox_operator_{line}\n")), "{leading}");
        }
    }
}
