//! What a node hears from its cluster at its first start: the prefixes of its pods, where the cluster
//! gives them. Later starts know them from the state directory, or its copy, and ask nobody.
//!
//! Whoever is to say them is waited for as long as it takes: no pod can start here without. But the
//! agent answers meanwhile, and what pods there are come back. Once they are known the agent begins
//! anew, which costs as little as any restart of it.

use std::{env, os::unix::process::CommandExt, process::Command, sync::OnceLock, time::Duration};

use anyhow::{Context, anyhow};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use volvox_actors::{
    cluster::{
        own_prefixes::requested_json,
        publish::{PublishSettings, new_cilium_node},
        resources::further,
    },
    endpoints::ipam::{AddressFamily, Pools},
    host::Clock,
    model::{Addresses, ApiObject, Feed},
    node::local_node::{IpamMode, PodCidrs},
    ports::{ClusterError, Verb},
};
use volvox_cluster::Connection;
use volvox_inspect::flight::boot_id;
use volvox_system::SystemClock;

use crate::config::{Config, Range};

/// The first pause between two looks; the next ones are twice as long each.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long the cluster may take to answer at first. What hangs is asked anew, over another connection,
/// while the pod that waits for it still waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest: a server that is slow answers at last.
const PATIENCE_MAX: Duration = Duration::from_secs(16);
/// Marks a CiliumNode that was looked at for prefixes of pools: what an earlier life wrote to it arrives
/// before that, and is seen, or never.
const MARK: &str = "volvox.io/prefixes-of";
/// In which variable of its environment a start finds what the one before heard.
const HEARD: &str = "VOLVOX_HEARD_POD_CIDRS";

/// Which prefixes the cluster is to say, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    mode: IpamMode,
    /// Whether its Node need not say any: nobody told the agent that it does.
    optional: bool,
    /// Whether that of IPv4 is expected.
    pub ipv4: bool,
    /// Whether that of IPv6 is.
    pub ipv6: bool,
}

impl Expected {
    /// What neither flags nor the run before say; `None` if that is all.
    pub fn of(config: &Config, known: Pools) -> anyhow::Result<Option<Self>> {
        let given = config.ipam.map(IpamMode::from);
        let follows = config.api_server().is_some();
        let pools = &config.pod_pools;
        let required = (pools.k8s_require_ipv4_pod_cidr, pools.k8s_require_ipv6_pod_cidr);
        let optional = given.is_none() && !required.0 && !required.1;
        let is_asked = |required| given.is_some() || required || (optional && follows);
        let ipv4 = config.enable_ipv4
            && is_asked(required.0)
            && config.ipv4_range == Range::Auto
            && known.ipv4.is_none();
        let ipv6 = config.enable_ipv6
            && is_asked(required.1)
            && config.ipv6_range == Range::Auto
            && known.ipv6.is_none();
        let mode = given.unwrap_or(IpamMode::Kubernetes);
        if !ipv4 && !ipv6 {
            return Ok(None);
        }
        if !follows {
            return Err(anyhow!(
                "pods' prefixes are to come from a cluster ({mode}), but none is named: say \
                 --k8s-kubeconfig-path, or choose them by --ipv4-range and --ipv6-range"
            ));
        }
        Ok(Some(Self { mode, optional, ipv4, ipv6 }))
    }

    /// What is missing, in words that say what to do.
    fn lacks(self, said: Pools) -> Option<&'static str> {
        if self.optional {
            None
        } else if self.ipv4 && said.ipv4.is_none() {
            Some(
                "no IPv4 prefix yet: have it allocated, or say --ipv4-range or --enable-ipv4=false",
            )
        } else if self.ipv6 && said.ipv6.is_none() {
            Some(
                "no IPv6 prefix yet: have it allocated, or say --ipv6-range or --enable-ipv6=false",
            )
        } else {
            None
        }
    }
}

