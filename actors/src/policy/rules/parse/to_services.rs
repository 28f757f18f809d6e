//! Reads `toServices`: by name or by labels. Which backends these have is found out later.

use super::selector::{Keys, selector};
use crate::{
    model::field::{Fault, Field},
    policy::rules::peer::{ServiceBy, ServiceMatch, ServiceSelector},
};

/// Reads an entry of `toServices`. As Cilium has it, one that says no namespace means every one.
pub(super) fn services(field: &Field<'_>) -> Result<ServiceMatch, Fault> {
    let mapping = field.mapping(&["k8sService", "k8sServiceSelector"])?;
    let (mapping, by) = match (mapping.get("k8sService"), mapping.get("k8sServiceSelector")) {
        (Some(one), None) => {
            let mapping = one.mapping(&["serviceName", "namespace"])?;
            let name = mapping.need("serviceName")?;
            if name.text()?.is_empty() {
                return Err(name.fault("the name is empty", "write the name of a Service"));
            }
            let by = ServiceBy::Name(name.text()?.to_owned());
            (mapping, by)
        }
        (None, Some(some)) => {
            let mapping = some.mapping(&["selector", "namespace"])?;
            let by = ServiceBy::Labels(selector(&mapping.need("selector")?, Keys::Cilium)?);
            (mapping, by)
        }
        (None, None) => {
            let remedy = "add k8sService or k8sServiceSelector";
            return Err(field.fault("the entry names no service", remedy));
        }
        (Some(_), Some(_)) => {
            let remedy = "write an entry of the list for each";
            return Err(field.fault("the entry names services in two ways", remedy));
        }
    };
    let namespace = mapping.get("namespace").map(|field| field.text()).transpose()?;
    let namespace = namespace.filter(|name| !name.is_empty()).map(str::to_owned);
    Ok(ServiceMatch::new(ServiceSelector { namespace, by }))
}
