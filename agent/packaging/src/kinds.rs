//! What values may be, where they go, and what they are if nobody sets one.

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// True or false.
    Switch,
    /// A whole number, at most that.
    Number(u64),
    /// Any text.
    Text,
    /// One of these.
    Choice(&'static [&'static str]),
    /// A map whose values are texts.
    Texts,
    /// A map.
    Tree,
    /// A map, in which every number is a quantity: the server takes these as texts only.
    Quantities,
    /// A map that becomes JSON on one line, or what the flag says in its own form.
    Document,
    /// A list.
    List,
}

impl Kind {
    /// Whether it may have values inside.
    pub(crate) fn has_members(self) -> bool {
        matches!(self, Self::Texts | Self::Tree | Self::Quantities | Self::Document)
    }

    /// Whether it is larger than what stands on a line.
    pub(crate) fn is_structured(self) -> bool {
        matches!(self, Self::Texts | Self::Tree | Self::Quantities | Self::List)
    }
}

/// Where a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Into the ConfigMap, under this key: a flag of the agent.
    Flag(&'static str),
    /// Into the ConfigMap, each of its own keys.
    Flags,
    /// The namespace of all objects that have one.
    Namespace,
    /// The image: what stands before the colon, or behind it.
    Image,
    /// The operator's image, in the same way.
    OperatorImage,
    /// How many operators run.
    Operators,
    /// A member of every container.
    EveryContainer(&'static str),
    /// A member of the agent's container.
    Container(&'static str),
    /// Further items of a list of the agent's container.
    ContainerItems(&'static str),
    /// Further items of a list of the agents' pods.
    PodItems(&'static str),
    /// Further items of a list of the operator's container.
    OperatorContainerItems(&'static str),
    /// Further items of a list of the operators' pods.
    OperatorPodItems(&'static str),
    /// A variable of the agent's environment.
    Variable(&'static str),
    /// A member of the pod's specification.
    Pod(&'static str),
    /// Further members of the pod's metadata.
    PodMetadata(&'static str),
    /// A member of the DaemonSet's specification.
    Set(&'static str),
    /// The host's directory that this volume mounts.
    Volume(&'static str),
    /// Whether the container runtime's socket is mounted and named to the agent.
    Runtime,
}

/// The value if nobody sets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Initial {
    /// What `daemonset.yaml` says there.
    Template,
    /// This, as JSON.
    Json(&'static str),
}

/// The largest number of a cluster that fits into identities.
pub(crate) const CLUSTER_MAX: u64 = 255;
/// The most operators that run at a time.
pub(crate) const OPERATORS_MAX: u64 = 10;
pub(crate) const PORT_MAX: u64 = 65535;
/// The largest number of rows that a map may have.
pub(crate) const ROWS_MAX: u64 = 1 << 24;

pub(crate) const FALSE: Initial = Initial::Json("false");
pub(crate) const TRUE: Initial = Initial::Json("true");
pub(crate) const EMPTY: Initial = Initial::Json("\"\"");
pub(crate) const NO_ITEMS: Initial = Initial::Json("[]");
pub(crate) const NO_MEMBERS: Initial = Initial::Json("{}");

/// One value that may be set.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name, as `ipam.mode`.
    pub name: &'static str,
    /// What it means, one line.
    pub meaning: &'static str,
    /// What may be written.
    pub(crate) kind: Kind,
    /// Where it goes.
    pub(crate) place: Place,
    /// The value if nobody sets one, as JSON.
    pub(crate) initial: Initial,
}

pub(crate) const fn setting(
    name: &'static str,
    kind: Kind,
    place: Place,
    initial: Initial,
    meaning: &'static str,
) -> Setting {
    Setting { name, meaning, kind, place, initial }
}

pub(crate) const fn flag(
    name: &'static str,
    flag: &'static str,
    kind: Kind,
    initial: Initial,
    meaning: &'static str,
) -> Setting {
    setting(name, kind, Place::Flag(flag), initial, meaning)
}
