//! What the datapath is to be like, by the agent's settings.

use anyhow::Context;
use volvox_bpf_progs::{Features, layouts::ConfigFlags};

use super::{
    parts::{memory, parts},
    sysctl,
};
use crate::{
    config::{Config, LbMode, NoBackendResponse},
    datapath::{DatapathConfig, Inheritance, MapSizes},
};

/// What the datapath is to be like.
pub fn datapath_config(
    config: &Config,
    take_over: Option<Inheritance>,
) -> anyhow::Result<DatapathConfig> {
    let sizes = config.conntrack_sizes(memory());
    let notify = [
        (config.bpf_events_trace_enabled, ConfigFlags::TRACE_NOTIFY),
        (config.bpf_events_policy_verdict_enabled, ConfigFlags::VERDICT_NOTIFY),
        (config.bpf_events_drop_enabled, ConfigFlags::DROP_NOTIFY),
    ];
    let notify = notify.into_iter().filter(|(on, _)| *on).fold(0, |all, (_, flag)| all | flag);
    let node_port = config.kube_proxy.replacement;
    Ok(DatapathConfig {
        bpf_root: config.bpf_root.clone(),
        features: Features {
            ipv4: config.enable_ipv4,
            ipv6: config.enable_ipv6,
            notify: u8::try_from(notify).context("notify flags fit a byte")?,
            policy_stats: false,
            report_interval: u16::try_from(config.monitor_aggregation_interval.as_secs())
                .context("--monitor-aggregation-interval")?,
            report_flags: config.monitor_aggregation_flags.0,
            host_firewall: config.enable_host_firewall,
            // Who opens a connection says how it goes, so the programs have to know both.
            dsr: node_port && (config.bpf_lb_mode == LbMode::Dsr || config.bpf_lb_mode_annotation),
            dsr_by_service: node_port && config.bpf_lb_mode_annotation,
            refuse: config.service_no_backend_response == NoBackendResponse::Reject,
            parts: parts(config),
            ..Features::default()
        },
        sizes: MapSizes {
            ct_tcp: sizes.tcp,
            ct_any: sizes.any,
            policy: config.bpf_policy_map_max,
            lb: config.bpf_lb_map_max,
            nat: sizes.nat,
            maglev: config.bpf_lb_maglev_table_size,
        },
        sockets: config.attaching.bpf_lb_sock.then(|| config.cgroup_root.clone()),
        tcx: config.attaching.enable_tcx,
        take_over,
        end_tcp: config.attaching.lb_sock_terminate_all_protos,
        sysctl: sysctl(config),
    })
}
