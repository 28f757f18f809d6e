//! The kinds of objects that an installation has, and where the API server keeps them.

use serde_json::Value;

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Its name.
    pub(crate) name: &'static str,
    /// The path of its group and version.
    group: &'static str,
    /// Its name in paths.
    plural: &'static str,
    /// Whether its objects are in namespaces.
    namespaced: bool,
}

const fn kind(
    name: &'static str,
    group: &'static str,
    plural: &'static str,
    namespaced: bool,
) -> Kind {
    Kind { name, group, plural, namespaced }
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Definitions of kinds.
pub(crate) const DEFINITION: Kind = kind(
    "CustomResourceDefinition",
    "/apis/apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    false,
);
/// What runs a pod on each node.
pub(crate) const DAEMON_SET: Kind = kind("DaemonSet", "/apis/apps/v1", "daemonsets", true);
/// Settings.
pub(crate) const CONFIG_MAP: Kind = kind("ConfigMap", "/api/v1", "configmaps", true);

/// All of them, in the order in which they are removed; definitions are last.
pub(crate) const KINDS: [Kind; 9] = [
    DAEMON_SET,
    kind("Deployment", "/apis/apps/v1", "deployments", true),
    kind("RoleBinding", RBAC, "rolebindings", true),
    kind("Role", RBAC, "roles", true),
    kind("ClusterRoleBinding", RBAC, "clusterrolebindings", false),
    kind("ClusterRole", RBAC, "clusterroles", false),
    kind("ServiceAccount", "/api/v1", "serviceaccounts", true),
    CONFIG_MAP,
    DEFINITION,
];

impl Kind {
    /// Where all its objects are listed.
    pub(crate) fn everywhere(self) -> String {
        format!("{}/{}", self.group, self.plural)
    }

    /// Where one of its objects is.
    pub(crate) fn path(self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{}/namespaces/{namespace}/{}/{name}", self.group, self.plural)
        } else {
            format!("{}/{}/{name}", self.group, self.plural)
        }
    }
}

/// Where an object is; `None` if it is of a kind that no installation has.
pub(crate) fn path(object: &Value) -> Option<String> {
    let kind = KINDS.iter().find(|it| object["kind"] == it.name)?;
    let text = |member: &str| object["metadata"][member].as_str();
    Some(kind.path(text("namespace").unwrap_or_default(), text("name")?))
}

/// An object in words: its kind and its name.
pub(crate) fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let name = match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", text(&metadata["name"])),
        None => text(&metadata["name"]),
    };
    format!("{} {name}", text(&object["kind"]))
}
