//! Checks across settings: those that contradict each other, are not supported, or have no effect.
//! That each single value is well formed is known before.

use clap::ValueEnum;
use volvox_actors::node::local_node::IpamMode;

use super::{
    Config, ConfigError, IdentityAllocationMode, Ipam, KvStoreKind, Origin, Range, RoutingMode,
    TunnelProtocol, WITHOUT_ETCD_RS, cni, kube_proxy, layers::Origins,
};

/// The least that every link must carry with IPv6, bytes.
const IPV6_MTU_MIN: u32 = 1280;
/// The least that a pod's link must carry with IPv4, bytes.
const IPV4_MTU_MIN: u32 = 576;

/// The most that a tunnel puts around a packet, bytes.
const TUNNEL_OVERHEAD_MAX: u32 = 70;

/// Refuses settings that exclude each other or that nothing here can do; returns warnings about
/// those that have no effect.
pub(super) fn check(config: &Config, origins: &Origins) -> Result<Vec<String>, ConfigError> {
    let say = |flag: &str, value: &dyn std::fmt::Display| match origins.of(flag) {
        Origin::CommandLine => format!("--{flag}={value}"),
        origin => format!("--{flag}={value} ({origin})"),
    };
    let contradiction = |one, other, why| Err(ConfigError::Contradiction { one, other, why });
    if !config.enable_ipv4 && !config.enable_ipv6 {
        let (one, other) = (say("enable-ipv4", &false), say("enable-ipv6", &false));
        return contradiction(one, other, "pods need addresses; enable one of the two");
    }
    if let Some(ipam) = config.ipam.filter(|_| !config.enable_k8s) {
        let (one, other) = (say("ipam", &IpamMode::from(ipam)), say("enable-k8s", &false));
        return contradiction(one, other, "such prefixes come from a cluster; drop one of the two");
    }
    if config.ipam == Some(Ipam::MultiPool) {
        let other = match (config.ipv4_range, config.ipv6_range) {
            (Range::Auto, Range::Auto) => None,
            (Range::Auto, ipv6) => Some(say("ipv6-range", &ipv6)),
            (ipv4, _) => Some(say("ipv4-range", &ipv4)),
        };
        if let Some(other) = other {
            let one = say("ipam", &IpamMode::MultiPool);
            return contradiction(one, other, "prefixes come out of pools; drop one of the two");
        }
    }
    if config.keep_config && !config.restore {
        let (one, other) = (say("keep-config", &true), say("restore", &false));
        return contradiction(
            one,
            other,
            "what is not restored keeps nothing; drop one of the two",
        );
    }
    if config.cluster_id != 0 && config.cluster_name == "default" {
        let one = say("cluster-id", &config.cluster_id);
        let other = say("cluster-name", &config.cluster_name);
        return contradiction(one, other, "a numbered cluster needs a name of its own");
    }
    if config.run_dir == config.lib_dir {
        let one = say("state-dir", &config.run_dir.display());
        let other = say("lib-dir", &config.lib_dir.display());
        return contradiction(one, other, "one is emptied at boot, the other is not: name two");
    }
    config.metrics.check(config, &say)?;
    if let Some(kind) = config.kvstore {
        let unsupported = |why| {
            let setting = say("kvstore", &name_of(kind));
            Err(ConfigError::Unsupported { setting, why })
        };
        if kind == KvStoreKind::EtcdRs && !cfg!(feature = "etcd-rs") {
            return unsupported(WITHOUT_ETCD_RS);
        }
        if kind.has_servers() && config.kvstore_opt.is_empty() {
            return unsupported("no server is named; say --kvstore-opt=etcd.address=URL as well");
        }
    }
    check_routing(config, &say)?;
    check_identities(config, &say)?;
    check_mesh(config, &say)?;
    cni::check(config, origins, &say)?;
    config.hubble.check(&say)?;
    check_mtu(config, &say)?;
    Ok(warnings(config, origins))
}

fn check_routing(
    config: &Config,
    say: &impl Fn(&str, &dyn std::fmt::Display) -> String,
) -> Result<(), ConfigError> {
    if config.tunnel_protocol == TunnelProtocol::Geneve {
        return Err(ConfigError::Unsupported {
            setting: say("tunnel-protocol", &"geneve"),
            why: "tunnels are VXLAN here; say vxlan on every node",
        });
    }
    let direct = config.auto_direct_node_routes;
    if config.routing_mode == RoutingMode::Tunnel && direct {
        let one = say("auto-direct-node-routes", &true);
        let other = say("routing-mode", &"tunnel");
        let why = "packets go in tunnels, or by routes; drop the one or say native";
        return Err(ConfigError::Contradiction { one, other, why });
    }
    if config.direct_routing_skip_unreachable && !direct {
        let one = say("direct-routing-skip-unreachable", &true);
        let other = say("auto-direct-node-routes", &false);
        let why = "where no routes are made none is left out; drop the one or make the other true";
        return Err(ConfigError::Contradiction { one, other, why });
    }
    Ok(())
}

