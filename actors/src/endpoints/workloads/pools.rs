//! Of which pools a pod's addresses are: what annotations of it and of its namespace say, and what pools
//! select it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    model::{ApiObject, Families, Label, Labels},
    policy::rules::{Selector, namespace_selector, pod_selector},
    ports::ObjectKey,
};

const PREFIX: &str = "ipam.cilium.io/";
/// By which a pool says that its pods are not masqueraded.
const SKIP_MASQUERADE: &str = "ipam.cilium.io/skip-masquerade";
/// Labels that every pod has for selectors of pools.
const SYNTHETIC: [&str; 2] = ["io.kubernetes.pod.namespace", "io.kubernetes.pod.name"];

/// Of which pool a pod's addresses are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodPoolNames {
    /// That of IPv4; `None` is the default one.
    pub ipv4: Option<String>,
    /// That of IPv6.
    pub ipv6: Option<String>,
    /// Of which families its packets leave the cluster with its own address, as those pools say.
    pub unmasqueraded: Families,
}

impl PodPoolNames {
    /// The same of both families.
    pub fn both(pool: Option<String>) -> Self {
        Self { ipv4: pool.clone(), ipv6: pool, unmasqueraded: Families::default() }
    }
}

/// What annotations say of pools.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PoolAnnotations {
    names: PodPoolNames,
    /// The default pool is not taken for want of another one.
    requires_match: bool,
}

