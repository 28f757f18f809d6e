//! Hubble's metrics: what is counted of flows, by the words of `--hubble-metrics`, with Hubble's names.
//!
//! Flows are counted as they come, whether or not anybody asks for the numbers. Only this life's are. What
//! only requests of layer 7 would count is known by name and stays at nothing.

mod context;
mod counts;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use self::{context::Context, counts::Kind};
use crate::{
    decode,
    messages::{Flow, lost},
    observer::Observer,
    ring::Content,
    schema,
};

/// Series of one metric: whoever names pods' addresses could make any number of them.
const SERIES_MAX: usize = 10_000;
/// How many records are counted before others have their turn.
const BATCH: u64 = 128;
/// How often series of pods that are gone are dropped.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Why `--hubble-metrics` is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricsError {
    /// No metric of that name.
    #[error("{name:?} is no metric: choose of {}, with spaces between", Kind::names())]
    Metric {
        /// What was written.
        name: String,
    },
    /// The same one again.
    #[error("{0} is named twice: name it once, with all its options")]
    Twice(&'static str),
    /// No option of that name.
    #[error("{metric}: {option:?} is no option: choose of {}", known.join(", "))]
    Option {
        /// The metric.
        metric: &'static str,
        /// What was written.
        option: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// An option's value that means nothing.
    #[error("{metric}: {option}={value:?} means nothing: choose of {}", known.join(", "))]
    Value {
        /// The metric.
        metric: &'static str,
        /// The option.
        option: &'static str,
        /// What was written.
        value: String,
        /// What there is.
        known: &'static [&'static str],
    },
}

/// Names and values of labels.
pub type Labels = Vec<(&'static str, String)>;

/// One metric, a counter, as it is at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Its name, without `_total`.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Its series.
    pub series: Vec<(Labels, u64)>,
}

/// One metric that is counted.
#[derive(Debug)]
struct Counter {
    kind: Kind,
    context: Context,
    series: BTreeMap<Labels, u64>,
}

/// What is counted.
#[derive(Debug, Default)]
struct Counts {
    counters: Vec<Counter>,
    lost: BTreeMap<&'static str, u64>,
    /// Flows that would have made one series too many.
    uncounted: u64,
    /// Pods that there were when it was last looked.
    pods: BTreeSet<String>,
}

/// What is counted, for the one who counts and those who ask.
#[derive(Clone, Debug, Default)]
pub struct FlowMetrics(Arc<Mutex<Counts>>);

impl FlowMetrics {
    /// Reads `--hubble-metrics`: `drop:sourceContext=pod;destinationContext=pod|ip flow tcp`.
    pub fn new(text: &str) -> Result<Self, MetricsError> {
        let mut counters: Vec<Counter> = Vec::new();
        for word in text.split_whitespace() {
            let (name, options) = word.split_once(':').unwrap_or((word, ""));
            let mut kind =
                Kind::named(name).ok_or_else(|| MetricsError::Metric { name: name.to_owned() })?;
            if counters.iter().any(|counter| counter.kind.name() == kind.name()) {
                return Err(MetricsError::Twice(kind.name()));
            }
            let mut context = Context::default();
            for option in options.split(';').filter(|option| !option.is_empty()) {
                let (key, value) = option.split_once('=').unwrap_or((option, ""));
                if !kind.set(key) && !context.set(kind.name(), key, value)? {
                    let known = Context::options().chain(kind.options().iter().copied()).collect();
                    let (metric, option) = (kind.name(), key.to_owned());
                    return Err(MetricsError::Option { metric, option, known });
                }
            }
            counters.push(Counter { kind, context, series: BTreeMap::new() });
        }
        Ok(Self(Arc::new(Mutex::new(Counts { counters, ..Counts::default() }))))
    }

    /// Whether nothing is to be counted.
    pub fn is_empty(&self) -> bool {
        self.counts().counters.is_empty()
    }

