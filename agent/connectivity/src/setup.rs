//! Makes the pods and services of a run, and waits until they are ready.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use tokio::time::{Instant, sleep};
use volvox_install::trouble;
use volvox_packaging::NAME;

use crate::{
    ConnectivityError, Options, Say,
    api::Api,
    objects::{self, MANAGED_BY, MANAGER, Wanted},
    world::{self, Features, Node, World},
};

/// How often the server is asked.
const PAUSE: Duration = Duration::from_secs(1);
/// How long pods that the test can do without are waited for when all others are ready.
const COURTESY: Duration = Duration::from_secs(15);
/// How long a namespace waits for its account, and a service for an address of a pool.
const SOON: Duration = Duration::from_secs(20);
/// Reasons of a container that waits, which do not go away by waiting.
const HOPELESS: [&str; 6] = [
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "RunContainerError",
];

/// The image that pods run: the one that is named, or the agent's own.
pub(crate) async fn image(api: &Api, options: &Options) -> Result<String, ConnectivityError> {
    if let Some(image) = &options.image {
        return Ok(image.clone());
    }
    let sets =
        api.list(&format!("/apis/apps/v1/daemonsets?labelSelector=k8s-app%3D{NAME}")).await?;
    let containers =
        sets.iter().filter_map(|it| it["spec"]["template"]["spec"]["containers"].as_array());
    let image =
        containers.flatten().find(|it| it["name"] == "agent").and_then(|it| it["image"].as_str());
    image.map(str::to_owned).ok_or_else(|| {
        ConnectivityError::Refused(format!(
            "there is no DaemonSet with the label k8s-app={NAME}, whose image pods of the test run: name an \
             image by --image"
        ))
    })
}

/// What the cluster knows.
pub(crate) async fn features(api: &Api) -> Result<Features, ConnectivityError> {
    let kinds = api.get("/apis/cilium.io/v2").await?.unwrap_or_default();
    let resources = kinds["resources"].as_array();
    let cilium_policies =
        resources.into_iter().flatten().any(|it| it["name"] == "ciliumnetworkpolicies");
    let mut pools = false;
    for version in ["v2", "v2alpha1"] {
        let path = format!("/apis/cilium.io/{version}/ciliumloadbalancerippools");
        pools |= !api.list(&path).await?.is_empty();
    }
    let path = "/api/v1/namespaces/kube-system/services?labelSelector=k8s-app%3Dkube-dns";
    let dns = !api.list(path).await?.is_empty();
    Ok(Features { cilium_policies, pools, dns })
}

/// The nodes that take part.
pub(crate) async fn nodes(api: &Api, options: &Options) -> Result<Vec<Node>, ConnectivityError> {
    let most = if options.single_node { 1 } else { 2 };
    world::choose(&api.list("/api/v1/nodes").await?, &options.nodes, most)
}

/// Agents of Volvox on those nodes: node, and `namespace/name`. Those that go are left out.
pub(crate) async fn agents(
    api: &Api,
    nodes: &[Node],
) -> Result<Vec<(String, String)>, ConnectivityError> {
    let pods = api.list(&format!("/api/v1/pods?labelSelector=k8s-app%3D{NAME}")).await?;
    let there = pods.iter().filter(|it| it["metadata"]["deletionTimestamp"].is_null());
    let all = there.map(world::pod).map(|it| (it.node, it.path));
    Ok(all.filter(|(node, _)| nodes.iter().any(|it| it.name == *node)).collect())
}

/// Makes everything and waits for it.
pub(crate) async fn make(
    api: &Api,
    options: &Options,
    image: &str,
    world: &mut World,
    say: Say<'_>,
) -> Result<(), ConnectivityError> {
    let names: Vec<_> = world.nodes.iter().map(|it| it.name.clone()).collect();
    let wanted = objects::pods(&names);
    let namespaces = [world.namespace.clone(), objects::other(&world.namespace)];
    for namespace in &namespaces {
        account(api, namespace).await?;
    }
    for wanted in &wanted {
        let namespace = &namespaces[usize::from(wanted.other)];
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        match api.create(&path, &objects::pod(wanted, namespace, image)).await {
            Err(ConnectivityError::Server { cause, .. }) if is_optional(wanted.name) => {
                world.absent.insert(wanted.name.to_owned(), cause);
            }
            made => made.map(drop)?,
        }
    }
    ready(api, options, &wanted, &namespaces, image, world, say).await?;
    services(api, world).await?;
    world.agents = agents(api, &world.nodes).await?;
    Ok(())
}

/// Pods need the account of their namespace, which a controller makes.
async fn account(api: &Api, namespace: &str) -> Result<(), ConnectivityError> {
    let until = Instant::now() + SOON;
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    while api.get(&path).await?.is_none() {
        if Instant::now() >= until {
            return Err(ConnectivityError::NotReady(vec![format!(
                "namespace {namespace} gets no service account: see that kube-controller-manager runs"
            )]));
        }
        sleep(PAUSE / 4).await;
    }
    Ok(())
}

/// Whether the test goes on without it.
fn is_optional(name: &str) -> bool {
    name.starts_with("host")
}

/// All pods of a run.
pub(crate) async fn pods(api: &Api, namespace: &str) -> Result<Vec<Value>, ConnectivityError> {
    let mut all = Vec::new();
    for namespace in [namespace.to_owned(), objects::other(namespace)] {
        let label = format!("labelSelector={MANAGED_BY}%3D{MANAGER}");
        all.extend(api.list(&format!("/api/v1/namespaces/{namespace}/pods?{label}")).await?);
    }
    Ok(all)
}

