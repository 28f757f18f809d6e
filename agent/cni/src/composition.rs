//! What stands in the CNI configuration beside our plugin's entry: nothing, plugins that go with it, the
//! list of another plugin, or what somebody wrote by hand.

use std::{fs, path::Path};

use serde_json::{Map, Value, json};

use super::{
    CniVersion,
    config::{CHAINING_MODES, PLUGIN_TYPE},
    conflist::{ConflistError, NETWORK, configurations_and_backups},
};

/// The most that an Ethernet device takes, bytes.
const MTU_MAX: u64 = 65_535;
/// The least that IPv4 needs.
const MTU_MIN: u64 = 68;
/// Any network.
const ANY: &str = "*";

/// What the list is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Composition {
    /// Our plugin alone.
    Alone,
    /// Our plugin, and behind it `portmap`.
    Portmap,
    /// `flannel`, `portmap`, and ours behind them.
    Flannel,
    /// The list of another network, and ours behind its plugins.
    Into {
        /// The network's name; `*` is the first there is.
        network: String,
        /// Our entry's `chaining-mode`.
        mode: String,
    },
    /// A list as somebody wrote it.
    Custom(CustomConflist),
}

impl Composition {
    /// What our entry says of those before it.
    pub(super) fn chaining_mode(&self) -> Option<&str> {
        match self {
            Self::Alone | Self::Portmap | Self::Custom(_) => None,
            Self::Flannel => Some("flannel"),
            Self::Into { mode, .. } => Some(mode),
        }
    }

    /// The list with that entry of ours, to stand at `path`.
    pub(super) fn list(&self, own: Value, path: &Path) -> Result<Value, ConflistError> {
        let portmap = portmap();
        match self {
            Self::Alone => Ok(named(NETWORK, vec![own])),
            Self::Portmap => Ok(named(NETWORK, vec![own, portmap])),
            Self::Flannel => Ok(named("flannel", vec![flannel(), portmap, own])),
            Self::Into { network, .. } => into(network, own, path),
            // Written as it is, not by its members.
            Self::Custom(custom) => Ok(custom.list()),
        }
    }
}

/// Makes ports of the node lead to pods.
fn portmap() -> Value {
    json!({"type": "portmap", "snat": true, "capabilities": {"portMappings": true}})
}

fn flannel() -> Value {
    json!({"type": "flannel", "delegate": {"hairpinMode": true, "isDefaultGateway": true}})
}

/// In version 1.0.0, which every runtime in use understands.
fn named(name: &str, plugins: Vec<Value>) -> Value {
    json!({"cniVersion": CniVersion::V1_0_0.as_str(), "name": name, "plugins": plugins})
}

/// Puts our entry behind the plugins of a network, or in place of the one of ours that is there.
fn into(network: &str, own: Value, path: &Path) -> Result<Value, ConflistError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let all = configurations_and_backups(directory)?;
    let read = |file: &Path| serde_json::from_slice::<Value>(&fs::read(file).ok()?).ok();
    let is_it = |list: &Value| {
        let name = list["name"].as_str().unwrap_or_default();
        !name.is_empty() && (network == ANY || network == name)
    };
    let others = all.iter().filter(|file| *file != path).filter_map(|file| read(file));
    let mut list = others.into_iter().find(is_it).ok_or_else(|| ConflistError::NoNetwork {
        network: network.to_owned(),
        directory: directory.display().to_string(),
    })?;
    if list["plugins"].as_array().is_none_or(Vec::is_empty) {
        list = as_list(list);
    }
    let version = list["cniVersion"].as_str();
    if CniVersion::parse(version).is_err() {
        return Err(ConflistError::Version {
            network: list["name"].as_str().unwrap_or_default().to_owned(),
            version: version.unwrap_or("none").to_owned(),
        });
    }
    if let Some(plugins) = list["plugins"].as_array_mut() {
        match plugins.iter_mut().find(|plugin| plugin["type"] == PLUGIN_TYPE) {
            Some(before) => *before = own,
            None => plugins.push(own),
        }
    }
    Ok(list)
}

/// A configuration of one plugin as a list of it.
fn as_list(one: Value) -> Value {
    let mut plugin = one.as_object().cloned().unwrap_or_default();
    let mut list = Map::new();
    for key in ["cniVersion", "name"] {
        list.extend(plugin.remove(key).map(|value| (key.to_owned(), value)));
    }
    list.insert("plugins".to_owned(), json!([plugin]));
    Value::Object(list)
}

/// A list that somebody wrote by hand, with our plugin in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomConflist {
    text: Vec<u8>,
    /// `mtu` of our plugin's entry.
    pub mtu: Option<u32>,
    /// Whether our plugin serves the interface of another one.
    pub chained: bool,
}

/// Why it is of no use, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CustomConflistError {
    /// It cannot be read.
    #[error("it is no JSON ({0}): correct it")]
    Garbled(String),
    /// Runtimes would never call our plugin.
    #[error("no plugin of type {PLUGIN_TYPE} is in it, but {0}: add one")]
    Without(String),
    /// No device takes such packets.
    #[error(
        "the mtu of {PLUGIN_TYPE} is {0}: write a number from {MTU_MIN} to {MTU_MAX}, or leave it out"
    )]
    Mtu(String),
    /// Our plugin would refuse it.
    #[error("the chaining-mode of {PLUGIN_TYPE} is {0}: write one of {modes}, or leave it out", modes = CHAINING_MODES.join(", "))]
    Mode(String),
}

impl CustomConflist {
    /// Reads a list, or the configuration of one plugin.
    pub fn parse(text: &[u8]) -> Result<Self, CustomConflistError> {
        let whole: Value = serde_json::from_slice(text)
            .map_err(|error| CustomConflistError::Garbled(error.to_string()))?;
        let one = std::slice::from_ref(&whole);
        let plugins = whole["plugins"].as_array().map_or(one, Vec::as_slice);
        let Some(own) = plugins.iter().find(|plugin| plugin["type"] == PLUGIN_TYPE) else {
            let types: Vec<_> = plugins.iter().filter_map(|it| it["type"].as_str()).collect();
            let others = if types.is_empty() { "none at all".to_owned() } else { types.join(", ") };
            return Err(CustomConflistError::Without(others));
        };
        let mtu = match &own["mtu"] {
            Value::Null => None,
            // As Go reads what is absent.
            value if value.as_u64() == Some(0) => None,
            value => {
                let number = value.as_u64().filter(|mtu| (MTU_MIN..=MTU_MAX).contains(mtu));
                let number = number.and_then(|mtu| u32::try_from(mtu).ok());
                Some(number.ok_or_else(|| CustomConflistError::Mtu(value.to_string()))?)
            }
        };
        let chained = match &own["chaining-mode"] {
            Value::Null => false,
            value => match value.as_str() {
                Some("" | "none" | "portmap") => false,
                Some(mode) if CHAINING_MODES.contains(&mode) => true,
                _ => return Err(CustomConflistError::Mode(value.to_string())),
            },
        };
        Ok(Self { text: text.to_owned(), mtu, chained })
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    fn list(&self) -> Value {
        serde_json::from_slice(&self.text).unwrap_or_default()
    }
}
