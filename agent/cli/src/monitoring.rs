//! `volvox monitoring`: what Prometheus and Grafana need to watch agents.

use clap::{Args, ValueEnum};
use volvox_packaging::monitoring::{DASHBOARD, RULES, SERVICE_MONITOR, prometheus_rule};

use super::{ClientError, output::Output};

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// Alerts, as a file of rules for Prometheus
    Rules,
    /// The same, as an object for the operator of Prometheus
    PrometheusRule,
    /// Whom to scrape, as objects for the operator of Prometheus
    ServiceMonitor,
    /// A dashboard for Grafana, to be imported
    Dashboard,
}

#[derive(Debug, Args)]
pub(super) struct MonitoringArguments {
    /// Which of them
    part: Part,
    /// Namespace of objects
    #[arg(long, default_value = "kube-system")]
    namespace: String,
}

pub(super) fn run(
    out: &mut Output<'_>,
    arguments: &MonitoringArguments,
) -> Result<(), ClientError> {
    let namespace = &arguments.namespace;
    match arguments.part {
        Part::Rules => out.line(RULES.trim_end()),
        Part::PrometheusRule => {
            let object = prometheus_rule(namespace);
            out.line(serde_json::to_string_pretty(&object).map_err(std::io::Error::other)?)
        }
        Part::ServiceMonitor => {
            let objects = SERVICE_MONITOR
                .replace("namespace: kube-system", &format!("namespace: {namespace}"));
            out.line(objects.replace("[kube-system]", &format!("[{namespace}]")).trim_end())
        }
        Part::Dashboard => out.line(DASHBOARD.trim_end()),
    }
}
