//! `volvox policy`: the rules in force, how each policy stands, and a check of manifests without
//! the agent.

mod validate;

use std::collections::BTreeSet;

use serde_json::Value;
use volvox_actors::policy::rules::{PolicyStatus, PolicyView, same_priority_remark};
use volvox_rest::{
    RestClient,
    models::{Policy, SelectorEntry},
};

use super::{
    args::PolicyCommand,
    error::ClientError,
    output::{Listed, Listing, Output, count, list, shown},
};

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    command: PolicyCommand,
) -> Result<(), ClientError> {
    match command {
        PolicyCommand::Get => {
            let policy: Policy = client.get("/policy").await?;
            let rules: Value = serde_json::from_str(&policy.policy)
                .map_err(|error| ClientError::Failed(format!("the agent's rules: {error}")))?;
            if !out.is_for_programs() {
                let number = rules.as_array().map_or(0, Vec::len);
                out.line(format!("Revision {}, {}:", policy.revision, count(number, "rule")))?;
            }
            out.value(&rules)
        }
        PolicyCommand::Selectors { subjects, watch } => {
            let path = if subjects { "/policy/subject-selectors" } else { "/policy/selectors" };
            let fetch = async || Ok(client.get::<Vec<SelectorEntry>>(path).await?);
            list(out, &watch.into(), fetch).await
        }
        PolicyCommand::Validate { files, allow_empty, strict } => {
            validate::run(out, &files, allow_empty, strict)
        }
        PolicyCommand::Status(listing) => status(client, out, &listing).await,
    }
}

async fn status(
    client: &RestClient,
    out: &mut Output<'_>,
    listing: &Listing,
) -> Result<(), ClientError> {
    let fetch = async || {
        let mut view: PolicyView = client.get("/volvox/policy").await?;
        if let Some(namespace) = &listing.namespace {
            let of = |it: &PolicyStatus| it.policy.as_ref()?.namespace.clone();
            view.policies.retain(|it| of(it).as_ref() == Some(namespace));
        }
        Ok(view)
    };
    if !listing.watch.watch {
        // The list has a revision.
        return out.answer(&fetch().await?, |out, view: &PolicyView| shown(out, &view.policies));
    }
    list(out, listing, async || fetch().await.map(|view: PolicyView| view.policies)).await
}

impl Listed for PolicyStatus {
    const HEADINGS: &'static [&'static str] = &["FILE", "POLICY", "SELECTS", "REMARKS"];

    fn cells(&self) -> Vec<String> {
        let name = self.policy.as_ref().map(ToString::to_string).unwrap_or_default();
        vec![self.source.clone(), name, self.selects.to_string(), remarks(self)]
    }

    fn key(&self) -> String {
        let name = self.policy.as_ref().map(ToString::to_string);
        let error = self.error.as_ref().and_then(|error| error.object.clone());
        format!("{} {:?}", self.source, name.or(error))
    }

    fn namespaces(&self) -> BTreeSet<String> {
        self.policy.iter().filter_map(|policy| policy.namespace.clone()).collect()
    }
}

impl Listed for SelectorEntry {
    const HEADINGS: &'static [&'static str] = &["SELECTOR", "USERS", "IDENTITIES"];

    fn cells(&self) -> Vec<String> {
        let identities = self.identities.iter().map(u32::to_string).collect::<Vec<_>>();
        vec![self.selector.clone(), self.users.to_string(), identities.join("\n")]
    }
}

fn remarks(status: &PolicyStatus) -> String {
    let mut remarks: Vec<String> = Vec::new();
    if let Some(error) = &status.error {
        let which = if status.policy.is_some() { "newest version refused" } else { "refused" };
        let at = if error.path.is_empty() { String::new() } else { format!("{}: ", error.path) };
        remarks.push(format!("{which}: {at}{}; {}", error.problem, error.remedy));
    }
    for part in &status.unsupported {
        remarks.push(format!("{}: not supported yet: {}", part.path, part.effect));
    }
    remarks.extend(status.departures.iter().map(ToString::to_string));
    for port in &status.unresolved_ports {
        remarks
            .push(format!("{}: nobody has a port named {}: none is meant", port.path, port.name));
    }
    for group in &status.missing_groups {
        remarks.push(format!(
            "{}: there is no CiliumCIDRGroup {}: it has no prefix",
            group.path, group.name
        ));
    }
    for service in &status.missing_services {
        remarks.push(format!(
            "{}: there is no Service {}: nobody is meant",
            service.path, service.which
        ));
    }
    remarks.extend(same_priority_remark(&status.same_priority));
    if remarks.is_empty() && status.selects == 0 {
        remarks.push("selects no endpoint".to_owned());
    }
    remarks.join("\n")
}
