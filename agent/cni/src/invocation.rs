//! What the runtime says in the environment: the command, the container and the pod.

use std::{collections::BTreeMap, path::PathBuf};

use super::{CniError, ErrorCode};

/// What the runtime wants (`CNI_COMMAND`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Connect a container.
    Add,
    /// Disconnect it.
    Del,
    /// See that it still is connected as told.
    Check,
    /// Say whether ADD can be served.
    Status,
    /// Remove what belongs to no container.
    Gc,
    /// Say which versions are supported.
    Version,
}

impl Command {
    const ALL: [Self; 6] =
        [Self::Add, Self::Del, Self::Check, Self::Status, Self::Gc, Self::Version];

    /// As it stands in the environment.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Status => "STATUS",
            Self::Gc => "GC",
            Self::Version => "VERSION",
        }
    }

    fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Add | Self::Check => &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"],
            Self::Del => &["CNI_CONTAINERID", "CNI_IFNAME"],
            Self::Status | Self::Gc | Self::Version => &[],
        }
    }
}

/// The parameters in the environment, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// What is desired.
    pub command: Command,
    /// The container's identifier; empty where the command needs none.
    pub container_id: String,
    /// File that names the container's network namespace; `None` once that is gone.
    pub netns: Option<PathBuf>,
    /// The interface's name inside the container; empty where the command needs none.
    pub ifname: String,
    /// Kubernetes namespace, empty outside Kubernetes.
    pub pod_namespace: String,
    /// Kubernetes pod name.
    pub pod_name: String,
    /// Kubernetes pod UID.
    pub pod_uid: String,
}

impl Invocation {
    /// Reads the parameters.
    pub fn parse(env: &BTreeMap<String, String>) -> Result<Self, CniError> {
        let value = |key: &str| env.get(key).map(String::as_str).unwrap_or_default();
        let command = Command::ALL
            .into_iter()
            .find(|command| command.as_str() == value("CNI_COMMAND"))
            .ok_or_else(|| {
                wrong(
                    "CNI_COMMAND",
                    value("CNI_COMMAND"),
                    "ADD, DEL, CHECK, STATUS, GC or VERSION is expected",
                )
            })?;
        let missing: Vec<_> =
            command.needs().iter().copied().filter(|key| value(key).is_empty()).collect();
        if !missing.is_empty() {
            return Err(CniError::new(
                ErrorCode::InvalidEnvironment,
                format!("missing in the environment: {}", missing.join(", ")),
                format!("{} needs them (CNI specification, Parameters)", command.as_str()),
            ));
        }
        // What a command does not need is not read, so nothing that was not checked gets any further.
        let needed = |key: &str| if command.needs().contains(&key) { value(key) } else { "" };
        let container_id = needed("CNI_CONTAINERID").to_owned();
        let ifname = needed("CNI_IFNAME").to_owned();
        if !ifname.is_empty() {
            check_container_id(&container_id)?;
            check_ifname(&ifname)?;
        }
        let args = arguments(value("CNI_ARGS"))?;
        let arg = |key: &str| args.get(key).copied().unwrap_or_default().to_owned();
        Ok(Self {
            command,
            container_id,
            netns: Some(value("CNI_NETNS")).filter(|path| !path.is_empty()).map(PathBuf::from),
            ifname,
            pod_namespace: arg("K8S_POD_NAMESPACE"),
            pod_name: arg("K8S_POD_NAME"),
            pod_uid: arg("K8S_POD_UID"),
        })
    }

    /// `CONTAINER:INTERFACE`, which names what one ADD made.
    pub fn attachment_id(&self) -> String {
        attachment_id(&self.container_id, &self.ifname)
    }

    /// Who the addresses are for: the pod, or the container outside Kubernetes.
    pub fn owner(&self) -> String {
        if self.pod_name.is_empty() {
            return self.container_id.clone();
        }
        format!("{}/{}", self.pod_namespace, self.pod_name)
    }
}

/// `CONTAINER:INTERFACE`.
pub(super) fn attachment_id(container_id: &str, ifname: &str) -> String {
    format!("{container_id}:{ifname}")
}

/// CNI specification: alphanumeric, then alphanumeric, underscore, dot or hyphen.
fn check_container_id(id: &str) -> Result<(), CniError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if id.starts_with(|c: char| c.is_ascii_alphanumeric()) && id.chars().all(fits) {
        return Ok(());
    }
    Err(wrong(
        "CNI_CONTAINERID",
        id,
        "letters, digits, '_', '.', '-' are expected, the first one a letter or digit",
    ))
}

/// What the kernel takes for an interface's name as it is, and no ':', which the CNI forbids. It
/// counts where there is a '%', and keeps settings of all interfaces under two more names.
fn check_ifname(name: &str) -> Result<(), CniError> {
    let fits = |c: char| !matches!(c, '/' | ':' | '%') && !c.is_whitespace() && !c.is_control();
    let is_another_s = matches!(name, "." | ".." | "all" | "default");
    if name.len() <= 15 && !is_another_s && name.chars().all(fits) {
        return Ok(());
    }
    let expected =
        "at most 15 bytes are expected, without '/', ':', '%' and blanks, not all or default";
    Err(wrong("CNI_IFNAME", name, expected))
}

fn arguments(text: &str) -> Result<BTreeMap<&str, &str>, CniError> {
    text.split(';')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            pair.split_once('=')
                .ok_or_else(|| wrong("CNI_ARGS", text, "KEY=VALUE;KEY=VALUE… is expected"))
        })
        .collect()
}

fn wrong(key: &str, value: &str, expected: &str) -> CniError {
    let mut shown: String = value.chars().take(64).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    CniError::new(ErrorCode::InvalidEnvironment, format!("{key}={shown:?} is wrong"), expected)
}
