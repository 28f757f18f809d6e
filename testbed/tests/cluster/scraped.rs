//! A real Prometheus asks the agent for metrics, with a token that the API server knows: alerts and the
//! dashboard's queries find what they ask for.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use volvox_packaging::monitoring::{DASHBOARD, RULES, SERVICE_MONITOR};
use volvox_testbed::lab::{self, ApiServer, Process, http_get};

use crate::{
    Cluster,
    rights::{ACCOUNTS, RBAC, admit, token_of},
};

/// What makes each alert fire.
const RULES_TEST: &str = include_str!("../../../agent/packaging/monitoring/rules-test.yaml");
/// Where Prometheus serves.
const PROMETHEUS: &str = "127.0.0.1:9090";
/// What the agent counts of flows.
const FLOWS: &str = "drop:sourceContext=pod;destinationContext=pod flow tcp";
/// Longer than any query takes.
const SPAN: &str = "20s";

fn unreserved(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// What Prometheus says at a path of its API.
fn ask(path: &str) -> Result<Value> {
    let (_, body) = http_get(PROMETHEUS.parse()?, &format!("/api/v1/{path}"))?;
    let mut said: Value = serde_json::from_str(&body)?;
    ensure!(said["status"] == "success", "{path}: {body}");
    Ok(said["data"].take())
}

/// The series that a query finds.
fn query(text: &str) -> Result<Vec<Value>> {
    let found = ask(&format!("query?query={}", unreserved(text)))?;
    Ok(found["result"].as_array().cloned().unwrap_or_default())
}

/// The queries of the dashboard, each as one node's would be asked.
fn panels() -> Result<Vec<String>> {
    let dashboard: Value = serde_json::from_str(DASHBOARD)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries = targets.filter_map(|target| target["expr"].as_str());
    Ok(queries.map(|it| it.replace("$instance", ".*").replace("$__rate_interval", SPAN)).collect())
}

/// Prometheus with our alerts, which asks as somebody who may, and as somebody who may not.
fn start(place: &Path, reader: &str, stranger: &str) -> Result<Process> {
    fs::create_dir_all(place)?;
    fs::write(place.join("rules.yaml"), RULES)?;
    fs::write(place.join("rules-test.yaml"), RULES_TEST)?;
    fs::write(place.join("reader"), reader)?;
    fs::write(place.join("stranger"), stranger)?;
    let job = |name: &str, port: u16, token: &str| {
        json!({
            "job_name": name, "scheme": "https", "tls_config": { "insecure_skip_verify": true },
            "authorization": { "credentials_file": place.join(token) },
            "static_configs": [{ "targets": [format!("127.0.0.1:{port}")] }],
        })
    };
    let settings = json!({
        "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
        "rule_files": [place.join("rules.yaml")],
        "scrape_configs": [
            job("kube-system/volvox", 9962, "reader"),
            job("flows", 9965, "reader"),
            job("stranger", 9962, "stranger"),
        ],
    });
    fs::write(place.join("prometheus.yaml"), settings.to_string())?;
    let arguments = [
        format!("--config.file={}", place.join("prometheus.yaml").display()),
        format!("--storage.tsdb.path={}", place.join("data").display()),
        format!("--web.listen-address={PROMETHEUS}"),
    ];
    Process::start(&PathBuf::from("prometheus"), &arguments, &place.join("prometheus.log"))
        .context("install the package prometheus")
}

/// Prometheus' own tool on the alerts: each fires where it should.
fn try_alerts(place: &Path) -> Result<()> {
    for words in [["check", "rules", "rules.yaml"], ["test", "rules", "rules-test.yaml"]] {
        let done = Command::new("promtool").args(words).current_dir(place).output()?;
        ensure!(done.status.success(), "{words:?}: {done:?}");
    }
    let all = volvox_inspect::manifests::objects(RULES).map_err(anyhow::Error::msg)?;
    let rules = all[0]["groups"][0]["rules"].as_array().context("no alerts")?;
    for rule in rules {
        let name = rule["alert"].as_str().context("a rule that is no alert")?;
        let fires = format!("alertname: {name}\n        exp_alerts:\n");
        ensure!(RULES_TEST.contains(&fires), "nothing makes {name} fire");
    }
    Ok(())
}

/// Makes an account, and a token of it.
fn account(server: &ApiServer, name: &str) -> Result<String> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name },
    });
    server.client().create(ACCOUNTS, &account)?;
    token_of(server, name)
}