/// What the start before heard, if this one follows it.
pub fn heard() -> Option<Pools> {
    let text = env::var(HEARD).ok()?;
    // The kernel calls a process by the path that it began anew from; people look for the program's name.
    let _ = rustix::thread::set_name(c"volvox-agent");
    let mut pools = Pools::default();
    for prefix in text.split(',').filter_map(|prefix| prefix.parse().ok()) {
        match prefix {
            IpNet::V4(prefix) => pools.ipv4 = Some(prefix),
            IpNet::V6(prefix) => pools.ipv6 = Some(prefix),
        }
    }
    Some(pools)
}

/// Begins anew with what was heard, as the same process: nobody who watches over it notices. Comes
/// back only if that fails.
pub fn begin_anew(heard: Pools) -> anyhow::Error {
    let Pools { ipv4, ipv6 } = heard;
    let prefixes = ipv4.map(IpNet::from).into_iter().chain(ipv6.map(IpNet::from));
    let text = prefixes.map(|prefix| prefix.to_string()).collect::<Vec<_>>().join(",");
    let mut command = Command::new("/proc/self/exe");
    let mut words = env::args_os();
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    let error = command.args(words).env(HEARD, text).exec();
    anyhow!(error).context("begin anew with the prefixes of pods: start the agent again")
}

