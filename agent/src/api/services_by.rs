//! Who serves what a kube-proxy would: whether somebody else does as well, or nobody.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use volvox_actors::services::service_cache::ServicesStatus;

use super::{Facts, troubles::Trouble};
use crate::kube_proxy::KubeProxy;

/// For how long what was seen is said again.
const LASTS: Duration = Duration::from_secs(5);

/// What was seen last of a kube-proxy, and when.
#[derive(Clone, Debug, Default)]
pub struct KubeProxyLook(Arc<Mutex<Option<(Instant, KubeProxy)>>>);

impl KubeProxyLook {
    /// Whether there is one. The kernel is asked on a thread that may wait.
    pub(super) async fn look(&self, procfs: PathBuf) -> KubeProxy {
        if let Some((at, seen)) = &*self.last()
            && at.elapsed() < LASTS
        {
            return seen.clone();
        }
        let look = move || KubeProxy::look(&procfs);
        let seen = tokio::task::spawn_blocking(look).await.unwrap_or(KubeProxy::Unknown);
        *self.last() = Some((Instant::now(), seen.clone()));
        seen
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<(Instant, KubeProxy)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wrong: two serve, or nobody. Without a cluster nobody expects a kube-proxy.
pub(super) fn trouble(
    facts: &Facts,
    services: &ServicesStatus,
    seen: &KubeProxy,
) -> Option<Trouble> {
    let text = match seen {
        KubeProxy::Rules(rules) if facts.features.kube_proxy_replacement => format!(
            "a kube-proxy serves here, too ({rules}): clients outside and pods are served by the agent, \
             and what the node's own sockets do not connect themselves by kube-proxy; remove kube-proxy, \
             then its rules (kube-proxy --cleanup), and restart the agent, or start the agent with \
             --kube-proxy-replacement=false"
        ),
        KubeProxy::Absent if !facts.features.kube_proxy_replacement => {
            let is_known = services.awaited.iter().all(|it| it.is_apart());
            if !facts.follows_cluster || !is_known || services.frontends == 0 {
                return None;
            }
            "--kube-proxy-replacement is false, and this node has no rules of a kube-proxy: nobody serves \
             node ports, external addresses and host ports, nor the node itself; start kube-proxy, or the \
             agent with --kube-proxy-replacement=true"
                .to_owned()
        }
        _ => return None,
    };
    Some(Trouble::new("kube-proxy", 1, text))
}

#[cfg(test)]
mod tests {
    use volvox_actors::services::service_cache::ServiceSource;

    use super::*;

    fn facts(replaces: bool) -> Facts {
        let mut facts = crate::api::tests::node_supervisor::facts();
        facts.features.kube_proxy_replacement = replaces;
        facts.follows_cluster = true;
        facts
    }

    #[test]
    fn two_who_serve_are_named_and_nobody_is_once_services_are_known() {
        let mut services = ServicesStatus { frontends: 1, ..ServicesStatus::default() };
        let rules = KubeProxy::Rules("chain KUBE-SERVICES".to_owned());
        let said = |facts: &Facts, services: &ServicesStatus, seen: &KubeProxy| {
            trouble(facts, services, seen).map(|trouble| trouble.text).unwrap_or_default()
        };
        assert!(said(&facts(true), &services, &rules).contains("chain KUBE-SERVICES"));
        assert_eq!(said(&facts(true), &services, &KubeProxy::Absent), "");
        assert_eq!(said(&facts(false), &services, &rules), "");
        assert_eq!(said(&facts(false), &services, &KubeProxy::Unknown), "");
        assert!(said(&facts(false), &services, &KubeProxy::Absent).contains("nobody serves"));
        services.awaited.insert(ServiceSource::Cluster);
        assert_eq!(said(&facts(false), &services, &KubeProxy::Absent), "");
        let alone = Facts { follows_cluster: false, ..facts(false) };
        services.awaited.clear();
        assert_eq!(said(&alone, &services, &KubeProxy::Absent), "");
    }
}