/// Lets that account read metrics, by the role that is packaged.
fn let_read(server: &ApiServer, name: &str) -> Result<()> {
    let all = volvox_inspect::manifests::objects(SERVICE_MONITOR).map_err(anyhow::Error::msg)?;
    let role = all.iter().find(|it| it["kind"] == "ClusterRole").context("no role")?;
    server.client().create(&format!("{RBAC}/clusterroles"), role)?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": role["metadata"]["name"],
        },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": "kube-system" }],
    });
    server.client().create(&format!("{RBAC}/clusterrolebindings"), &binding)
}

#[test]
fn prometheus_reads_what_it_may_and_finds_what_it_asks_for() {
    lab::test("scraped::prometheus_reads_what_it_may_and_finds_what_it_asks_for", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let mut tokens = Vec::new();
        let mut cluster = Cluster::start_by(ApiServer::start_strict, program, |server, node| {
            admit(server, &[])?;
            tokens = vec![account(server, "prometheus")?, account(server, "stranger")?];
            let_read(server, "prometheus")?;
            node.set_flag("prometheus-serve-addr", Some(":9962"))
                .set_flag("prometheus-token-review", Some("true"))
                .set_flag("enable-hubble", Some("true"))
                .set_flag(
                    "hubble-socket-path",
                    Some(&lab::path("hubble.sock").display().to_string()),
                )
                .set_flag("hubble-metrics", Some(FLOWS))
                .set_flag("hubble-metrics-server", Some(":9965"));
            Ok(())
        })?;
        let place = cluster.node.path("prometheus");
        let mut prometheus = start(&place, &tokens[0], &tokens[1])?;
        try_alerts(&place)?;
        cluster.friend_and_stranger_reach([true, false])?;
        // Builds, and what is told of them.
        cluster.node.volvox("endpoint regenerate 1 --level rebuild").ok();
        let up = |job: &str, value: &str| {
            let found = query(&format!("up{{job=\"{job}\"}}")).unwrap_or_default();
            found.first().is_some_and(|series| series["value"][1] == value)
        };
        lab::wait_for("Prometheus does not read metrics", || {
            prometheus.check()?;
            Ok(up("kube-system/volvox", "1") && up("flows", "1") && up("stranger", "0"))
        })
        .with_context(|| ask("targets").map(|it| it.to_string()).unwrap_or_default())?;
        let targets = ask("targets")?.to_string();
        ensure!(targets.contains("403 Forbidden"), "a stranger is not refused: {targets}");
        let queries = panels()?;
        ensure!(queries.len() > 15, "{queries:?}");
        for text in &queries {
            lab::wait_for(
                "a query of the dashboard finds nothing",
                || Ok(!query(text)?.is_empty()),
            )
            .with_context(|| text.clone())?;
        }
        let drops = "hubble_drop_total{reason=\"POLICY_DENIED\",source=\"shop/stranger\"}";
        lab::wait_for("drops are not counted by pod", || {
            cluster.friend_and_stranger_reach([true, false])?;
            Ok(!query(drops)?.is_empty())
        })?;
        let rules = ask("rules")?;
        for rule in rules["groups"][0]["rules"].as_array().context("no rules")? {
            if rule["health"] != "ok" {
                bail!("{rule:#}");
            }
        }
        prometheus.terminate()
    });
}
