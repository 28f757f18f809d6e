//! Collects metrics for one answer, and writes them as Prometheus' text or as OpenMetrics.

use std::{
    collections::BTreeSet,
    fmt::{self, Write},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text::encode},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

/// What OpenMetrics ends with.
const END: &str = "# EOF";

/// The labels of one row: names and values.
pub(super) type Row = Vec<(&'static str, String)>;

/// Metrics as they are at one moment, in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct Sheet(Vec<Metric>);

#[derive(Debug)]
struct Metric {
    name: &'static str,
    help: &'static str,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Gauge(Vec<(Row, f64)>),
    Counter(Vec<(Row, f64)>),
    Histogram(Vec<(Row, Histogram)>),
}

/// How a quantity is distributed.
#[derive(Debug)]
pub(super) struct Histogram {
    /// All of it together.
    pub(super) sum: f64,
    /// How many values it had.
    pub(super) count: u64,
    /// Upper bounds, and how many lie below each but above the one before.
    pub(super) buckets: Vec<(f64, u64)>,
}

/// One row with labels.
pub(super) fn row<const N: usize>(labels: [(&'static str, &str); N], value: f64) -> (Row, f64) {
    (labels.map(|(name, value)| (name, value.to_owned())).to_vec(), value)
}

/// One row without labels.
pub(super) fn bare(value: f64) -> [(Row, f64); 1] {
    [(Row::new(), value)]
}

impl Sheet {
    /// A value that goes up and down.
    pub(super) fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        rows: impl IntoIterator<Item = (Row, f64)>,
    ) {
        self.0.push(Metric { name, help, values: Values::Gauge(rows.into_iter().collect()) });
    }

    /// A value that only grows; its name gets `_total` at its end.
    pub(super) fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        rows: impl IntoIterator<Item = (Row, f64)>,
    ) {
        self.0.push(Metric { name, help, values: Values::Counter(rows.into_iter().collect()) });
    }

    /// A distribution.
    pub(super) fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        rows: impl IntoIterator<Item = (Row, Histogram)>,
    ) {
        self.0.push(Metric { name, help, values: Values::Histogram(rows.into_iter().collect()) });
    }

    /// All of it in Prometheus' text format 0.0.4, which differs from that of OpenMetrics here: a
    /// counter is told about by the name of its rows, and nothing says where the end is.
    pub(super) fn plain(self) -> Result<String, fmt::Error> {
        let is_counter = |metric: &&Metric| matches!(metric.values, Values::Counter(_));
        let counters: BTreeSet<_> = self.0.iter().filter(is_counter).map(|it| it.name).collect();
        let mut plain = String::new();
        for line in self.text()?.lines().filter(|line| *line != END) {
            let mut words = line.splitn(4, ' ');
            let reported = (words.next(), words.next(), words.next(), words.next());
            match reported {
                (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(name) => {
                    writeln!(plain, "# {what} {name}_total {rest}")?;
                }
                _ => writeln!(plain, "{line}")?,
            }
        }
        Ok(plain)
    }

    /// All of it in the text format of OpenMetrics.
    pub(super) fn text(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Metric {
    fn kind(&self) -> MetricType {
        match self.values {
            Values::Gauge(_) => MetricType::Gauge,
            Values::Counter(_) => MetricType::Counter,
            Values::Histogram(_) => MetricType::Histogram,
        }
    }
}

impl Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // The last bound is infinite, and holds the rest.
        let below: u64 = self.buckets.iter().map(|(_, count)| count).sum();
        let rest = (f64::INFINITY, self.count.saturating_sub(below));
        let buckets: Vec<_> = self.buckets.iter().copied().chain([rest]).collect();
        encoder.encode_histogram::<NoLabelSet>(self.sum, self.count, &buckets, None)
    }
}

/// Writes each row with its labels; one without labels stands alone.
fn each<V>(
    rows: &[(Row, V)],
    mut encoder: MetricEncoder<'_>,
    encode: impl Fn(&V, MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    match rows {
        [(labels, value)] if labels.is_empty() => encode(value, encoder),
        many => many
            .iter()
            .try_for_each(|(labels, value)| encode(value, encoder.encode_family(labels)?)),
    }
}

impl Collector for Sheet {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in &self.0 {
            let rows = encoder.encode_descriptor(metric.name, metric.help, None, metric.kind())?;
            match &metric.values {
                Values::Gauge(values) => {
                    each(values, rows, |value, at| ConstGauge::new(*value).encode(at))?;
                }
                Values::Counter(values) => {
                    each(values, rows, |value, at| ConstCounter::new(*value).encode(at))?;
                }
                Values::Histogram(values) => each(values, rows, Histogram::encode)?,
            }
        }
        Ok(())
    }
}