/// The prefixes that the cluster gives this node; `copy` is what an earlier run of the node had,
/// which is good enough if nobody can be asked. `tell` hears what is waited for.
pub async fn hear(
    config: &Config,
    (expected, copy): (Expected, Option<Pools>),
    publish: &PublishSettings,
    mut tell: impl FnMut(String),
) -> anyhow::Result<Pools> {
    let access = config.api_server().context("a cluster is named")?;
    let connection = Connection::new(access);
    let (mut pause, mut patience, mut tries) = (PAUSE, PATIENCE, 0_u32);
    let (node, mode) = (&publish.node_name, expected.mode);
    loop {
        let asked = timeout(patience, ask(&connection, expected, config, publish)).await;
        let why = match asked {
            Ok(Ok(PodCidrs { pools, problems })) => match expected.lacks(pools) {
                None => return Ok(pools),
                Some(lacks) => {
                    let problems = problems.iter().map(|problem| format!("; {problem}"));
                    format!("there is {lacks}{}", problems.collect::<String>())
                }
            },
            Ok(Err(error @ ClusterError::NotFound(_))) => error.to_string(),
            Ok(Err(_)) | Err(_) if copy.is_some() => return Ok(copy.unwrap_or_default()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => {
                let error = connection.give_up(patience).await;
                patience = (2 * patience).min(PATIENCE_MAX);
                error.to_string()
            }
        };
        tries += 1;
        if tries.is_power_of_two() {
            tracing::warn!(%node, %mode, why, tries, "waiting for the prefixes of pods");
        }
        tell(format!("the prefixes of pods of {node} are not known ({mode}): {why}"));
        sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

async fn ask(
    connection: &Connection,
    Expected { mode, optional, .. }: Expected,
    config: &Config,
    publish: &PublishSettings,
) -> Result<PodCidrs, ClusterError> {
    let node = match own(connection, Feed::Node, publish).await? {
        None => None,
        Some(ApiObject::Node(node)) => Some(node),
        Some(ApiObject::Malformed(error)) => return Err(ClusterError::Failed(error.to_string())),
        Some(_) => None,
    };
    let node = node.as_deref();
    let missing = || ClusterError::NotFound(format!("Node {}", publish.node_name));
    match mode {
        // Who was told nothing takes what there is.
        IpamMode::Kubernetes if optional => {
            let said = node.map(|node| PodCidrs::of_node(node, config.annotate_k8s_node));
            Ok(said.unwrap_or_default())
        }
        IpamMode::Kubernetes => {
            Ok(PodCidrs::of_node(node.ok_or_else(missing)?, config.annotate_k8s_node))
        }
        IpamMode::ClusterPool => match own(connection, Feed::CiliumNode, publish).await? {
            Some(cilium_node) => Ok(PodCidrs::of_cilium_node(&cilium_node.into_json())),
            None if publish.cilium_node => {
                // Its operator gives prefixes to CiliumNodes that are there.
                let new = new_cilium_node(publish, node.ok_or_else(missing)?);
                connection.write(&new).await?;
                Ok(PodCidrs::default())
            }
            None => Err(ClusterError::NotFound(format!("CiliumNode {}", publish.node_name))),
        },
        IpamMode::MultiPool => {
            let node = node.ok_or_else(missing)?;
            of_pool(connection, config, publish, node).await
        }
    }
}

/// The first prefix of each family of the default pool: the node itself has its address of that, and
/// where it has one already, of the prefix that holds it. What is lacking is asked for.
async fn of_pool(
    connection: &Connection,
    config: &Config,
    publish: &PublishSettings,
    node: &Node,
) -> Result<PodCidrs, ClusterError> {
    let pool = &config.pod_pools.ipam_default_ip_pool;
    let ahead = config.pod_pools.pre_allocation().get(pool).copied().unwrap_or_default();
    // The node itself needs one.
    let needed = u64::from(ahead.max(1));
    let families =
        [(config.enable_ipv4, AddressFamily::Ipv4), (config.enable_ipv6, AddressFamily::Ipv6)];
    let on = families.into_iter().filter(|(on, _)| *on);
    let requests = on.map(|(_, family)| ((pool.clone(), family), needed)).collect();
    let requested = requested_json(&requests);
    let mut write = new_cilium_node(publish, node);
    let Some(cilium_node) = own(connection, Feed::CiliumNode, publish).await? else {
        if !publish.cilium_node {
            return Err(ClusterError::NotFound(format!("CiliumNode {}", publish.node_name)));
        }
        if let Verb::Create(new) = &mut write.verb {
            new["spec"]["ipam"] = json!({ "pools": { "requested": requested } });
        }
        connection.write(&write).await?;
        return Ok(PodCidrs::default());
    };
    let cilium_node = cilium_node.into_json();
    let said = chosen(&cilium_node, pool, publish.router);
    let lacks =
        config.enable_ipv4 && said.ipv4.is_none() || config.enable_ipv6 && said.ipv6.is_none();
    let asks =
        !cilium_node["spec"]["ipam"]["pools"]["requested"].as_array().is_none_or(Vec::is_empty);
    let mark = life();
    let is_marked = cilium_node["metadata"]["annotations"][MARK] == mark.as_str();
    if is_marked && (!lacks || asks) {
        return Ok(PodCidrs { pools: said, problems: Vec::new() });
    }
    let mut patch = json!({ "metadata": { "annotations": { MARK: mark } } });
    if lacks && !asks {
        patch["spec"]["ipam"]["pools"]["requested"] = requested;
    }
    write.verb = Verb::Merge(patch);
    connection.write(&write).await?;
    // What stands there after that is what counts.
    Ok(PodCidrs::default())
}

/// Of each family the prefix that holds the address that the node has, or the first one of the pool.
fn chosen(cilium_node: &Value, pool: &str, router: Addresses) -> Pools {
    let all: Vec<IpNet> = PodCidrs::of_pools(cilium_node)
        .filter(|(name, _)| *name == pool)
        .map(|(_, prefix)| prefix)
        .collect();
    // Of a node that had one prefix, pods may have addresses.
    let single = PodCidrs::of_cilium_node(cilium_node).pools;
    let held = |prefix: &&IpNet| router.iter().any(|address| prefix.contains(&address));
    let of = |is_of: fn(&IpNet) -> bool| {
        let mut own = all.iter().filter(|it| is_of(it));
        own.clone().find(held).or_else(|| own.next()).copied()
    };
    let (ipv4, ipv6) = (of(|it| matches!(it, IpNet::V4(_))), of(|it| matches!(it, IpNet::V6(_))));
    Pools {
        ipv4: single
            .ipv4
            .or(ipv4.and_then(|it| if let IpNet::V4(it) = it { Some(it) } else { None })),
        ipv6: single
            .ipv6
            .or(ipv6.and_then(|it| if let IpNet::V6(it) = it { Some(it) } else { None })),
    }
}

/// Another text in each life of the agent.
pub fn life() -> String {
    static LIFE: OnceLock<String> = OnceLock::new();
    let new = || format!("{}/{:x}", boot_id(), SystemClock.wall());
    LIFE.get_or_init(new).clone()
}

/// This node's own object, if there is one.
async fn own(
    connection: &Connection,
    feed: Feed,
    publish: &PublishSettings,
) -> Result<Option<ApiObject>, ClusterError> {
    let all = further(&publish.node_name).into_iter().filter(|(other, _)| *other == feed);
    let mut own = None;
    for resource in all.flat_map(|(_, forms)| forms) {
        let page = connection.list(&resource, None).await?;
        own = page.objects.into_iter().find(|object| object.key.name == publish.node_name);
    }
    Ok(own.map(|object| object.value))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn expected(flags: &[&str], known: Pools) -> Option<Expected> {
        let all = ["volvox-agent", "--k8s-api-server=http://127.0.0.1:1"];
        let all = all.iter().chain(flags).map(|flag| OsString::from(*flag));
        Expected::of(&crate::config::load(all, |_| None).unwrap().config, known).unwrap()
    }

    #[test]
    fn the_cluster_is_asked_for_what_neither_flags_nor_an_earlier_life_say() {
        let nothing = Pools::default();
        let (mode, optional) = (IpamMode::ClusterPool, false);
        let both = Some(Expected { mode, optional, ipv4: true, ipv6: true });
        assert_eq!(expected(&["--ipam=cluster-pool"], nothing), both);
        let mode = IpamMode::Kubernetes;
        let ipv4 = Some(Expected { mode, optional, ipv4: true, ipv6: false });
        assert_eq!(expected(&["--k8s-require-ipv4-pod-cidr"], nothing), ipv4);
        assert_eq!(expected(&["--ipam=kubernetes", "--enable-ipv6=false"], nothing), ipv4);
        assert_eq!(expected(&["--ipam=kubernetes", "--ipv6-range=fd00::/96"], nothing), ipv4);
        let known = Pools { ipv4: None, ipv6: "fd00::/96".parse().ok() };
        assert_eq!(expected(&["--ipam=kubernetes"], known), ipv4);
        let known = Pools { ipv4: "10.1.0.0/24".parse().ok(), ..known };
        assert_eq!(expected(&["--ipam=kubernetes"], known), None);
        assert_eq!(expected(&[], known), None);
    }

    #[test]
    fn who_was_told_nothing_takes_what_the_node_says() {
        let all = expected(&[], Pools::default()).unwrap();
        assert!(all.optional && all.ipv4 && all.ipv6);
        assert_eq!(all.lacks(Pools::default()), None);
        assert_eq!(
            expected(&["--ipv4-range=10.1.0.0/24", "--enable-ipv6=false"], Pools::default()),
            None
        );
        // Without a cluster there is nobody to ask.
        let alone = crate::config::load([OsString::from("volvox-agent")], |_| None).unwrap().config;
        let alone = Config { enable_k8s: false, ..alone };
        assert_eq!(Expected::of(&alone, Pools::default()).unwrap(), None);
    }

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let (mode, optional) = (IpamMode::Kubernetes, false);
        let expected = Expected { mode, optional, ipv4: true, ipv6: true };
        assert!(expected.lacks(Pools::default()).unwrap().contains("--ipv4-range"));
        let ipv4 = Pools { ipv4: "10.1.0.0/24".parse().ok(), ipv6: None };
        assert!(expected.lacks(ipv4).unwrap().contains("--enable-ipv6=false"));
        assert_eq!(Expected { ipv6: false, ..expected }.lacks(ipv4), None);
    }

    #[test]
    fn without_a_cluster_it_is_said_where_prefixes_can_come_from() {
        let config = Config { ipam: Some(crate::config::Ipam::Kubernetes), ..Config::defaults() };
        let config = Config { enable_k8s: false, ..config };
        let error = Expected::of(&config, Pools::default()).unwrap_err().to_string();
        assert!(
            error.contains("--k8s-kubeconfig-path") && error.contains("--ipv4-range"),
            "{error}"
        );
    }
}
