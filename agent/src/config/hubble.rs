//! Whether flows are kept and served as Hubble does, and to whom.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::{ArgAction, Args};
use serde::Serialize;
use volvox_hubble::{
    export::{Export, read_filters},
    filter::Filters,
    mask::Mask,
};
use volvox_system::duration::{as_nanoseconds, parse_duration};

use super::{ConfigError, List, values::parse_list};

/// Flags of Hubble.
#[derive(Clone, Debug, Args, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HubbleOptions {
    /// Whether flows are kept, and served to Hubble's client, relay and UI
    #[arg(id = "enable_hubble", long = "enable-hubble", action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "EnableHubble")]
    pub enabled: bool,

    /// Unix socket on which flows are served
    #[arg(
        id = "hubble_socket_path",
        long = "hubble-socket-path",
        value_name = "FILE",
        default_value = "/var/run/cilium/hubble.sock"
    )]
    #[serde(rename = "HubbleSocketPath")]
    pub socket_path: PathBuf,

    /// Address at which flows are served to other nodes, as `:4244`; other than loopback it wants
    /// certificates of both sides. None if empty
    #[arg(id = "hubble_listen_address", long = "hubble-listen-address", value_name = "ADDRESS", default_value = "", hide_default_value = true, value_parser = parse_address)]
    #[serde(rename = "HubbleListenAddress")]
    pub listen_address: HubbleAddress,

    /// Whether that address is served without TLS
    #[arg(id = "hubble_disable_tls", long = "hubble-disable-tls", action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    #[serde(rename = "HubbleTLSDisabled")]
    pub disable_tls: bool,

    /// Certificate of that address; read again when it changes
    #[arg(id = "hubble_tls_cert_file", long = "hubble-tls-cert-file", value_name = "FILE")]
    #[serde(rename = "HubbleTLSCertFile")]
    pub tls_cert_file: Option<PathBuf>,

    /// Its key
    #[arg(id = "hubble_tls_key_file", long = "hubble-tls-key-file", value_name = "FILE")]
    #[serde(rename = "HubbleTLSKeyFile")]
    pub tls_key_file: Option<PathBuf>,

    /// Certificates of those who vouch for clients: files
    #[arg(id = "hubble_tls_client_ca_files", long = "hubble-tls-client-ca-files", value_name = "LIST", default_value = "", hide_default_value = true, value_parser = parse_list)]
    #[serde(rename = "HubbleTLSClientCAFiles")]
    pub tls_client_ca_files: List,

    /// Flows that are kept: 2^n - 1, from 1 to 65535
    #[arg(id = "hubble_event_buffer_capacity", long = "hubble-event-buffer-capacity", value_name = "NUMBER", default_value = "4095", value_parser = parse_capacity)]
    #[serde(rename = "HubbleEventBufferCapacity")]
    pub event_buffer_capacity: u32,

    /// Kinds of records that are kept: drop, trace, policy-verdict, agent; all if empty
    #[arg(id = "hubble_monitor_events", long = "hubble-monitor-events", value_name = "LIST", default_value = "", hide_default_value = true, value_parser = parse_kinds)]
    #[serde(rename = "HubbleMonitorEvents")]
    pub monitor_events: List,

    /// How often it is told at most that flows were lost
    #[arg(id = "hubble_lost_event_send_interval", long = "hubble-lost-event-send-interval", value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    #[serde(rename = "HubbleLostEventSendInterval", serialize_with = "as_nanoseconds")]
    pub lost_event_send_interval: Duration,

    /// File to which flows are written, a line of JSON each; `stdout` is the agent's output; none if empty
    #[arg(
        id = "hubble_export_file_path",
        long = "hubble-export-file-path",
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    #[serde(rename = "HubbleExportFilePath")]
    pub export_file_path: String,

    /// Size at which that file is put aside, 10^6 bytes
    #[arg(id = "hubble_export_file_max_size_mb", long = "hubble-export-file-max-size-mb", value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    #[serde(rename = "HubbleExportFileMaxSizeMB")]
    pub export_file_max_size_mb: u32,

    /// How many that were put aside are kept
    #[arg(id = "hubble_export_file_max_backups", long = "hubble-export-file-max-backups", value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    #[serde(rename = "HubbleExportFileMaxBackups")]
    pub export_file_max_backups: u32,

    /// Filters of which one must match a flow that is written: JSON objects of Hubble's API
    #[arg(id = "hubble_export_allowlist", long = "hubble-export-allowlist", value_name = "JSON", default_value = "", hide_default_value = true, value_parser = parse_filters)]
    #[serde(rename = "HubbleExportAllowlist")]
    pub export_allowlist: String,

    /// Filters of which none may
    #[arg(id = "hubble_export_denylist", long = "hubble-export-denylist", value_name = "JSON", default_value = "", hide_default_value = true, value_parser = parse_filters)]
    #[serde(rename = "HubbleExportDenylist")]
    pub export_denylist: String,

    /// Members of flows that are written, as source.pod_name; all if empty
    #[arg(id = "hubble_export_fieldmask", long = "hubble-export-fieldmask", value_name = "LIST", default_value = "", hide_default_value = true, value_parser = parse_mask)]
    #[serde(rename = "HubbleExportFieldmask")]
    pub export_fieldmask: List,

    /// Whether a relay is told IPv6 addresses of nodes that have both
    #[arg(id = "hubble_prefer_ipv6", long = "hubble-prefer-ipv6", action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "HubblePreferIpv6")]
    pub prefer_ipv6: bool,
}

