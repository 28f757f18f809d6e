//! Which fields of Kubernetes' own objects somebody reads. All others are left out where an object is read.

use super::{parts::Wanted, parts::Wanted::*};

/// The names and labels of an object.
const NAMES: [(&str, Wanted); 4] =
    [("labels", All), ("name", All), ("namespace", All), ("uid", All)];

/// The same, with annotations whose names begin so.
macro_rules! annotated {
    ($($start:expr),+) => {
        Fields(&[
            ("annotations", Named(&[$($start),+])),
            ("labels", All),
            ("name", All),
            ("namespace", All),
            ("uid", All),
        ])
    };
}

/// What an operator reads of any object.
macro_rules! for_operator {
    ($($field:expr),*) => {
        Fields(&[
            ("name", All),
            ("namespace", All),
            ("ownerReferences", All),
            ("resourceVersion", All),
            ("uid", All),
            $($field),*
        ])
    };
}

/// Of conditions most tell the time.
const CONDITIONS: Wanted = Fields(&[("reason", All), ("status", All), ("type", All)]);
/// A port of a service, or of who serves it.
const PORT: Wanted = Fields(&[("name", All), ("nodePort", All), ("port", All), ("protocol", All)]);
const CONTAINER: Wanted = Fields(&[
    ("name", All),
    (
        "ports",
        Fields(&[
            ("containerPort", All),
            ("hostIP", All),
            ("hostPort", All),
            ("name", All),
            ("protocol", All),
        ]),
    ),
    ("restartPolicy", All),
]);

/// A pod. What only those are asked for that want ports of their node is left out afterwards.
pub(super) const POD: Wanted = Fields(&[
    ("metadata", annotated!("ipam.cilium.io/")),
    (
        "spec",
        Fields(&[
            ("containers", CONTAINER),
            ("hostNetwork", All),
            ("initContainers", CONTAINER),
            ("nodeName", All),
            ("serviceAccountName", All),
        ]),
    ),
    ("status", Fields(&[("phase", All), ("podIP", All), ("podIPs", Fields(&[("ip", All)]))])),
]);
/// A pod, for an operator that only looks whether it is there.
pub(super) const OPERATOR_POD: Wanted =
    Fields(&[("metadata", for_operator!()), ("status", Fields(&[("phase", All)]))]);
/// The same of pods that are chosen by their labels.
pub(super) const CHOSEN_POD: Wanted = Fields(&[
    ("metadata", for_operator!(("deletionTimestamp", All), ("labels", All))),
    ("spec", Fields(&[("nodeName", All)])),
    ("status", Fields(&[("conditions", CONDITIONS)])),
]);
pub(super) const NAMESPACE: Wanted = Fields(&[("metadata", annotated!("ipam.cilium.io/"))]);
pub(super) const NODE: Wanted = Fields(&[
    ("metadata", annotated!("network.cilium.io/", "io.cilium.network.", "io.cilium.heartbeat")),
    ("spec", Fields(&[("podCIDR", All), ("podCIDRs", All), ("taints", All)])),
    ("status", Fields(&[("addresses", All), ("conditions", CONDITIONS)])),
]);
pub(super) const OPERATOR_NODE: Wanted = Fields(&[
    ("metadata", for_operator!()),
    ("spec", Fields(&[("taints", All)])),
    ("status", Fields(&[("conditions", CONDITIONS)])),
]);
pub(super) const SERVICE: Wanted = Fields(&[
    ("metadata", annotated!("service.cilium.io/", "io.cilium/")),
    (
        "spec",
        Fields(&[
            ("clusterIP", All),
            ("clusterIPs", All),
            ("externalIPs", All),
            ("externalTrafficPolicy", All),
            ("healthCheckNodePort", All),
            ("internalTrafficPolicy", All),
            ("loadBalancerSourceRanges", All),
            ("ports", PORT),
            ("selector", All),
            ("sessionAffinity", All),
            ("sessionAffinityConfig", All),
            ("type", All),
        ]),
    ),
    (
        "status",
        Fields(&[(
            "loadBalancer",
            Fields(&[("ingress", Fields(&[("ip", All), ("ipMode", All)]))]),
        )]),
    ),
]);
pub(super) const ENDPOINT_SLICE: Wanted = Fields(&[
    ("addressType", All),
    (
        "endpoints",
        Fields(&[
            ("addresses", All),
            ("conditions", All),
            ("deprecatedTopology", All),
            ("hints", Fields(&[("forNodes", All), ("forZones", All)])),
            ("nodeName", All),
        ]),
    ),
    (
        "metadata",
        Fields(&[
            ("labels", All),
            ("name", All),
            ("namespace", All),
            ("ownerReferences", Fields(&[("kind", All), ("name", All)])),
            ("uid", All),
        ]),
    ),
    ("ports", PORT),
]);
pub(super) const ENDPOINTS: Wanted = Fields(&[
    ("metadata", Fields(&NAMES)),
    (
        "subsets",
        Fields(&[("addresses", Fields(&[("ip", All), ("nodeName", All)])), ("ports", PORT)]),
    ),
]);
/// Of rules and certificates nobody reads more than whether there are some.
pub(super) const INGRESS: Wanted = Fields(&[
    ("metadata", annotated!("kubernetes.io/ingress.class")),
    (
        "spec",
        Fields(&[
            ("defaultBackend", Fields(&[("service", All)])),
            ("ingressClassName", All),
            ("rules", Fields(&[])),
            ("tls", Fields(&[])),
        ]),
    ),
]);
pub(super) const LEASE: Wanted = Fields(&[
    ("metadata", for_operator!(("annotations", Named(&["volvox.io/prefixes"])))),
    ("spec", All),
]);

/// Of a schema nobody reads more than whether there is one.
pub(super) const DEFINITION: Wanted = Fields(&[
    (
        "metadata",
        Fields(&[
            ("labels", All),
            ("managedFields", Fields(&[("manager", All), ("subresource", All)])),
            ("name", All),
            ("resourceVersion", All),
        ]),
    ),
    (
        "spec",
        Fields(&[("versions", Fields(&[("schema", Fields(&[("openAPIV3Schema", Fields(&[]))]))]))]),
    ),
    ("status", Fields(&[("conditions", Fields(&[("status", All), ("type", All)]))])),
]);

const SELECTOR: Wanted = Only(&[
    ("matchLabels", All),
    ("matchExpressions", Only(&[("key", All), ("operator", All), ("values", All)])),
]);
const PEER: Wanted = Only(&[
    ("ipBlock", Only(&[("cidr", All), ("except", All)])),
    ("namespaceSelector", SELECTOR),
    ("podSelector", SELECTOR),
]);
const POLICY_PORT: Wanted = Only(&[("endPort", All), ("port", All), ("protocol", All)]);
/// Whoever adds to a policy narrows it or widens it: what is not known must not be passed over.
pub(super) const NETWORK_POLICY: Wanted = Only(&[
    ("apiVersion", Nothing),
    ("kind", Nothing),
    ("metadata", Fields(&NAMES)),
    (
        "spec",
        Only(&[
            ("podSelector", SELECTOR),
            ("policyTypes", All),
            ("ingress", Only(&[("from", PEER), ("ports", POLICY_PORT)])),
            ("egress", Only(&[("to", PEER), ("ports", POLICY_PORT)])),
        ]),
    ),
    // Older servers have one.
    ("status", Nothing),
]);
