//! What `volvox status --verbose` shows besides: how the agent is set up, who has which address, how large
//! maps are, and what fails how often.

use volvox_rest::models::StatusAnswer;

use crate::{error::ClientError, output::Output};

/// The further parts.
pub(super) struct Verbose {
    members: Vec<(&'static str, String)>,
    addresses: Vec<[String; 2]>,
    maps: Vec<[String; 2]>,
    failing: Vec<[String; 3]>,
}

/// Takes them from the agent's answer.
pub(super) fn verbose(health: &StatusAnswer) -> Verbose {
    let details = health.details.clone().unwrap_or_default();
    let state = |state: &str, msg: &str| match msg {
        "" => state.to_owned(),
        msg => format!("{state}, {msg}"),
    };
    let protocols = details.masquerading.get("enabledProtocols");
    let on = |family: &str| protocols.is_some_and(|it| it[family] == true);
    let masquerading = [("ipv4", "IPv4"), ("ipv6", "IPv6")];
    let masquerading: Vec<_> =
        masquerading.into_iter().filter(|(key, _)| on(key)).map(|(_, name)| name).collect();
    let routing = &details.routing;
    let range = &details.identity_range;
    Verbose {
        members: vec![
            ("Kubernetes", details.kubernetes.state.clone()),
            ("Hubble", state(&details.hubble.state, &details.hubble.msg)),
            ("CNI file", state(&details.cni_file.state, &details.cni_file.msg)),
            ("CNI chaining", details.cni_chaining.mode.clone()),
            (
                "Routing",
                format!(
                    "network {}, host {}",
                    routing.inter_host_routing_mode, routing.intra_host_routing_mode
                ),
            ),
            (
                "Masquerading",
                match masquerading.is_empty() {
                    true => "off".to_owned(),
                    false => masquerading.join(", "),
                },
            ),
            ("Host firewall", details.host_firewall.mode.clone()),
            ("Encryption", details.encryption.mode.clone()),
            ("Device mode", details.datapath_mode.clone()),
            ("Clock", details.clock_source.mode.clone()),
            ("Identities", format!("{} to {}", range.min_identity, range.max_identity)),
        ],
        addresses: details
            .ipam
            .allocations
            .iter()
            .map(|(address, owner)| [address.clone(), owner.clone()])
            .collect(),
        maps: details
            .bpf_maps
            .maps
            .iter()
            .map(|it| [it.name.clone(), it.size.to_string()])
            .collect(),
        failing: details
            .controllers
            .iter()
            .map(|it| {
                let status = &it.status;
                let count = status.consecutive_failure_count.to_string();
                [it.name.clone(), count, status.last_failure_msg.clone()]
            })
            .collect(),
    }
}

impl Verbose {
    /// Shows them to people.
    pub(super) fn show(self, out: &mut Output<'_>) -> Result<(), ClientError> {
        out.members(&self.members)?;
        out.line("")?;
        out.table(["ALLOCATED ADDRESS", "OWNER"], self.addresses)?;
        out.line("")?;
        out.table(["MAP", "SIZE"], self.maps)?;
        if !self.failing.is_empty() {
            out.line("")?;
            out.table(["WHAT FAILS", "IN A ROW", "WHY"], self.failing)?;
        }
        Ok(())
    }
}
