//! Pods: who they are, and what whoever starts or deletes them waits for.

use volvox_actors_simulated::{
    endpoints::{
        endpoint::EndpointSpec,
        ipam::{Allocated, IpamError},
        supervisor::DeleteError,
    },
    host::{Answer, Time},
    model::{Addresses, Mac},
    ports::Link,
    testing::Created,
};

use crate::model::{NAMESPACE, policies::App};

/// What somebody outside waits for.
pub(crate) enum Call {
    /// Addresses for a pod that is started.
    Addresses(Answer<Result<Allocated, IpamError>>),
    /// Its endpoint.
    Endpoint(Answer<Created>),
    /// The end of its endpoint.
    Deletion(Answer<Result<u32, DeleteError>>),
    /// The deletion is asked for once more.
    Again(Time),
}

/// A pod of that number: at most one at a time.
pub(crate) struct Pod {
    /// Its number.
    pub(crate) number: u8,
    /// How many of that name there were.
    pub(crate) incarnation: u32,
    /// The labels that it had since the node was last at rest.
    pub(crate) apps: Vec<App>,
    /// What is under way.
    pub(crate) call: Option<Call>,
    /// It was started, and its deletion has not ended.
    pub(crate) exists: bool,
}

impl Pod {
    /// None yet.
    pub(crate) fn new(number: u8) -> Self {
        Self { number, incarnation: 0, apps: vec![App::None], call: None, exists: false }
    }

    /// Its name.
    pub(crate) fn name(number: u8) -> String {
        format!("pod-{number}")
    }

    /// Namespace and name.
    pub(crate) fn owner(&self) -> String {
        format!("{NAMESPACE}/{}", Self::name(self.number))
    }

    /// Identifier of the container of that incarnation: two neighbours are interfaces of one.
    pub(crate) fn container(&self, incarnation: u32) -> String {
        format!("{:012x}{incarnation:052x}", self.number & !1)
    }

    /// Name of its interface in the container.
    fn container_ifname(&self) -> &'static str {
        if self.number & 1 == 0 { "eth0" } else { "net1" }
    }

    /// Attachment of that incarnation, as the API names it.
    pub(crate) fn attachment(&self, incarnation: u32) -> String {
        format!("{}:{}", self.container(incarnation), self.container_ifname())
    }

    /// UID of the object.
    pub(crate) fn uid(&self) -> String {
        format!("uid-{}-{}", self.number, self.incarnation)
    }

    /// Number of its host-side interface.
    pub(crate) fn ifindex(&self) -> u32 {
        u32::from(self.number) * 1_000 + self.incarnation
    }

    /// Names this very pod.
    pub(crate) fn token(&self) -> u64 {
        u64::from(self.ifindex())
    }

    /// What CNI says of it.
    pub(crate) fn spec(&self, addresses: Addresses) -> EndpointSpec {
        let [_, _, high, low] = self.incarnation.to_be_bytes();
        EndpointSpec {
            container_id: self.container(self.incarnation),
            container_ifname: self.container_ifname().to_owned(),
            ifname: format!("lxc{}x{}", self.number, self.incarnation),
            ifindex: self.ifindex(),
            mac: Mac([2, 0, self.number, high, low, 1]),
            node_mac: Mac([2, 0, self.number, high, low, 2]),
            addresses,
            namespace: NAMESPACE.to_owned(),
            pod_name: Self::name(self.number),
            pod_uid: self.uid(),
            ..EndpointSpec::default()
        }
    }

    /// Its host-side interface.
    pub(crate) fn link(&self) -> Link {
        let spec = self.spec(Addresses::default());
        Link { ifindex: spec.ifindex, name: spec.ifname, mac: spec.node_mac, ..Link::default() }
    }
}
