//! The network's configuration: how it is read and checked, and which keys are refused.

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::{Map, Value};
use volvox_rest::{client::DEFAULT_SOCKET, delete_queue};

use super::{
    CniError, CniVersion, Command, ErrorCode, invocation::attachment_id, result::PreviousResult,
};

/// What `chaining-mode` may be where another plugin makes the interface; all mean the same.
pub(super) const CHAINING_MODES: [&str; 4] = ["generic-veth", "aws-cni", "azure", "flannel"];
/// Why an ADD is refused that comes after another plugin's.
const UNCHAINED: &str = "there is an interface already: make volvox-cni the first plugin of the list, or \
                         say chaining-mode generic-veth if it is to serve the interface of the plugin before it";
/// Why an ADD is refused that should come after another plugin's.
const UNPRECEDED: &str = "chaining-mode serves the interface of another plugin, and none came before: put the \
                          plugin that makes the pod's interface before volvox-cni in the list, or remove \
                          chaining-mode";

/// The type that this plugin has in a configuration.
pub const PLUGIN_TYPE: &str = "volvox-cni";

/// The network's configuration, from standard input, checked.
///
/// Keys that are not ours are ignored, as the specification wants; those that would change what is
/// made, and cannot be obeyed, are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// Version of the specification in which it speaks.
    pub version: CniVersion,
    /// The network's name.
    pub name: String,
    /// `socket-path`: the agent's socket.
    pub socket: PathBuf,
    /// `delete-queue`: where deletions go while the agent is dead.
    pub delete_queue: PathBuf,
    /// `enable-debug`: log every step.
    pub debug: bool,
    /// `log-file`: where to log; standard error if there is none.
    pub log_file: Option<PathBuf>,
    /// `log-format`: whether each line of the log is JSON.
    pub log_json: bool,
    /// `dns`: handed on in the result as it came.
    pub dns: Map<String, Value>,
    /// `chaining-mode`: whether another plugin of the list makes the interface.
    pub chained: bool,
    /// `prevResult`: what an ADD answered, or the plugin before.
    pub previous: Option<PreviousResult>,
    /// `cni.dev/valid-attachments`: `CONTAINER:INTERFACE` of all that GC leaves alone.
    pub valid_attachments: Option<BTreeSet<String>>,
}

impl NetworkConfig {
    /// Reads a configuration for a command.
    pub fn parse(stdin: &[u8], command: Command) -> Result<Self, CniError> {
        let keys = Keys(object(stdin)?);
        let version = CniVersion::parse(keys.text("cniVersion")?)?;
        version.require(command)?;
        let name = keys.text("name")?.unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(invalid("name", "the network needs a name"));
        }
        if keys.text("type")?.is_some_and(|kind| kind != PLUGIN_TYPE) {
            return Err(invalid("type", format!("this plugin is {PLUGIN_TYPE}")));
        }
        keys.refuse_delegation()?;
        let previous = keys.object("prevResult")?.map(PreviousResult::parse).transpose()?;
        let chained = keys.chained()?;
        match (command, chained, &previous) {
            (Command::Add, false, Some(_)) => return Err(invalid("prevResult", UNCHAINED)),
            (Command::Add, true, None) => return Err(invalid("prevResult", UNPRECEDED)),
            _ => {}
        }
        let socket = PathBuf::from(keys.text("socket-path")?.unwrap_or(DEFAULT_SOCKET));
        let delete_queue = match keys.text("delete-queue")? {
            Some(dir) => dir.into(),
            None => socket.with_file_name(delete_queue::DIRECTORY),
        };
        Ok(Self {
            version,
            name,
            socket,
            delete_queue,
            debug: keys.boolean("enable-debug")?.unwrap_or(false),
            log_file: keys.text("log-file")?.filter(|path| !path.is_empty()).map(PathBuf::from),
            log_json: keys.log_json()?,
            dns: keys.object("dns")?.cloned().unwrap_or_default(),
            chained,
            previous,
            valid_attachments: keys.valid_attachments()?,
        })
    }

    /// The version in which an error about a configuration is told: its own, or the newest.
    pub fn version_of(stdin: &[u8]) -> CniVersion {
        let text = object(stdin)
            .ok()
            .and_then(|object| Keys(object).text("cniVersion").ok()?.map(str::to_owned));
        CniVersion::parse(text.as_deref()).unwrap_or(CniVersion::LATEST)
    }
}