impl PoolAnnotations {
    pub(super) fn of(annotations: Option<&BTreeMap<String, String>>) -> Self {
        let Some(all) = annotations else { return Self::default() };
        let text = |name: &str| {
            let text = all.get(&format!("{PREFIX}{name}"));
            text.filter(|text| !text.is_empty()).cloned()
        };
        let both = text("ip-pool");
        Self {
            names: PodPoolNames {
                ipv4: text("ipv4-pool").or_else(|| both.clone()),
                ipv6: text("ipv6-pool").or(both),
                unmasqueraded: Families::default(),
            },
            requires_match: text("require-pool-match").as_deref() == Some("true"),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Which pods a pool selects.
#[derive(Clone, Debug, Default, PartialEq)]
struct SelectingPool {
    pods: Option<Selector>,
    namespaces: Option<Selector>,
    /// Whether it has addresses of each family.
    ipv4: bool,
    ipv6: bool,
}

impl SelectingPool {
    fn read(name: &str, pool: &Value) -> Option<Self> {
        let spec = &pool["spec"];
        let read = |field: &str, read: fn(&Value) -> Result<Selector, String>| {
            let said = spec.get(field).filter(|said| !said.is_null())?;
            Some(read(said).inspect_err(|error| {
                tracing::warn!(pool = name, field, error, "CiliumPodIPPool selects nothing");
            }))
        };
        let pods = read("podSelector", pod_selector).transpose().ok()?;
        let namespaces = read("namespaceSelector", namespace_selector).transpose().ok()?;
        (pods.is_some() || namespaces.is_some()).then(|| Self {
            pods,
            namespaces,
            ipv4: spec["ipv4"].is_object(),
            ipv6: spec["ipv6"].is_object(),
        })
    }

    fn selects(&self, labels: &Labels) -> bool {
        [&self.pods, &self.namespaces].into_iter().flatten().all(|it| it.matches(labels))
    }
}

/// What pools say of pods: which they select, and whether these are masqueraded.
#[derive(Debug, Default)]
pub(super) struct KnownPools {
    selecting: BTreeMap<String, SelectingPool>,
    /// Whose pods are not.
    unmasqueraded: BTreeSet<String>,
    /// Whether all are known.
    pub(super) known: bool,
}

impl KnownPools {
    /// These are so now, or are gone.
    pub(super) fn take(&mut self, objects: Vec<(ObjectKey, Option<ApiObject>)>) {
        self.known = true;
        for (ObjectKey { name, .. }, pool) in objects {
            let pool = pool.map(ApiObject::into_json).unwrap_or_default();
            match pool["metadata"]["annotations"][SKIP_MASQUERADE].as_str() {
                Some("true") => drop(self.unmasqueraded.insert(name.clone())),
                _ => drop(self.unmasqueraded.remove(&name)),
            }
            match SelectingPool::read(&name, &pool) {
                Some(pool) => drop(self.selecting.insert(name, pool)),
                None => drop(self.selecting.remove(&name)),
            }
        }
    }

    /// The same pools, with what they say of masquerading. `default` is the pool of who has none.
    pub(super) fn with_masquerading(&self, mut names: PodPoolNames, default: &str) -> PodPoolNames {
        let is_of =
            |name: &Option<String>| self.unmasqueraded.contains(name.as_deref().unwrap_or(default));
        names.unmasqueraded = Families { ipv4: is_of(&names.ipv4), ipv6: is_of(&names.ipv6) };
        names
    }

    /// The pools of a pod that has these labels, of these families. What it says itself goes before what its namespace
    /// says, and that before pools that select it.
    pub(super) fn choose(
        &self,
        pod: &(String, String),
        mut labels: Labels,
        own: &PoolAnnotations,
        of_namespace: &PoolAnnotations,
        families: Families,
    ) -> Result<PodPoolNames, String> {
        for (key, value) in SYNTHETIC.iter().zip([&pod.0, &pod.1]) {
            labels.insert(Label::new("k8s", *key, value));
        }
        let is_required = own.requires_match || of_namespace.requires_match;
        let one = |ipv4: bool| {
            let name = |it: &PoolAnnotations| match ipv4 {
                true => it.names.ipv4.clone(),
                false => it.names.ipv6.clone(),
            };
            if let Some(name) = name(own).or_else(|| name(of_namespace)) {
                return Ok(Some(name));
            }
            let has_family = |it: &SelectingPool| if ipv4 { it.ipv4 } else { it.ipv6 };
            let selecting = self.selecting.iter().filter(|(_, it)| has_family(it));
            let found: Vec<&str> = selecting
                .filter(|(_, it)| it.selects(&labels))
                .map(|(name, _)| name.as_str())
                .collect();
            match *found {
                [] if is_required => Err(format!(
                    "no CiliumPodIPPool selects pod {}/{}, and {PREFIX}require-pool-match is set on it or \
                     its namespace: name a pool by {PREFIX}ip-pool, or have one select it",
                    pod.0, pod.1
                )),
                [] => Ok(None),
                [one] => Ok(Some(one.to_owned())),
                _ => Err(format!(
                    "CiliumPodIPPools {} all select pod {}/{}: have one of them select it, or name one by \
                     {PREFIX}ip-pool",
                    found.join(", "),
                    pod.0,
                    pod.1
                )),
            }
        };
        Ok(PodPoolNames {
            ipv4: families.ipv4.then(|| one(true)).transpose()?.flatten(),
            ipv6: families.ipv6.then(|| one(false)).transpose()?.flatten(),
            unmasqueraded: Families::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pools(all: &[(&str, Value)]) -> KnownPools {
        let mut pools = KnownPools::default();
        let object = |(name, spec): &(&str, Value)| {
            let key = ObjectKey { namespace: String::new(), name: (*name).to_owned() };
            let metadata = json!({ "annotations": spec["annotations"] });
            (key, Some(json!({ "metadata": metadata, "spec": spec }).into()))
        };
        pools.take(all.iter().map(object).collect());
        pools
    }

    fn annotated(all: &Value) -> PoolAnnotations {
        PoolAnnotations::of(serde_json::from_value(all.clone()).ok().as_ref())
    }

    fn chosen(
        pools: &KnownPools,
        own: &Value,
        of_namespace: &Value,
    ) -> Result<(Option<String>, Option<String>), String> {
        let pod = ("shop".to_owned(), "web".to_owned());
        let label = |key, value| Label::new("k8s", key, value);
        let tier = "io.cilium.k8s.namespace.labels.tier";
        let labels = Labels::from_iter([label("app", "web"), label(tier, "gold")]);
        let (own, of_namespace) = (annotated(own), annotated(of_namespace));
        let chosen = pools.choose(&pod, labels, &own, &of_namespace, Families::DUAL);
        chosen.map(|names| (names.ipv4, names.ipv6))
    }

    fn both(pool: &str) -> Result<(Option<String>, Option<String>), String> {
        Ok((Some(pool.to_owned()), Some(pool.to_owned())))
    }

    #[test]
    fn the_pod_goes_before_its_namespace_and_a_family_before_both() {
        let none = pools(&[]);
        let blue = json!({ "ipam.cilium.io/ip-pool": "blue" });
        let red = json!({ "ipam.cilium.io/ip-pool": "red", "ipam.cilium.io/ipv6-pool": "green" });
        assert_eq!(chosen(&none, &blue, &red), both("blue"));
        assert_eq!(chosen(&none, &json!({}), &blue), both("blue"));
        let of_red = (Some("red".to_owned()), Some("green".to_owned()));
        assert_eq!(chosen(&none, &red, &blue), Ok(of_red));
        assert_eq!(chosen(&none, &json!({}), &json!({})), Ok((None, None)));
    }

    #[test]
    fn pools_select_pods_that_say_nothing_themselves() {
        let family = json!({ "cidrs": ["10.0.0.0/16"], "maskSize": 24 });
        let of = |spec: Value| {
            let mut spec = spec;
            spec["ipv4"] = family.clone();
            spec["ipv6"] = family.clone();
            spec
        };
        let web = of(json!({ "podSelector": { "matchLabels": { "app": "web" } } }));
        let gold = of(json!({ "namespaceSelector": { "matchLabels": { "tier": "gold" } } }));
        let named =
            of(json!({ "podSelector": { "matchLabels": { "io.kubernetes.pod.name": "db" } } }));
        let (nothing, blue) = (json!({}), json!({ "ipam.cilium.io/ip-pool": "blue" }));
        let one = pools(&[("web", web.clone()), ("db", named.clone()), ("all", of(json!({})))]);
        assert_eq!(chosen(&one, &nothing, &nothing), both("web"));
        assert_eq!(chosen(&one, &nothing, &blue), both("blue"));
        let two = pools(&[("web", web), ("gold", gold)]);
        let error = chosen(&two, &nothing, &nothing).unwrap_err();
        assert!(error.contains("gold, web all select pod shop/web"), "{error}");
        let strict = json!({ "ipam.cilium.io/require-pool-match": "true" });
        let error = chosen(&pools(&[("db", named)]), &nothing, &strict).unwrap_err();
        assert!(error.contains("require-pool-match"), "{error}");
    }

    #[test]
    fn a_selector_that_cannot_be_read_selects_nobody() {
        let bad = json!({ "podSelector": { "matchLabels": 7 }, "ipv4": {}, "ipv6": {} });
        assert_eq!(chosen(&pools(&[("bad", bad)]), &json!({}), &json!({})), Ok((None, None)));
    }

    #[test]
    fn the_pool_of_each_family_says_whether_it_is_masqueraded() {
        let plain = json!({});
        let own = json!({ "annotations": { SKIP_MASQUERADE: "true" } });
        let no = json!({ "annotations": { SKIP_MASQUERADE: "yes" } });
        let mut known = pools(&[("default", plain), ("own", own), ("no", no)]);
        let of = |known: &KnownPools, ipv4: Option<&str>, ipv6: Option<&str>, default| {
            let [ipv4, ipv6] = [ipv4, ipv6].map(|it| it.map(str::to_owned));
            let names = PodPoolNames { ipv4, ipv6, ..PodPoolNames::default() };
            let Families { ipv4, ipv6 } = known.with_masquerading(names, default).unmasqueraded;
            (ipv4, ipv6)
        };
        assert_eq!(of(&known, Some("own"), Some("own"), "default"), (true, true));
        assert_eq!(of(&known, Some("own"), None, "default"), (true, false));
        assert_eq!(of(&known, None, Some("no"), "own"), (true, false));
        assert_eq!(of(&known, None, None, "default"), (false, false));
        // It says so no more, and then it is gone.
        let key = ObjectKey { namespace: String::new(), name: "own".to_owned() };
        known.take(vec![(key.clone(), Some(json!({ "spec": {} }).into()))]);
        assert_eq!(of(&known, Some("own"), None, "default"), (false, false));
        known.take(vec![(key, None)]);
        assert_eq!(of(&known, Some("own"), None, "own"), (false, false));
    }
}
