//! What is looked at before anything is changed.

use serde_json::Value;
use volvox_packaging::{MANAGED_BY, NAME, VALUES, Values};

use crate::{
    InstallError,
    kinds::{CONFIG_MAP, DAEMON_SET, named},
    server::Server,
};

/// The oldest minor version of a server whose server-side apply and definitions do what is needed.
const OLDEST_MINOR: u32 = 21;

/// The server's minor version; older servers are refused. One that was built without a version gets
/// what the oldest knows.
pub(crate) async fn version_minor(server: &Server) -> Result<u32, InstallError> {
    let version = server.get("/version").await?.unwrap_or_default();
    let text = |member: &str| version[member].as_str().unwrap_or_default().to_owned();
    if version.is_object() && text("major").is_empty() {
        return Ok(OLDEST_MINOR);
    }
    let (major, minor) = (number(&text("major")), number(&text("minor")));
    if major != 1 || minor < OLDEST_MINOR {
        return Err(InstallError::Refused(format!(
            "the API server is of version {}.{}: Volvox needs 1.{OLDEST_MINOR} or newer; upgrade the \
             control plane first",
            text("major"),
            text("minor")
        )));
    }
    Ok(minor)
}

/// The number at the beginning of a text: some servers say `31+`.
fn number(text: &str) -> u32 {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap_or_default()
}

/// Refuses a cluster in which Cilium's agents run.
pub(crate) async fn refuse_cilium(server: &Server) -> Result<(), InstallError> {
    let path = format!("{}?labelSelector=k8s-app%3Dcilium", DAEMON_SET.everywhere());
    let Some(mut set) = server.list(&path).await?.into_iter().next() else { return Ok(()) };
    set["kind"] = DAEMON_SET.name.into();
    Err(InstallError::Refused(format!(
        "Cilium's agents run in this cluster ({}), and a node can have one of the two: to take its \
         nodes over with their pods see agent/docs/upgrade.md#take-over-from-cilium, or install \
         beside it by --beside-cilium",
        named(&set)
    )))
}

/// Refuses a namespace that is not there: it is not made, because others decide what it may run.
pub(crate) async fn refuse_no_namespace(
    server: &Server,
    namespace: &str,
) -> Result<(), InstallError> {
    match server.get(&format!("/api/v1/namespaces/{namespace}")).await? {
        Some(_) => Ok(()),
        None => Err(InstallError::Refused(format!(
            "there is no namespace {namespace}: kubectl create namespace {namespace}, and label it \
             pod-security.kubernetes.io/enforce=privileged"
        ))),
    }
}

/// An installation that is there.
pub(crate) struct Installed {
    namespace: String,
    /// The values that were given to it, as YAML.
    given: String,
}

impl Installed {
    /// Finds it by the record of its values. Refuses one that somebody else made.
    pub(crate) async fn find(server: &Server) -> Result<Option<Self>, InstallError> {
        let maps = server.ours(CONFIG_MAP).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(map) = maps.iter().find(|it| it["metadata"]["name"] == VALUES) {
            let namespace = text(&map["metadata"]["namespace"]);
            return Ok(Some(Self { namespace, given: text(&map["data"]["values.yaml"]) }));
        }
        let path = format!("{}?labelSelector=k8s-app%3D{NAME}", DAEMON_SET.everywhere());
        let sets = server.list(&path).await?;
        let by_helm = sets.iter().find(|it| it["metadata"]["labels"][MANAGED_BY] == "Helm");
        match by_helm {
            Some(_) => Err(InstallError::Refused(
                "Helm installed Volvox in this cluster: change it by helm upgrade, or remove it by \
                 helm uninstall first"
                    .to_owned(),
            )),
            None => Ok(None),
        }
    }

    /// The values that were given to it.
    pub(crate) fn values(&self) -> Result<Values, InstallError> {
        let mut values = Values::default();
        values.merge(&self.given).map_err(|error| {
            InstallError::Refused(format!(
                "ConfigMap {}/{VALUES} has values that this version does not take ({error}): edit it, \
                 or give all values anew and --reset-values",
                self.namespace
            ))
        })?;
        Ok(values)
    }

    /// Refuses to install with other values: who does not repeat one would lose it.
    pub(crate) fn refuse_others(&self, values: &Values) -> Result<(), InstallError> {
        let differences = values.differences(&self.values()?);
        if differences.is_empty() {
            return Ok(());
        }
        Err(InstallError::Refused(format!(
            "Volvox is installed with other values ({}): volvox upgrade changes those that it is \
             given and keeps the others",
            differences.join(", ")
        )))
    }

    /// Refuses to have a second one in another namespace.
    pub(crate) fn refuse_another_namespace(&self, values: &Values) -> Result<(), InstallError> {
        let wanted = values.namespace();
        if wanted == self.namespace {
            return Ok(());
        }
        Err(InstallError::Refused(format!(
            "Volvox is installed in namespace {}, not in {wanted}: name that one by --set \
             namespace={0}, or use volvox uninstall first",
            self.namespace
        )))
    }
}
