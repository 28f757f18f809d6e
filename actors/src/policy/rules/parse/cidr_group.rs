//! CiliumCIDRGroup.

use super::cidr::prefix;
use crate::{
    model::{
        Label, Labels,
        field::{Fault, Field},
    },
    policy::rules::rule::CidrGroup,
};

/// Reads a whole object.
pub(super) fn group(document: &Field<'_>) -> Result<CidrGroup, Fault> {
    let mapping = document.mapping(&["apiVersion", "kind", "metadata", "spec", "status"])?;
    let mut labels = Labels::default();
    let metadata = mapping.need("metadata")?.any_mapping()?;
    if let Some(written) = metadata.get("labels") {
        for (key, value) in written.any_mapping()?.entries() {
            labels.insert(Label::new("k8s", key, value.text()?));
        }
    }
    let spec = mapping.need("spec")?.mapping(&["externalCIDRs"])?;
    let nets = spec.list("externalCIDRs")?.unwrap_or_default();
    let nets = nets.iter().map(prefix).collect::<Result<_, _>>()?;
    Ok(CidrGroup { labels, nets })
}