async fn ready(
    api: &Api,
    options: &Options,
    wanted: &[Wanted],
    namespaces: &[String],
    image: &str,
    world: &mut World,
    say: Say<'_>,
) -> Result<(), ConnectivityError> {
    let (began, mut courtesy, mut told) = (Instant::now(), None, None);
    loop {
        let objects = pods(api, &namespaces[0]).await?;
        let troubles = troubles(wanted, &objects, &world.absent);
        let all = wanted.len() - world.absent.len();
        let ready = all - troubles.len();
        if told != Some(ready) {
            say(&format!("{ready} of {all} pods are ready"));
            told = Some(ready);
        }
        let needed: Vec<_> = troubles.iter().filter(|(name, _)| !is_optional(name)).collect();
        if needed.is_empty() {
            let since = *courtesy.get_or_insert_with(Instant::now);
            if troubles.is_empty() || since.elapsed() >= COURTESY {
                world.absent.extend(troubles);
                let mut found = world::pods(&objects);
                found.retain(|name, _| !world.absent.contains_key(name));
                world.pods = found;
                return Ok(());
            }
        }
        let hopeless = needed.iter().any(|(_, why)| HOPELESS.iter().any(|it| why.contains(it)));
        if hopeless || began.elapsed() >= options.timeout {
            let mut lines =
                vec![format!("{} of {all} pods of the test do not get ready:", needed.len())];
            lines.extend(needed.iter().map(|(_, why)| String::clone(why)));
            lines.extend(remedy(&lines, image));
            return Err(ConnectivityError::NotReady(lines));
        }
        sleep(PAUSE).await;
    }
}

/// What is wrong with each pod that is not ready.
fn troubles(
    wanted: &[Wanted],
    objects: &[Value],
    absent: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for wanted in wanted.iter().filter(|it| !absent.contains_key(it.name)) {
        let object = objects.iter().find(|it| it["metadata"]["name"] == wanted.name);
        let why = match object {
            None => Some(format!("pod {} is gone: somebody removed it", wanted.name)),
            Some(object) => trouble(object),
        };
        if let Some(why) = why {
            all.insert(wanted.name.to_owned(), format!("node {}: {why}", wanted.node));
        }
    }
    all
}

fn remedy(lines: &[String], image: &str) -> Option<String> {
    let says = |words: &[&str]| lines.iter().any(|it| words.iter().any(|word| it.contains(word)));
    if says(&["ImagePull", "ErrImageNeverPull", "InvalidImageName"]) {
        return Some(format!(
            "the image is {image}: load it there, or name another by --image; it is pulled without secrets"
        ));
    }
    if says(&["CrashLoopBackOff", "RunContainerError"]) {
        return Some(format!(
            "the image is {image}: its volvox may be older than this one and not know `probe`; \
             --image names another"
        ));
    }
    says(&["waits for its node"])
        .then(|| "--node names other nodes, and --timeout waits longer".to_owned())
}

async fn services(api: &Api, world: &mut World) -> Result<(), ConnectivityError> {
    let path = format!("/api/v1/namespaces/{}/services", world.namespace);
    let has =
        |v4: bool| world.pods.values().any(|it| it.addresses.iter().any(|it| it.is_ipv4() == v4));
    let dual = has(true) && has(false);
    for object in objects::services(world.features.pools, dual) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match api.create(&path, &object).await {
            // What the cluster does not allow is not tried.
            Err(ConnectivityError::Server { cause, code: 403 | 422, .. }) => {
                world.refused.insert(name, cause);
            }
            made => {
                world.services.insert(name, world::service(&made?));
            }
        }
    }
    let balancer = "echo-load-balancer";
    let until = Instant::now() + SOON;
    while world.services.get(balancer).is_some_and(|it| it.balancers.is_empty())
        && Instant::now() < until
    {
        sleep(PAUSE / 2).await;
        let read = api.get(&format!("{path}/{balancer}")).await?.unwrap_or_default();
        world.services.insert(balancer.to_owned(), world::service(&read));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_is_not_ready_is_named_with_the_way_out() {
        let wanted = objects::pods(&["n1".to_owned()]);
        let waits = |reason: &str| {
            json!({
                "metadata": { "name": "client-a" },
                "status": { "phase": "Pending", "containerStatuses": [{
                    "name": "probe", "state": { "waiting": { "reason": reason, "message": "no such image" } },
                }] },
            })
        };
        let absent = BTreeMap::from([("host-a".to_owned(), "refused".to_owned())]);
        let found = troubles(&wanted, &[waits("ImagePullBackOff")], &absent);
        assert!(
            found["client-a"]
                .starts_with("node n1: pod client-a: container probe waits: ImagePullBackOff")
        );
        assert!(found["server-a"].contains("is gone"));
        assert!(!found.contains_key("host-a"));
        for (reason, words) in
            [("ImagePullBackOff", "--image"), ("CrashLoopBackOff", "older than this one")]
        {
            let found = troubles(&wanted[..1], &[waits(reason)], &absent);
            let lines: Vec<_> = found.into_values().collect();
            assert!(remedy(&lines, "volvox-agent:1").unwrap().contains(words), "{lines:?}");
        }
        assert_eq!(remedy(&["node n1: pod client-a is not ready".to_owned()], "x"), None);
    }
}