fn check_identities(
    config: &Config,
    say: &impl Fn(&str, &dyn std::fmt::Display) -> String,
) -> Result<(), ConfigError> {
    if config.identity_allocation_mode != IdentityAllocationMode::Crd {
        return Ok(());
    }
    let one = say("identity-allocation-mode", &"crd");
    if !config.enable_k8s {
        let (other, why) =
            (say("enable-k8s", &false), "objects want a cluster; drop one of the two");
        return Err(ConfigError::Contradiction { one, other, why });
    }
    if let Some(kind) = config.kvstore {
        let other = say("kvstore", &name_of(kind));
        let why = "nodes share identities and addresses in one place; drop one of the two";
        return Err(ConfigError::Contradiction { one, other, why });
    }
    Ok(())
}

fn check_mesh(
    config: &Config,
    say: &impl Fn(&str, &dyn std::fmt::Display) -> String,
) -> Result<(), ConfigError> {
    let Some(dir) = &config.clustermesh_config else { return Ok(()) };
    let (other, why) = match (config.cluster_id, config.kvstore) {
        (0, _) => (
            say("cluster-id", &0),
            "clusters of a mesh are told apart by their numbers; give this one its own, from 1 on",
        ),
        (_, Some(KvStoreKind::Embedded)) => (
            say("kvstore", &"embedded"),
            "other clusters cannot know the identities of a node alone; share them in etcd or as \
             objects",
        ),
        (_, None) if config.identity_allocation_mode != IdentityAllocationMode::Crd => (
            "no --kvstore".to_owned(),
            "identities are then numbers of this node; share them in etcd or say \
             --identity-allocation-mode=crd",
        ),
        _ => return Ok(()),
    };
    let one = say("clustermesh-config", &dir.display());
    Err(ConfigError::Contradiction { one, other, why })
}

fn name_of(kind: KvStoreKind) -> String {
    kind.to_possible_value().map_or_else(String::new, |it| it.get_name().to_owned())
}

fn check_mtu(
    config: &Config,
    say: &impl Fn(&str, &dyn std::fmt::Display) -> String,
) -> Result<(), ConfigError> {
    let (least, family) = match config.enable_ipv6 {
        true => (IPV6_MTU_MIN, "enable-ipv6"),
        false => (IPV4_MTU_MIN, "enable-ipv4"),
    };
    let around = if config.routing_mode == RoutingMode::Tunnel { TUNNEL_OVERHEAD_MAX } else { 0 };
    let mtu = config.said_mtu();
    if mtu == 0 || mtu >= least + around {
        return Ok(());
    }
    let of_file = config
        .cni
        .read_cni_conf
        .as_ref()
        .filter(|_| config.cni.custom.as_ref().is_some_and(|it| it.mtu.is_some()));
    Err(ConfigError::Contradiction {
        one: match of_file {
            Some(path) => format!("mtu {mtu} of --read-cni-conf={}", path.display()),
            None => say("mtu", &mtu),
        },
        other: say(family, &true),
        why: "IPv6 needs 1280 bytes and IPv4 576, and a tunnel 70 around them; raise it, or say 0 \
              for the node's own",
    })
}

fn warnings(config: &Config, origins: &Origins) -> Vec<String> {
    let mut warnings = Vec::new();
    for (range, family, enabled) in [
        ("ipv4-range", "enable-ipv4", config.enable_ipv4),
        ("ipv6-range", "enable-ipv6", config.enable_ipv6),
    ] {
        if !enabled && origins.of(range) != Origin::Default {
            warnings.push(format!("--{range} has no effect: --{family} is false"));
        }
    }
    for flag in ["tunnel-protocol", "tunnel-port"] {
        if config.routing_mode == RoutingMode::Native && origins.of(flag) != Origin::Default {
            warnings.push(format!("--{flag} has no effect: --routing-mode is native"));
        }
    }
    warnings.extend(kube_proxy::warnings(config, origins));
    let has_servers = config.kvstore.is_some_and(KvStoreKind::has_servers);
    if !has_servers && !config.kvstore_opt.is_empty() {
        warnings.push("--kvstore-opt has no effect without --kvstore=etcd".to_owned());
    }
    warnings
}
