//! An API server that asks who may do what, and the service account and the role that are packaged
//! with the agent.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, ApiClient, ApiServer, NODE_NAME, Node, objects::CILIUM_POLICIES};

use crate::{Cluster, objects};

/// What is packaged.
const MANIFEST: &str = include_str!("../../../agent/packaging/daemonset.yaml");
pub(crate) const ACCOUNTS: &str = "/api/v1/namespaces/kube-system/serviceaccounts";
pub(crate) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/volvox";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const IDENTITIES: &str = "/apis/cilium.io/v2/ciliumidentities";

/// The object of that kind that is packaged.
fn packaged(kind: &str) -> Result<Value> {
    let all = volvox_inspect::manifests::objects(MANIFEST).map_err(anyhow::Error::msg)?;
    all.into_iter().find(|it| it["kind"] == kind).with_context(|| format!("there is no {kind}"))
}

/// Makes a service account with the roles of that manifest, and gives its token to whoever asks with the
/// server's kubeconfig.
pub(crate) fn account(server: &ApiServer, manifest: &str) -> Result<()> {
    let client = server.client();
    lab::wait_for("the server has its namespaces", || {
        Ok(client.get("/api/v1/namespaces/kube-system").is_ok())
    })?;
    let all = volvox_inspect::manifests::objects(manifest).map_err(anyhow::Error::msg)?;
    let mut named = None;
    for object in &all {
        let namespaced = format!("{RBAC}/namespaces/kube-system");
        let place = match object["kind"].as_str() {
            Some("ServiceAccount") => {
                named = object["metadata"]["name"].as_str();
                ACCOUNTS.to_owned()
            }
            Some("ClusterRole") => format!("{RBAC}/clusterroles"),
            Some("ClusterRoleBinding") => format!("{RBAC}/clusterrolebindings"),
            Some("Role") => format!("{namespaced}/roles"),
            Some("RoleBinding") => format!("{namespaced}/rolebindings"),
            _ => continue,
        };
        client.create(&place, object)?;
    }
    token(server, named.context("no account is packaged")?)
}

/// The packaged role's rules without those resources.
fn rules_without(resources: &[&str]) -> Result<Value> {
    let mut rules = packaged("ClusterRole")?["rules"].take();
    let all = rules.as_array_mut().context("no rules")?;
    for rule in all.iter_mut() {
        let named = rule["resources"].as_array_mut().context("a rule without resources")?;
        named.retain(|it| !resources.iter().any(|other| it == other));
    }
    all.retain(|rule| rule["resources"].as_array().is_some_and(|named| !named.is_empty()));
    Ok(rules)
}

/// The account, bound to the role without those resources, and a token of it for the agent.
pub(crate) fn admit(server: &ApiServer, without: &[&str]) -> Result<()> {
    let client = server.client();
    let mut role = packaged("ClusterRole")?;
    role["rules"] = rules_without(without)?;
    client.create(&format!("{RBAC}/clusterroles"), &role)?;
    client.create(&format!("{RBAC}/clusterrolebindings"), &packaged("ClusterRoleBinding")?)?;
    // The server makes its own namespaces while it begins to serve.
    lab::wait_for("the server has its namespaces", || {
        Ok(client.get("/api/v1/namespaces/kube-system").is_ok())
    })?;
    let_in(server)
}

/// Makes the account, and gives the agent a token of it.
fn let_in(server: &ApiServer) -> Result<()> {
    server.client().create(ACCOUNTS, &packaged("ServiceAccount")?)?;
    token(server, "volvox")
}

/// Gives that account's token to whoever asks with the server's kubeconfig.
fn token(server: &ApiServer, account: &str) -> Result<()> {
    server.let_in(&token_of(server, account)?)
}

/// A token of that account.
pub(crate) fn token_of(server: &ApiServer, account: &str) -> Result<String> {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {},
    });
    let made = server.client().ask(&format!("{ACCOUNTS}/{account}/token"), &request)?;
    Ok(made["status"]["token"].as_str().context("there is no token")?.to_owned())
}

/// The role is without those resources from now on, and the server goes by it.
fn change(client: &ApiClient, without: &[&str]) -> Result<()> {
    client.patch(ROLE, &json!({ "rules": rules_without(without)? }))?;
    for resource in without {
        let role = packaged("ClusterRole")?;
        let rules = role["rules"].as_array().context("no rules")?;
        let names = |rule: &&Value| {
            rule["resources"].as_array().is_some_and(|all| all.iter().any(|it| it == resource))
        };
        let rule = rules.iter().find(names).with_context(|| format!("no right to {resource}"))?;
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": "system:serviceaccount:kube-system:volvox",
                "resourceAttributes": {
                    "verb": "list", "group": rule["apiGroups"][0], "resource": resource,
                },
            },
        });
        lab::wait_for("the server refuses what the role lacks", || {
            let review = client.ask(REVIEWS, &review)?;
            Ok(review["status"]["allowed"] == false)
        })?;
    }
    Ok(())
}