    /// Words of what would count requests of layer 7, of which there are no flows.
    pub fn without_flows(&self) -> Vec<&'static str> {
        let counts = self.counts();
        let all = counts.counters.iter().map(|counter| counter.kind);
        all.filter(|kind| kind.is_layer7()).map(Kind::name).collect()
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a flow.
    pub fn count(&self, flow: &Flow) {
        self.counts().count(flow);
    }

    /// All of it, as it is now.
    pub fn show(&self) -> Vec<Counted> {
        let counts = self.counts();
        let counters = counts.counters.iter().filter_map(|counter| {
            let (name, help) = counter.kind.metric()?;
            let series = counter.series.iter().map(|(labels, count)| (labels.clone(), *count));
            Some(Counted { name, help, series: series.collect() })
        });
        let lost = counts.lost.iter();
        let lost =
            lost.map(|(source, count)| (vec![("source", source.to_ascii_lowercase())], *count));
        let of_itself = [
            Counted {
                name: "hubble_lost_events",
                help: "Records of the datapath that became no flow, by where they were lost.",
                series: lost.collect(),
            },
            Counted {
                name: "hubble_uncounted_flows",
                help: "Flows that a metric left out, because it has as many series as it may have.",
                series: vec![(Vec::new(), counts.uncounted)],
            },
        ];
        counters.chain(of_itself).collect()
    }
}

impl Counts {
    fn count(&mut self, flow: &Flow) {
        for Counter { kind, context, series } in &mut self.counters {
            for mut labels in kind.count(flow) {
                context.add(flow, &mut labels);
                let is_full = series.len() >= SERIES_MAX;
                match series.get_mut(&labels) {
                    Some(count) => *count += 1,
                    None if is_full => self.uncounted += 1,
                    None => drop(series.insert(labels, 1)),
                }
            }
        }
    }

    fn lose(&mut self, source: i32, count: u64) {
        let name = schema::name_of(schema::LOST_SOURCES, source).unwrap_or("unknown");
        *self.lost.entry(name).or_default() += count;
    }

    /// Drops series of pods that there were a while ago, and are no more.
    fn sweep(&mut self, pods: BTreeSet<String>) {
        let gone: BTreeSet<&String> = self.pods.difference(&pods).collect();
        if !gone.is_empty() {
            for Counter { context, series, .. } in &mut self.counters {
                series.retain(|labels, _| !gone.iter().any(|pod| context.is_of(labels, pod)));
            }
        }
        self.pods = pods;
    }
}

/// Counts flows as they come, for ever.
pub async fn count(observer: Arc<Observer>, metrics: FlowMetrics) {
    let mut news = observer.news();
    let (_, mut at) = observer.ring().bounds();
    let mut swept = Instant::now();
    loop {
        news.borrow_and_update();
        while at < observer.ring().bounds().1 {
            count_batch(&observer, &metrics, &mut at);
            tokio::task::yield_now().await;
        }
        if swept.elapsed() >= SWEEP_EVERY {
            swept = Instant::now();
            metrics.counts().sweep(observer.names().pods());
        }
        if let Ok(Err(_)) = tokio::time::timeout(SWEEP_EVERY, news.changed()).await {
            return;
        }
    }
}

fn count_batch(observer: &Observer, metrics: &FlowMetrics, at: &mut u64) {
    let (oldest, next) = observer.ring().bounds();
    let mut counts = metrics.counts();
    if *at < oldest {
        counts.lose(lost::RING, oldest - *at);
        *at = oldest;
    }
    for number in *at..next.min(*at + BATCH) {
        *at = number + 1;
        let Some(stored) = observer.ring().get(number) else { continue };
        if let Content::Lost { source, count, .. } = stored.content {
            counts.lose(source as i32, count);
            continue;
        }
        observer.want_names(&stored);
        let flow = decode::flow(&stored, observer.ring(), &observer.names());
        if let Some(flow) = flow {
            counts.count(&flow);
        }
    }
}
