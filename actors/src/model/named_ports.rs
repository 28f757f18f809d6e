use std::collections::{BTreeMap, BTreeSet};

/// Names that a pod gives to its ports: name, lower case, to IP protocol and number.
pub type NamedPorts = BTreeMap<String, BTreeSet<(u8, u16)>>;