/// What is wrong, as `volvox status` tells it.
fn troubles(node: &Node) -> Result<String> {
    let health: Value = node.rest().get("/healthz")?;
    Ok(health["controllers"].to_string())
}

/// Waits until all these words are among the troubles, or none of them.
fn wait_for_troubles(node: &mut Node, words: &[&str], there: bool) -> Result<()> {
    let complaint = format!("among the troubles, {words:?} should be there: {there}");
    node.wait(&complaint, |node| {
        let Ok(said) = troubles(node) else { return Ok(false) };
        Ok(words.iter().all(|word| said.contains(word) == there))
    })
    .map(drop)
    .with_context(|| troubles(node).unwrap_or_default())
}

/// What a role lacks is named, with what to add; others go on, and so does this once it is added.
#[test]
fn what_a_role_lacks_is_named_and_costs_no_more() {
    lab::test("rights::what_a_role_lacks_is_named_and_costs_no_more", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let mut cluster = Cluster::start_by(ApiServer::start_strict, program, |server, _| {
            admit(server, &["services", "ingresses"])
        })?;
        // Policies are enforced, and the agent is ready.
        cluster.friend_and_stranger_reach([true, false])?;
        for name in ["services", "ingresses"] {
            let named = format!("{name} are not followed");
            let lacks = format!("cannot list resource \\\"{name}\\\" in API group");
            let words = [&*named, &*lacks, "in its ClusterRole"];
            wait_for_troubles(&mut cluster.node, &words, true)?;
        }
        objects::change_policy(cluster.server.client(), &["stranger"])?;
        cluster.friend_and_stranger_reach([false, true])?;
        cluster.restart()?;
        cluster.friend_and_stranger_reach([false, true])?;
        change(cluster.server.client(), &[])?;
        wait_for_troubles(&mut cluster.node, &["are not followed"], false)?;

        // Without one that policies wait for, those of the run before stay; it must not hear of
        // the next one by a watch that it has from better days.
        cluster.node.kill_agent()?;
        change(cluster.server.client(), &["networkpolicies"])?;
        objects::change_policy(cluster.server.client(), &["friend"])?;
        cluster.start_again()?;
        let Cluster { node, .. } = &mut cluster;
        wait_for_troubles(node, &["networkpolicies are not followed", "ClusterRole"], true)?;
        let why = cluster.why()?;
        for words in ["keeps the policy of the life before", "networkpolicies", "ClusterRole"] {
            ensure!(why.contains(words), "{words} not in {why}");
        }
        cluster.friend_and_stranger_reach([false, true])?;
        change(cluster.server.client(), &[])?;
        cluster.friend_and_stranger_reach([true, false])?;
        wait_for_troubles(&mut cluster.node, &["are not followed"], false)?;
        ensure!(cluster.why()?.is_empty(), "{}", cluster.why()?);

        // The account goes, and its token with it; it comes again with another token.
        cluster.server.client().delete(&format!("{ACCOUNTS}/volvox"))?;
        cluster.restart()?;
        let words = ["networkpolicies are not followed", "does not know who asks", "token"];
        wait_for_troubles(&mut cluster.node, &words, true)?;
        cluster.friend_and_stranger_reach([true, false])?;
        objects::change_policy(cluster.server.client(), &["stranger"])?;
        let_in(&cluster.server)?;
        cluster.friend_and_stranger_reach([false, true])?;
        wait_for_troubles(&mut cluster.node, &["are not followed", "who asks"], false)
    });
}

/// Requests of agents as verb and resource, `create ciliumnodes`.
fn asked(server: &ApiServer) -> Result<Vec<String>> {
    let all = server.asked_by_agents()?.into_iter();
    let resource = |uri: &str| {
        let path = uri.split('?').next().unwrap_or_default();
        let words: Vec<_> = path.split('/').collect();
        // Behind the version, and behind the namespace if there is one.
        let behind = words.iter().position(|word| word.starts_with('v') && word.len() <= 8);
        let mut words = words[behind.map_or(0, |at| at + 1)..].to_vec();
        if words.first() == Some(&"namespaces") && words.len() > 2 {
            words.drain(..2);
        }
        let part = words.get(2).map(|part| format!("/{part}")).unwrap_or_default();
        format!("{}{part}", words.first().unwrap_or(&""))
    };
    Ok(all.map(|it| format!("{} {}", it.verb, resource(&it.uri))).collect())
}

