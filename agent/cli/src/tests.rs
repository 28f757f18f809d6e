//! The client where no agent answers.

use std::{fs, io, path::Path};

use clap::Parser;

use super::{args::Arguments, execute};

/// What a command wrote, and its exit code.
#[derive(Debug, PartialEq)]
struct Ran {
    text: String,
    code: u8,
    error: String,
}

fn run(socket: &Path, command: &str) -> Ran {
    let fixed = ["volvox", "--socket-path", socket.to_str().unwrap()];
    let arguments = Arguments::try_parse_from(fixed.into_iter().chain(command.split(' '))).unwrap();
    let mut out = Vec::new();
    let result = execute(arguments, &mut out);
    let text = String::from_utf8(out).unwrap();
    match result {
        Ok(()) => Ran { text, code: 0, error: String::new() },
        Err(error) => Ran { text, code: error.code(), error: error.to_string() },
    }
}

#[test]
fn a_dead_agent_is_named_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(&dir.path().join("nobody.sock"), "status");
    assert_eq!((ran.code, ran.text.as_str()), (3, ""));
    assert!(ran.error.contains("nobody.sock"), "{}", ran.error);
    assert!(ran.error.contains("see that volvox-agent runs"), "{}", ran.error);
}

#[test]
fn manifests_are_judged_without_an_agent() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nobody.sock");
    let file = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    let policy = |port: u32| {
        format!(
            "apiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\n\
             metadata: {{name: web, namespace: default}}\nspec:\n  endpointSelector: {{}}\n  \
             ingress:\n  - toPorts:\n    - ports: [{{port: \"{port}\", protocol: TCP}}]\n"
        )
    };
    let good = file("good.yaml", &policy(80));
    let ran = run(&socket, &format!("policy validate {good}"));
    assert_eq!(
        (ran.code, ran.text),
        (0, format!("{good}: CiliumNetworkPolicy default/web: valid\n"))
    );
    let bad = file("bad.yaml", &policy(70000));
    let ran = run(&socket, &format!("policy validate {good} {bad}"));
    assert_eq!((ran.code, ran.error.as_str()), (1, "1 document refused"));
    assert!(ran.text.contains("spec.ingress[0].toPorts[0].ports[0].port"), "{}", ran.text);
    let alone = policy(80).replace("ingress:\n", "enableDefaultDeny: {egress: true}\n  ingress:\n");
    let ran = run(&socket, &format!("policy validate {}", file("alone.yaml", &alone)));
    assert!(ran.code == 0 && ran.text.contains("Cilium 1.19 leaves it open"), "{}", ran.text);
    // A file without a policy is a mistake unless it is meant, and a rule that fails closed is told of.
    let empty = file("empty.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n");
    let ran = run(&socket, &format!("policy validate {empty}"));
    assert!(ran.code == 1 && ran.text.contains("holds no policy"), "{ran:?}");
    assert!(ran.error.contains("1 file without a policy (--allow-empty"), "{}", ran.error);
    assert_eq!(run(&socket, &format!("policy validate --allow-empty {empty} {good}")).code, 0);
    let l7 = policy(80).replace("TCP}]", "TCP}], rules: {http: [{path: /}]}");
    let closed = file(
        "closed.yaml",
        &l7.replace("toPorts:\n    - ports", "toPorts:\n    - {ports").replace("]}\n", "]}}\n"),
    );
    let ran = run(&socket, &format!("policy validate {closed}"));
    assert!(
        ran.code == 0 && ran.text.contains("the rule fails closed; --strict refuses it"),
        "{ran:?}"
    );
    let ran = run(&socket, &format!("policy validate --strict {closed}"));
    assert_eq!((ran.code, ran.error.as_str()), (1, "1 part of rules that fail closed"));
    let ran = run(&socket, &format!("-o json policy validate {closed}"));
    let all: serde_json::Value = serde_json::from_str(&ran.text).unwrap();
    assert_eq!(all[0]["fails-closed"].as_array().unwrap().len(), 1, "{all}");
    let rubbish = file("rubbish.yaml", "{]");
    assert_eq!(run(&socket, &format!("policy validate {rubbish}")).code, 1);
    assert_eq!(run(&socket, "policy validate /nowhere.yaml").code, 1);
}

