//! The agent's metrics, as Prometheus would scrape them.

use std::collections::BTreeMap;

use anyhow::Result;

use super::Rest;

/// One scrape: series, as in `name{label="value"}`, and its value.
#[derive(Clone, Debug, Default)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads all metrics of an agent.
    pub fn scrape(rest: &Rest) -> Result<Self> {
        let answer = rest.fetch("/metrics")?;
        Ok(Self::read(&String::from_utf8(answer.body)?))
    }

    fn read(text: &str) -> Self {
        let series = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Self(series.collect())
    }

    /// Every series of the family `name`: its labels, as in `{a="b"}`, and value.
    pub fn family<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.iter().filter_map(move |(series, value)| {
            let labels = series.strip_prefix(name)?;
            (labels.is_empty() || labels.starts_with('{')).then_some((labels, *value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    #[test]
    fn a_family_is_not_its_longer_namesake() {
        let metrics = Metrics::read("# TYPE a counter\na{b=\"c d\"} 2\na_more 5\na 3\n");
        let family: Vec<_> = metrics.family("a").collect();
        assert_eq!(family, [("", 3.0), ("{b=\"c d\"}", 2.0)]);
    }
}
