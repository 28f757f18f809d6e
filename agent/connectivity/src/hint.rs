//! Which command says more about a probe that failed.

use crate::{
    judge::{Check, Want},
    probe::Protocol,
    world::World,
};

/// The command, as it is typed.
pub(crate) fn hint(world: &World, check: &Check) -> String {
    let from = world.pod(&check.from);
    let to = check.target.address().map(|it| it.ip());
    let to = world.pods.values().find(|it| to.is_some_and(|at| it.addresses.contains(&at)));
    // A pod in the network of its node is no endpoint.
    let is_endpoint = |path: &str| {
        !path.rsplit('/').next().unwrap_or_default().starts_with("host-a")
            && !path.ends_with("/host-b")
    };
    let asked = to.filter(|it| is_endpoint(&it.path));
    let at = asked.map_or(&from.node, |it| &it.node);
    let Some((_, agent)) = world.agents.iter().find(|(node, _)| node == at) else {
        return format!(
            "no agent of Volvox runs on node {at}: kubectl get pods -A -o wide -l k8s-app=volvox"
        );
    };
    let (namespace, name) = agent.split_once('/').unwrap_or(("kube-system", agent));
    let volvox = format!("kubectl -n {namespace} exec {name} -c agent -- volvox");
    let protocol = match (check.target.protocol, check.target.host.contains(':')) {
        (Protocol::Udp, _) => " --protocol udp",
        (Protocol::Icmp, true) => " --protocol icmpv6",
        (Protocol::Icmp, false) => " --protocol icmp",
        _ => "",
    };
    let port = match check.target.protocol {
        Protocol::Icmp if check.target.host.contains(':') => 128,
        Protocol::Icmp => 8,
        _ => check.target.port,
    };
    match (asked, &check.want) {
        (_, Want::Addresses(_)) => format!("{volvox} service list, and the log of the DNS server"),
        (Some(_), Want::Denied) => format!("{volvox} policy status"),
        (Some(pod), _) => {
            let of = from
                .addresses
                .iter()
                .find(|it| pod.addresses.iter().any(|at| at.is_ipv4() == it.is_ipv4()));
            let of = of.map_or("ADDRESS".to_owned(), ToString::to_string);
            format!(
                "{volvox} why pod-name:{} --dropped --from {of} --port {port}{protocol}",
                pod.path
            )
        }
        (None, _) if check.to.starts_with("service") => {
            format!("{volvox} service list, and {volvox} monitor -t drop")
        }
        (None, _) => format!("{volvox} monitor -t drop"),
    }
}
