//! Where metrics are served, and to whom.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};

use clap::{ArgAction, Args};
use serde::{Serialize, Serializer};
use volvox_hubble::metrics::FlowMetrics;
use volvox_inspect::http::TlsFiles;

use super::{
    Config, ConfigError, List,
    values::{host_and_port, parse_list},
};

/// Flags that name the certificate, its key, and who vouches for clients.
const TLS_FLAGS: [&str; 3] =
    ["--prometheus-tls-cert-file", "--prometheus-tls-key-file", "--prometheus-tls-client-ca-files"];
/// What to do where whoever reaches the node could read what is served.
const GUARD: &str = "whoever reaches the node would read it: say --prometheus-token-review=true, or \
    --prometheus-tls-cert-file, --prometheus-tls-key-file and --prometheus-tls-client-ca-files as \
    well, or write a port alone, which is loopback then";

/// Flags of metrics.
#[derive(Clone, Debug, Args, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct MetricsOptions {
    /// Address for Prometheus, as `:9962`; not served if empty. A port alone is every address of the
    /// node where whoever asks has to show who they are, by the next flags, and loopback otherwise
    #[arg(long, value_name = "ADDRESS", default_value = "", hide_default_value = true, value_parser = parse_address)]
    pub prometheus_serve_addr: MetricsAddress,

    /// Whether whoever asks for metrics has to show a token that the API server knows, of somebody who
    /// may get `/metrics`. Served with TLS then, by a certificate of its own where none is named
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    pub prometheus_token_review: bool,

    /// Certificate with which metrics are served; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub prometheus_tls_cert_file: Option<PathBuf>,

    /// Its key
    #[arg(long, value_name = "FILE")]
    pub prometheus_tls_key_file: Option<PathBuf>,

    /// Certificates of those who vouch for clients that ask for metrics: files
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = parse_list)]
    pub prometheus_tls_client_ca_files: List,

    /// What is counted of flows, with spaces between: drop, flow, flows-to-world, icmp, policy,
    /// port-distribution, tcp, each with Hubble's options, as `drop:sourceContext=pod|ip`
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = parse_metrics)]
    pub hubble_metrics: String,

    /// Address at which these counts are served, as `:9965`, to whom `--prometheus-serve-addr` serves
    #[arg(long, value_name = "ADDRESS", default_value = "", hide_default_value = true, value_parser = parse_address)]
    pub hubble_metrics_server: MetricsAddress,
}

/// An address to serve metrics at: none, a port, or a port of one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricsAddress(Option<(Option<IpAddr>, u16)>);

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((Some(host), port)) => write!(f, "{}", SocketAddr::new(host, port)),
            Some((None, port)) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl Serialize for MetricsAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn parse_address(text: &str) -> Result<MetricsAddress, String> {
    if text.is_empty() {
        return Ok(MetricsAddress(None));
    }
    host_and_port(text)
        .map(|parts| MetricsAddress(Some(parts)))
        .ok_or("write it like :9962 or 127.0.0.1:9962".into())
}

fn parse_metrics(text: &str) -> Result<String, String> {
    FlowMetrics::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

impl MetricsOptions {
    /// Whether whoever asks has to show who they are.
    pub fn is_guarded(&self) -> bool {
        self.prometheus_token_review || !self.prometheus_tls_client_ca_files.is_empty()
    }

    /// Where it listens, if anywhere.
    pub fn address(&self, address: MetricsAddress) -> Option<SocketAddr> {
        let (host, port) = address.0?;
        let everywhere = match self.is_guarded() {
            true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            false => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        Some(SocketAddr::new(host.unwrap_or(everywhere), port))
    }

    /// The files for TLS, if they are named.
    pub fn tls_files(&self) -> Option<TlsFiles> {
        let (certificate, key) =
            (self.prometheus_tls_cert_file.as_ref(), self.prometheus_tls_key_file.as_ref());
        TlsFiles::named(TLS_FLAGS, certificate, key, &self.prometheus_tls_client_ca_files)
    }

    /// Refuses what would show a node's numbers to whoever reaches it, and guards that cannot work.
    pub(super) fn check(
        &self,
        config: &Config,
        say: &impl Fn(&str, &dyn fmt::Display) -> String,
    ) -> Result<(), ConfigError> {
        let unsupported = |setting, why| Err(ConfigError::Unsupported { setting, why });
        let both = [
            ("prometheus-serve-addr", self.prometheus_serve_addr),
            ("hubble-metrics-server", self.hubble_metrics_server),
        ];
        for (flag, address) in both {
            let listened = self.address(address);
            if listened.is_some_and(|it| !it.ip().is_loopback()) && !self.is_guarded() {
                return unsupported(say(flag, &address), GUARD);
            }
            let port = listened.map_or(0, |it| it.port());
            if port != 0 && port == config.agent_health_port {
                let other = say("agent-health-port", &config.agent_health_port);
                let why = "one port serves one of them; choose another";
                return Err(ConfigError::Contradiction { one: say(flag, &address), other, why });
            }
        }
        let ports = both.map(|(_, address)| self.address(address).map_or(0, |it| it.port()));
        if ports[0] != 0 && ports[0] == ports[1] {
            let [one, other] = both.map(|(flag, address)| say(flag, &address));
            let why = "one port serves one of them; choose another";
            return Err(ConfigError::Contradiction { one, other, why });
        }
        let files = [&self.prometheus_tls_cert_file, &self.prometheus_tls_key_file];
        if files[0].is_some() != files[1].is_some() {
            let named = files.iter().position(|file| file.is_some()).unwrap_or(0);
            let file = files[named].as_ref().map(|file| file.display().to_string());
            let setting = say(TLS_FLAGS[named].trim_start_matches('-'), &file.unwrap_or_default());
            return unsupported(setting, "TLS wants a certificate and its key: name both");
        }
        if files[0].is_none() && !self.prometheus_tls_client_ca_files.is_empty() {
            let setting = say("prometheus-tls-client-ca-files", &"…");
            let why = "TLS wants a certificate: say --prometheus-tls-cert-file and \
                       --prometheus-tls-key-file as well";
            return unsupported(setting, why);
        }
        if self.prometheus_token_review && config.api_server().is_none() {
            let setting = say("prometheus-token-review", &true);
            return unsupported(setting, "there is no API server that could be asked");
        }
        if !self.hubble_metrics.is_empty() && !config.hubble.enabled {
            let setting = say("hubble-metrics", &self.hubble_metrics);
            return unsupported(setting, "there are no flows to count: say --enable-hubble=true");
        }
        Ok(())
    }
}
