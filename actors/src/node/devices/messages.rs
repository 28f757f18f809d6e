//! Messages to the owner of devices, and the status that it shows.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{
    host::{Message, Reply},
    model::{Addresses, drift::DriftReply},
    ports::Link,
};

/// A device of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DeviceStatus {
    /// Its name.
    pub name: String,
    /// Its number.
    pub ifindex: u32,
    /// What stands for others behind it.
    pub addresses: Addresses,
    /// Whether its programs run.
    pub attached: bool,
    /// What keeps them from running as they are to, by what was seen last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trouble: Option<String>,
}

/// What is known of the node's devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct DevicesStatus {
    /// Those that run programs, or are to.
    pub devices: Vec<DeviceStatus>,
    /// Names that the settings have and no interface.
    pub missing: Vec<String>,
    /// Those that are left alone although they lead somewhere, and why.
    pub passed_over: BTreeMap<String, String>,
    /// Those at which something fails, and what: it is tried again, the others do not wait for it.
    pub failing: BTreeMap<String, String>,
    /// Where pods go to as themselves, besides the cluster.
    pub unmasqueraded: BTreeSet<IpNet>,
    /// What keeps programs of endpoints from being those desired, if anything does.
    pub programs: Option<String>,
    /// Why the next run would not find what runs, if it would not.
    pub mount: Option<String>,
    /// Why the last change failed.
    pub last_error: Option<String>,
}

/// What the owner of devices can be told.
pub enum DevicesMsg {
    /// These are the interfaces now.
    Links(Rc<BTreeMap<u32, Link>>),
    /// The addresses by which other nodes reach this one are these from now on.
    NodeAddresses(Addresses),
    /// This node's pods have these prefixes besides those that the settings say: among themselves they keep
    /// their own addresses.
    OwnPrefixes(BTreeSet<IpNet>),
    /// Ask the kernel what runs there; answered once what it says is taken in, by whether there was
    /// anything to ask.
    Verify(Reply<bool>),
    /// Answered once all devices have been seen to, for the first time in this life or since: programs run
    /// where they can.
    AtRest(Reply<()>),
    /// Compare the kernel's rows with what was written, and write again what differs; told then
    /// what did.
    Compare(DriftReply),
    /// Show it.
    Show(Reply<DevicesStatus>),
}

impl Message for DevicesMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Links(_) => "Links",
            Self::NodeAddresses(_) => "NodeAddresses",
            Self::OwnPrefixes(_) => "OwnPrefixes",
            Self::Verify(_) => "Verify",
            Self::AtRest(_) => "AtRest",
            Self::Compare(_) => "Compare",
            Self::Show(_) => "Show",
        }
    }
}