/// The members of the configuration; what is wrong is named by its key.
struct Keys(Map<String, Value>);

impl Keys {
    fn text(&self, key: &str) -> Result<Option<&str>, CniError> {
        self.of_type(key, "a text", Value::as_str)
    }

    fn boolean(&self, key: &str) -> Result<Option<bool>, CniError> {
        self.of_type(key, "true or false", Value::as_bool)
    }

    fn object(&self, key: &str) -> Result<Option<&Map<String, Value>>, CniError> {
        self.of_type(key, "an object", Value::as_object)
    }

    fn of_type<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, CniError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(value)
                .map(Some)
                .ok_or_else(|| undecodable(key, format!("{expected} is expected"))),
        }
    }

    fn refuse_delegation(&self) -> Result<(), CniError> {
        let unsupported = |key: &str, why: &str| {
            Err(CniError::new(ErrorCode::UnsupportedField, format!("{key} is not supported"), why))
        };
        let ipam = self.object("ipam")?.and_then(|ipam| ipam.get("type")).and_then(Value::as_str);
        if ipam.is_some_and(|kind| !kind.is_empty()) {
            return unsupported(
                "ipam.type",
                "the agent allocates addresses: remove ipam from the configuration",
            );
        }
        Ok(())
    }

    fn chained(&self) -> Result<bool, CniError> {
        match self.text("chaining-mode")? {
            None | Some("" | "none" | "portmap") => Ok(false),
            Some(mode) if CHAINING_MODES.contains(&mode) => Ok(true),
            Some(mode) => {
                let what = format!("chaining-mode {mode:?} is not supported");
                let why = format!("write none, portmap, or one of {}", CHAINING_MODES.join(", "));
                Err(CniError::new(ErrorCode::UnsupportedField, what, why))
            }
        }
    }

    fn log_json(&self) -> Result<bool, CniError> {
        match self.text("log-format")? {
            None | Some("" | "text") => Ok(false),
            Some("json") => Ok(true),
            Some(other) => {
                Err(invalid("log-format", format!("text or json is expected, not {other:?}")))
            }
        }
    }

    fn valid_attachments(&self) -> Result<Option<BTreeSet<String>>, CniError> {
        let key = "cni.dev/valid-attachments";
        let Some(list) = self.of_type(key, "a list", Value::as_array)? else { return Ok(None) };
        let read = |attachment: &Value| {
            let part = |name| attachment.get(name).and_then(Value::as_str);
            Some(attachment_id(part("containerID")?, part("ifname")?))
        };
        let all: Option<BTreeSet<String>> = list.iter().map(read).collect();
        all.map(Some).ok_or_else(|| undecodable(key, "each is to have containerID and ifname"))
    }
}

fn object(stdin: &[u8]) -> Result<Map<String, Value>, CniError> {
    match serde_json::from_slice(stdin) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => {
            Err(undecodable("the configuration", "a JSON object is expected on standard input"))
        }
        Err(error) => Err(undecodable("the configuration", error)),
    }
}

pub(super) fn undecodable(key: &str, why: impl ToString) -> CniError {
    CniError::new(ErrorCode::Decode, format!("{key} cannot be decoded"), why)
}

pub(super) fn invalid(key: &str, why: impl ToString) -> CniError {
    CniError::new(ErrorCode::InvalidConfig, format!("{key} is invalid"), why)
}
