//! What the agent does in the place of a kube-proxy, and what of that has no effect beside one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::{ArgAction, Args};
use serde::Serialize;

use super::{
    Config, LbAlgorithm, LbMode, OptionalAddress, Origin, layers::Origins, values::parse_switch,
};

/// Flags of what a kube-proxy would do otherwise.
#[derive(Clone, Debug, Args, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct KubeProxyOptions {
    /// Whether load balancers that ask for a service at its healthCheckNodePort are answered: whether
    /// this node has pods of it
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL")]
    #[serde(rename = "EnableHealthCheckNodePort")]
    pub enable_health_check_nodeport: bool,

    /// Whether services are served in the place of a kube-proxy; else it serves node ports, external
    /// addresses and host ports, and the agent what pods send to addresses inside the cluster
    #[arg(id = "kube_proxy_replacement", long = "kube-proxy-replacement", value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_replacement)]
    #[serde(rename = "KubeProxyReplacement")]
    pub replacement: bool,

    /// Address for load balancers that ask whether the node serves services, `0.0.0.0:10256` as a
    /// kube-proxy has it; not served if empty
    #[arg(id = "kube_proxy_replacement_healthz_bind_address", long = "kube-proxy-replacement-healthz-bind-address", value_name = "ADDRESS", default_value = "", hide_default_value = true, value_parser = parse_healthz)]
    #[serde(rename = "KubeProxyReplacementHealthzBindAddr")]
    pub healthz: OptionalAddress,
}

/// Reads whether kube-proxy is replaced. What older versions of Cilium took is refused with what to say.
fn parse_replacement(text: &str) -> Result<bool, String> {
    let instead = match text.to_ascii_lowercase().as_str() {
        "strict" => "write true, which serves the same",
        "partial" | "probe" => {
            "a kube-proxy is replaced as a whole: write true, and remove kube-proxy, or write false"
        }
        "disabled" => "write false, which leaves the same to kube-proxy",
        _ => return parse_switch(text),
    };
    Err(format!("older versions of Cilium had {text}: {instead}"))
}

/// Reads an address that the world may ask; `:PORT` is on all addresses.
fn parse_healthz(text: &str) -> Result<OptionalAddress, String> {
    if text.is_empty() {
        return Ok(OptionalAddress(None));
    }
    let address = match text.strip_prefix(':') {
        Some(port) => {
            port.parse().ok().map(|port| (IpAddr::V4(Ipv4Addr::UNSPECIFIED), port).into())
        }
        None => text.parse::<SocketAddr>().ok(),
    };
    let address = address.filter(|address| address.port() > 0);
    address.map(|it| OptionalAddress(Some(it))).ok_or("write it like 0.0.0.0:10256".to_owned())
}

/// What is set and does nothing beside a kube-proxy.
pub(super) fn warnings(config: &Config, origins: &Origins) -> impl Iterator<Item = String> {
    let of_kube_proxy = [
        ("bpf-lb-mode", config.bpf_lb_mode != LbMode::Snat),
        ("bpf-lb-mode-annotation", config.bpf_lb_mode_annotation),
        ("bpf-lb-algorithm", config.bpf_lb_algorithm == LbAlgorithm::Maglev),
        ("bpf-lb-external-clusterip", config.bpf_lb_external_clusterip),
        ("kube-proxy-replacement-healthz-bind-address", config.kube_proxy.healthz.0.is_some()),
    ];
    let beside = !config.kube_proxy.replacement;
    let said = of_kube_proxy.map(|(flag, is_on)| {
        let is_said = beside && is_on && origins.of(flag) != Origin::Default;
        is_said.then(|| {
            format!(
                "--{flag} has no effect: --kube-proxy-replacement is false, and kube-proxy serves \
                 clients outside the cluster"
            )
        })
    });
    said.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use crate::config::{Loaded, load};

    fn loaded(flags: &[&str]) -> Result<Loaded, String> {
        let all = ["volvox-agent"].iter().chain(flags);
        load(all.copied(), |_| None).map_err(|error| error.to_string())
    }

    fn replaces(flags: &[&str]) -> Result<bool, String> {
        loaded(flags).map(|loaded| loaded.config.kube_proxy.replacement)
    }

    #[test]
    fn it_is_replaced_unless_that_is_switched_off() {
        assert_eq!(replaces(&[]), Ok(true));
        assert_eq!(replaces(&["--kube-proxy-replacement"]), Ok(true));
        assert_eq!(replaces(&["--kube-proxy-replacement=true"]), Ok(true));
        assert_eq!(replaces(&["--kube-proxy-replacement=false"]), Ok(false));
    }

    #[test]
    fn older_spellings_are_refused_with_what_to_write_instead() {
        for (old, remedy) in [
            ("strict", "write true"),
            ("partial", "remove kube-proxy"),
            ("probe", "remove kube-proxy"),
            ("disabled", "write false"),
            ("Strict", "write true"),
            ("maybe", "true or false"),
        ] {
            let refused = replaces(&[&format!("--kube-proxy-replacement={old}")]).unwrap_err();
            assert!(refused.contains(old) && refused.contains(remedy), "{refused}");
        }
    }

    #[test]
    fn the_address_of_health_checks_may_be_any() {
        let healthz = |text: &str| {
            let flag = format!("--kube-proxy-replacement-healthz-bind-address={text}");
            loaded(&[&flag]).map(|loaded| loaded.config.kube_proxy.healthz.0)
        };
        assert_eq!(healthz(""), Ok(None));
        assert_eq!(healthz(":10256"), Ok(Some("0.0.0.0:10256".parse().unwrap())));
        assert_eq!(healthz("[::]:10256"), Ok(Some("[::]:10256".parse().unwrap())));
        assert!(healthz("10256").unwrap_err().contains("0.0.0.0:10256"));
        assert!(healthz("0.0.0.0:0").is_err());
    }

    #[test]
    fn what_does_nothing_beside_a_kube_proxy_is_named() {
        let said = |flags: &[&str]| loaded(flags).unwrap().warnings;
        let set = ["--bpf-lb-mode=dsr", "--kube-proxy-replacement-healthz-bind-address=:1"];
        assert_eq!(said(&set), [""; 0]);
        let beside = said(&["--kube-proxy-replacement=false", set[0], set[1]]);
        assert_eq!(beside.len(), 2, "{beside:?}");
        assert!(beside[0].contains("--bpf-lb-mode has no effect"));
        assert_eq!(said(&["--kube-proxy-replacement=false"]), [""; 0]);
    }
}
