//! Tests: metrics have the names that Cilium's dashboards use, in both formats of Prometheus.

use axum::http::Method;
use serde_json::json;

use super::node_supervisor::Fixture;

#[test]
fn metrics_have_the_names_that_dashboards_know() {
    let api = Fixture::new();
    let body = json!({"container-id": "ab01", "addressing": {"ipv4": "10.1.0.9"}}).to_string();
    api.call(Method::PUT, "/v1/endpoint/7", body);
    api.call(Method::POST, "/v1/ipam?owner=web", "");
    let text = api.text("/metrics");
    for line in [
        "cilium_version{version=\"0.1.0\"} 1.0",
        "cilium_endpoint 1.0",
        "cilium_endpoint_state{endpoint_state=\"ready\"} 1.0",
        "cilium_endpoint_state{endpoint_state=\"regenerating\"} 0.0",
        "cilium_ip_addresses{family=\"ipv4\"} 1.0",
        "cilium_identity{type=\"cluster_local\"} 1.0",
        "cilium_policy 1.0",
        "cilium_policy_max_revision 3.0",
        "cilium_datapath_conntrack_gc_runs_total 2.0",
        "volvox_conntrack_rounds_by_signal_total 1.0",
        "cilium_datapath_signals_handled_total{signal=\"nat_fill_up\",data=\"ipv4\",status=\"received\"} 5.0",
        "cilium_datapath_signals_handled_total{signal=\"nat_fill_up\",data=\"ipv6\",status=\"received\"} 1.0",
        "cilium_datapath_signals_handled_total{signal=\"nat_fill_up\",data=\"ipv4\",status=\"coalesced\"} 6.0",
        "cilium_datapath_signals_handled_total{signal=\"nat_fill_up\",data=\"ipv6\",status=\"coalesced\"} 2.0",
        "cilium_datapath_signals_handled_total{signal=\"ct_fill_up\",data=\"ipv4\",status=\"received\"} 7.0",
        "cilium_datapath_signals_handled_total{signal=\"ct_fill_up\",data=\"ipv6\",status=\"received\"} 3.0",
        "cilium_datapath_signals_handled_total{signal=\"ct_fill_up\",data=\"ipv4\",status=\"coalesced\"} 8.0",
        "cilium_datapath_signals_handled_total{signal=\"ct_fill_up\",data=\"ipv6\",status=\"coalesced\"} 4.0",
        "cilium_datapath_conntrack_gc_entries{status=\"alive\"} 9.0",
        "cilium_datapath_nat_gc_entries{status=\"alive\"} 4.0",
        "volvox_nat_deleted_total 4.0",
        "cilium_agent_bootstrap_seconds{scope=\"read\",outcome=\"success\"} 0.5",
        "cilium_endpoint_restoration_endpoints{phase=\"restoration\",outcome=\"total\"} 0.0",
        "volvox_restore_finished 1.0",
        "volvox_build_permits{state=\"free\"} 1.0",
        "cilium_endpoint_regenerations_total{outcome=\"success\"} 4.0",
        "cilium_endpoint_regenerations_total{outcome=\"fail\"} 0.0",
        "cilium_endpoint_regeneration_time_stats_seconds_sum{scope=\"total\",status=\"success\"} 6.0",
        "cilium_endpoint_regeneration_time_stats_seconds_count{scope=\"total\",status=\"success\"} 4",
        "cilium_endpoint_regeneration_time_stats_seconds_bucket{le=\"0.01\",scope=\"total\",status=\"success\"} 3",
        "cilium_endpoint_regeneration_time_stats_seconds_bucket{le=\"+Inf\",scope=\"total\",status=\"success\"} 4",
        "cilium_bpf_map_ops_total{map_name=\"lxc\",operation=\"update\",outcome=\"success\"} 0.0",
        "cilium_bpf_map_ops_total{map_name=\"policy_v2\",operation=\"delete\",outcome=\"fail\"} 0.0",
        "cilium_bpf_map_pressure{map_name=\"lb4_services_v2\"} 0.005",
        "cilium_bpf_map_pressure{map_name=\"lb4_backends_v3\"} 0.002",
        "volvox_services_frontends 2.0",
        "volvox_services_backends 2.0",
        "volvox_services_open 1.0",
        "volvox_services_awaited 1.0",
        "volvox_audits_total 4.0",
        "volvox_invariant_broken{invariant=\"ready-means-enforced\"} 0.0",
        "volvox_invariant_violations_total{invariant=\"nothing-is-left-behind\"} 0.0",
        "volvox_kernel_writes_total{object=\"endpoint maps\"} 0.0",
        "volvox_actor_restarts{actor=\"endpoints\"} 0.0",
        "process_cpu_seconds_total ",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line} is missing:\n{text}");
    }
    assert!(!text.contains("# EOF"), "{text}");
}

#[test]
fn a_counter_is_told_about_as_each_format_wants_it() {
    let api = Fixture::new();
    let text = |accept| api.text_accepted("/metrics", Some(accept));
    let (kind, plain) = text("text/plain;version=0.0.4;q=0.5,*/*;q=0.1");
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    assert!(plain.contains("\n# TYPE volvox_audits_total counter\nvolvox_audits_total 4.0\n"));
    let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3";
    let (kind, open) = text(prometheus);
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(open.contains("\n# TYPE volvox_audits counter\nvolvox_audits_total 4.0\n"));
    assert!(open.ends_with("# EOF\n"), "{open}");
}

#[test]
fn every_metric_says_what_it_is() {
    let text = Fixture::new().text("/metrics");
    let described: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP "))
        .filter_map(|rest| rest.split_once(' '))
        .collect();
    assert!(described.len() > 20, "{text}");
    for (name, help) in described {
        assert!(
            name.starts_with("cilium_")
                || name.starts_with("volvox_")
                || name.starts_with("process_"),
            "{name}"
        );
        assert!(help.len() > 5, "{name}: {help}");
    }
}