/// An address to listen on, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct HubbleAddress(pub Option<SocketAddr>);

/// `:PORT` is every address of the node.
fn parse_address(text: &str) -> Result<HubbleAddress, String> {
    if text.is_empty() {
        return Ok(HubbleAddress(None));
    }
    let address = match text.strip_prefix(':') {
        Some(port) => {
            port.parse().ok().map(|port| SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port))
        }
        None => text.parse().ok(),
    };
    let address = address.ok_or("write it like :4244 or 127.0.0.1:4244")?;
    Ok(HubbleAddress(Some(address)))
}

fn parse_capacity(text: &str) -> Result<u32, String> {
    let capacity: u32 = text.parse().map_err(|_| "it is no number".to_owned())?;
    match capacity {
        1..=65_535 if (capacity + 1).is_power_of_two() => Ok(capacity),
        1..=65_535 => {
            let above = capacity.next_power_of_two() - 1;
            let above = if above < capacity { above * 2 + 1 } else { above };
            Err(format!("it is not 2^n - 1: say {above}, or {}", above / 2))
        }
        _ => Err("say 2^n - 1, from 1 to 65535, as 4095".to_owned()),
    }
}

/// Kinds of records by Cilium's names; those that are never written here are taken, too.
const KINDS: [(&str, u8); 7] = [
    ("drop", 1),
    ("debug", 2),
    ("capture", 3),
    ("trace", 4),
    ("policy-verdict", 5),
    ("trace-sock", 7),
    ("agent", 130),
];
/// Of requests; none here either.
const L7: &str = "l7";

fn parse_kinds(text: &str) -> Result<List, String> {
    let list = parse_list(text).map_err(|error| error.to_string())?;
    for kind in &list {
        if kind != L7 && !KINDS.iter().any(|(name, _)| name == kind) {
            let names: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
            return Err(format!("{kind:?} is none of {}, {L7}", names.join(", ")));
        }
    }
    Ok(list)
}

fn parse_filters(text: &str) -> Result<String, String> {
    read_filters(text).map(|_| text.to_owned())
}

fn parse_mask(text: &str) -> Result<List, String> {
    let list = parse_list(text).map_err(|error| error.to_string())?;
    Mask::of_flow(&list).map_err(|error| error.to_string())?;
    Ok(list)
}

impl HubbleOptions {
    /// What is written to a file, if that is asked for.
    pub fn export(&self) -> Option<Export> {
        if self.export_file_path.is_empty() {
            return None;
        }
        // Each was read when the flags were.
        let filters = |text: &str| read_filters(text).unwrap_or_default();
        let (allow, deny) = (filters(&self.export_allowlist), filters(&self.export_denylist));
        Some(Export {
            path: PathBuf::from(&self.export_file_path),
            size_max: u64::from(self.export_file_max_size_mb) * 1_000_000,
            backups: self.export_file_max_backups,
            filters: Filters::new(&allow, &deny).ok()?,
            mask: Mask::of_flow(&self.export_fieldmask).ok()?,
        })
    }

    /// Numbers of the records that are kept; none is all.
    pub fn kinds(&self) -> Vec<u8> {
        let number = |kind: &String| {
            KINDS.iter().find(|(name, _)| name == kind).map_or(129, |(_, number)| *number)
        };
        self.monitor_events.iter().map(number).collect()
    }

    /// Refuses what would show flows to whoever reaches the node, and TLS without its files.
    pub(super) fn check(
        &self,
        say: &impl Fn(&str, &dyn std::fmt::Display) -> String,
    ) -> Result<(), ConfigError> {
        let Some(address) = self.listen_address.0.filter(|_| self.enabled) else { return Ok(()) };
        if address.port() == 0 {
            let (setting, why) = (say("hubble-listen-address", &address), "say a port, as :4244");
            return Err(ConfigError::Unsupported { setting, why });
        }
        if !self.disable_tls && (self.tls_cert_file.is_none() || self.tls_key_file.is_none()) {
            let why = "TLS wants a certificate and its key: say --hubble-tls-cert-file and \
                       --hubble-tls-key-file as well";
            return Err(ConfigError::Unsupported {
                setting: say("hubble-disable-tls", &false),
                why,
            });
        }
        Ok(())
    }

    /// Where flows are served by TCP. Not where whoever reaches the node would see them: that is no reason
    /// not to start.
    pub fn served_address(&self) -> Option<SocketAddr> {
        let address = self.listen_address.0?;
        let is_guarded = !self.disable_tls && !self.tls_client_ca_files.is_empty();
        if address.ip().is_loopback() || is_guarded {
            return Some(address);
        }
        tracing::warn!(
            %address,
            "flows are not served there, where whoever reaches the node would see them: say \
             --hubble-disable-tls=false, --hubble-tls-cert-file, --hubble-tls-key-file and \
             --hubble-tls-client-ca-files as well, or listen on 127.0.0.1"
        );
        None
    }
}