/// With the whole role nothing that an agent asks is refused, whatever it has to do.
#[test]
fn the_packaged_role_is_enough() {
    lab::test("rights::the_packaged_role_is_enough", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let cluster = Cluster::start_by(ApiServer::start_strict, program, |server, node| {
            let client = server.client();
            objects::node(client, NODE_NAME)?;
            let cluster_wide = ["CiliumClusterwideNetworkPolicy", "CiliumCIDRGroup", "CiliumNode"];
            for kind in cluster_wide.into_iter().chain(["CiliumIdentity"]) {
                objects::define(client, &plural(kind), kind, "Cluster")?;
            }
            for kind in ["CiliumNetworkPolicy", "CiliumEndpoint"] {
                objects::define(client, &plural(kind), kind, "Namespaced")?;
            }
            objects::define_ranked(client)?;
            lab::wait_for("Cilium's kinds are served", || {
                Ok([IDENTITIES, CILIUM_POLICIES, objects::RANKED_POLICIES]
                    .iter()
                    .all(|path| client.get(path).is_ok()))
            })?;
            node.set_flag("identity-allocation-mode", Some("crd"));
            node.set_flag("annotate-k8s-node", Some("true"));
            node.set_flag("register-crds", Some("true"));
            admit(server, &[])
        })?;
        let Cluster { mut node, server, stranger, web, .. } = cluster;
        let client = server.client();
        node.wait_for_ready(3)?;
        let endpoint = format!("/endpoint/pod-name:shop%2F{}", web.name);
        let own: Value = node.rest().get(&endpoint)?;
        // Cilium's operator marks an identity that it is about to remove.
        let identity = format!("{IDENTITIES}/{}", own["status"]["identity"]["id"]);
        let mark = json!({ "metadata": { "annotations": { "io.cilium.heartbeat": "x" } } });
        client.patch(&identity, &mark)?;
        let spoilt = json!({ "spec": { "addresses": null } });
        let cilium_node = format!("/apis/cilium.io/v2/ciliumnodes/{NODE_NAME}");
        node.wait("there is no CiliumNode", |_| Ok(client.get(&cilium_node).is_ok()))?;
        client.patch(&cilium_node, &spoilt)?;
        let endpoints = "/apis/cilium.io/v2/namespaces/shop/ciliumendpoints";
        node.wait("there is no CiliumEndpoint", |_| {
            Ok(client.get(&format!("{endpoints}/web")).is_ok()
                && client.get(&format!("{endpoints}/stranger")).is_ok())
        })?;
        client.patch(&format!("{endpoints}/web"), &json!({ "status": { "id": 9 } }))?;
        stranger.delete(&node)?;
        let expected = [
            "get customresourcedefinitions",
            "create customresourcedefinitions",
            "patch customresourcedefinitions",
            "create ciliumidentities",
            "patch ciliumidentities",
            "create ciliumnodes",
            "patch ciliumnodes",
            "create ciliumendpoints",
            "patch ciliumendpoints",
            "delete ciliumendpoints",
            "patch nodes",
            "patch nodes/status",
            "list ingresses",
            "watch ingresses",
            "watch services",
            "watch endpointslices",
            "watch networkpolicies",
            "watch ciliumcidrgroups",
            "watch clusternetworkpolicies",
            "watch nodes",
            "watch pods",
            "watch namespaces",
        ];
        let mut all = Vec::new();
        let done = node.wait("the agent did not do all that it may", |_| {
            all = asked(&server)?;
            Ok(expected.iter().all(|one| all.iter().any(|it| it == one)))
        });
        all.sort_unstable();
        all.dedup();
        done.with_context(|| format!("it asked for {all:?}"))?;
        let refused: Vec<_> = server.asked_by_agents()?;
        let refused: Vec<_> = refused.iter().filter(|asked| asked.is_refused()).collect();
        ensure!(refused.is_empty(), "{refused:?}");
        ensure!(!troubles(&node)?.contains("ClusterRole"), "{}", troubles(&node)?);
        Ok(())
    });
}

/// How a kind's objects are called in paths.
fn plural(kind: &str) -> String {
    let name = kind.to_lowercase();
    match name.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{name}s"),
    }
}
