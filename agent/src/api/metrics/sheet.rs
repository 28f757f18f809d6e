use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text::encode},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

/// The labels of one row: names and values.
type Row = Vec<(&'static str, String)>;

/// Metrics as they are at one moment, in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct Sheet(Vec<Metric>);

#[derive(Debug)]
struct Metric {
    name: &'static str,
    help: &'static str,
    grows: bool,
    rows: Vec<(Row, f64)>,
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
        self.0.push(Metric { name, help, grows: false, rows: rows.into_iter().collect() });
    }

    /// A value that only grows; its name gets `_total` at its end.
    pub(super) fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        rows: impl IntoIterator<Item = (Row, f64)>,
    ) {
        self.0.push(Metric { name, help, grows: true, rows: rows.into_iter().collect() });
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
    fn encode(&self, value: f64, encoder: MetricEncoder<'_>) -> fmt::Result {
        match self.grows {
            true => ConstCounter::new(value).encode(encoder),
            false => ConstGauge::new(value).encode(encoder),
        }
    }
}

impl Collector for Sheet {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in &self.0 {
            let kind = if metric.grows { MetricType::Counter } else { MetricType::Gauge };
            let mut rows = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            match &metric.rows[..] {
                [(labels, value)] if labels.is_empty() => metric.encode(*value, rows)?,
                many => {
                    for (labels, value) in many {
                        metric.encode(*value, rows.encode_family(labels)?)?;
                    }
                }
            }
        }
        Ok(())
    }
}