#[test]
fn wrong_questions_are_refused_before_anything_is_done() {
    for command in [
        "",
        "endpoint",
        "endpoint get",
        "policy validate",
        "identity get x",
        "monitor -t x",
        "status --brief --wait",
        "status --wait-duration 5m",
        "get ep -n a -A",
        "get x",
        "why --to a/b:80",
        "why a/b --to c/d:80 --regenerated",
        "why a/b --port 80",
        "-o jsonpath status",
        "-o jsonpath={.x status",
        "-o xml status",
        "bpf ct flush now",
        "service get x",
        "backend quarantine web",
        "backend quarantine 10.0.0.1",
        "backend quarantine 10.0.0.1:80/ICMP",
        "bpf lb list --backends --revnat",
        "install --wait soon",
        "install --reset-values",
        "install --dry-run --helm-chart chart",
        "uninstall --set a=b",
    ] {
        let arguments = ["volvox"].into_iter().chain(command.split(' ').filter(|a| !a.is_empty()));
        assert_eq!(Arguments::try_parse_from(arguments).unwrap_err().exit_code(), 2, "{command:?}");
    }
}

#[test]
fn an_installation_is_shown_without_a_cluster() {
    let ran = run(Path::new("/nowhere"), "install --dry-run --set ipv6.enabled=true,image.tag=2");
    assert_eq!((ran.code, ran.error.as_str()), (0, ""));
    for words in ["kind: DaemonSet", "image: volvox-agent:2", "enable-ipv6: 'true'"] {
        assert!(ran.text.contains(words), "{words}: {}", ran.text);
    }
    let ran = run(Path::new("/nowhere"), "-o json install --dry-run");
    let list: serde_json::Value = serde_json::from_str(&ran.text).unwrap();
    let kinds = list["items"].as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap());
    let kinds: Vec<&str> = kinds.collect();
    for kind in ["DaemonSet", "Deployment", "ConfigMap"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let ran = run(Path::new("/nowhere"), "install --dry-run --set ipv6=true");
    assert_eq!((ran.code, ran.text.as_str()), (2, ""));
    assert_eq!(ran.error, "there is no value ipv6: did you mean ipv6.enabled?");
    let ran = run(Path::new("/nowhere"), "install --dry-run -f /nowhere/values.yaml");
    assert!(ran.code == 2 && ran.error.contains("/nowhere/values.yaml"), "{}", ran.error);
}

#[test]
fn a_chart_is_written_without_a_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let chart = dir.path().join("chart");
    let command = format!("install --helm-chart {}", chart.display());
    let ran = run(Path::new("/nowhere"), &command);
    let files: usize = [".", "templates", "crds"]
        .map(|place| fs::read_dir(chart.join(place)).unwrap())
        .map(|all| all.filter(|it| it.as_ref().unwrap().path().is_file()).count())
        .iter()
        .sum();
    let said = format!("{files} files written to {}\n", chart.display());
    assert_eq!((ran.code, ran.text), (0, said));
    let set = fs::read_to_string(chart.join("templates/daemonset.yaml")).unwrap();
    assert!(set.contains("{{- toYaml .Values.resources | nindent"), "{set}");
    assert!(fs::read_to_string(chart.join("Chart.yaml")).unwrap().contains("version: 0.1.0\n"));
    let ran = run(Path::new("/nowhere"), "install --helm-chart /proc/chart");
    assert!(ran.code == 2 && ran.error.contains("/proc/chart"), "{}", ran.error);
}

#[test]
fn a_cluster_that_cannot_be_asked_is_named() {
    for verb in ["install", "upgrade", "uninstall"] {
        let ran = run(Path::new("/nowhere"), &format!("{verb} --kubeconfig /nowhere/config"));
        assert!(ran.code == 1 && ran.error.contains("kubeconfig /nowhere/config"), "{}", ran.error);
    }
}

/// Where nobody reads on, as behind `head`.
struct Closed;

impl io::Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn completions_that_nobody_reads_to_their_end_are_no_failure() {
    let arguments = Arguments::try_parse_from(["volvox", "completions", "bash"]).unwrap();
    assert!(execute(arguments, &mut Closed).unwrap_err().is_quiet());
}

#[test]
fn every_command_line_is_well_formed_and_help_names_the_formats() {
    use clap::CommandFactory;

    Arguments::command().debug_assert();
    let help = Arguments::command().render_long_help().to_string();
    for format in ["wide", "yaml", "jsonpath=TEMPLATE"] {
        assert!(help.contains(format), "{format}: {help}");
    }
    for command in
        ["ep list -A -o wide", "svc list -n shop -w", "get no -w -o yaml", "get ep shop/web"]
    {
        let words = ["volvox"].into_iter().chain(command.split(' '));
        assert!(Arguments::try_parse_from(words).is_ok(), "{command}");
    }
    let ran = run(Path::new("/nowhere"), "-o tab status");
    assert!(ran.code == 2 && ran.error.contains("of `volvox observe`"), "{}", ran.error);
}

#[test]
fn shells_get_completions() {
    let ran = run(Path::new("/nowhere"), "completions bash");
    assert!(ran.text.contains("_volvox()"), "{}", ran.text);
}
