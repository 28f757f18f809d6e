//! `volvox policy`: the rules in force, how each policy stands, and a check of manifests without
//! the agent.

use std::{fs, path::PathBuf};

use serde::Serialize;
use serde_json::Value;
use volvox_actors::model::ApiObject;
use volvox_actors::policy::rules::{
    KnownServices, PolicySettings, PolicyStatus, PolicyView, parse, same_priority_remark,
};
use volvox_inspect::manifests::objects;
use volvox_rest::{RestClient, models::Policy};

use super::{
    args::PolicyCommand,
    error::ClientError,
    output::{Output, count},
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
            if !out.is_json() {
                let number = rules.as_array().map_or(0, Vec::len);
                out.line(format!("Revision {}, {}:", policy.revision, count(number, "rule")))?;
            }
            out.json(&rules)
        }
        PolicyCommand::Validate { files } => validate(out, &files),
        PolicyCommand::Status => {
            out.answer(&client.get::<PolicyView>("/volvox/policy").await?, status)
        }
    }
}

fn status(out: &mut Output<'_>, view: &PolicyView) -> Result<(), ClientError> {
    let rows = view.policies.iter().map(|status| {
        let name = status.policy.as_ref().map(ToString::to_string).unwrap_or_default();
        [status.source.clone(), name, status.selects.to_string(), remarks(status)]
    });
    out.table(["FILE", "POLICY", "SELECTS", "REMARKS"], rows)
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

/// What is found in one manifest.
#[derive(Debug, Default, Serialize)]
struct Verdict {
    file: String,
    policies: Vec<String>,
    unsupported: Vec<String>,
    departures: Vec<String>,
    refused: Vec<String>,
}

fn validate(out: &mut Output<'_>, files: &[PathBuf]) -> Result<(), ClientError> {
    let verdicts: Vec<Verdict> = files.iter().map(judge).collect();
    let refused: usize = verdicts.iter().map(|verdict| verdict.refused.len()).sum();
    out.answer(&verdicts, |out, verdicts| {
        for verdict in verdicts {
            for policy in &verdict.policies {
                out.line(format!("{}: {policy}: valid", verdict.file))?;
            }
            let remarks = verdict.unsupported.iter().chain(&verdict.departures);
            for problem in remarks.chain(&verdict.refused) {
                out.line(problem)?;
            }
            if verdict.policies.is_empty() && verdict.refused.is_empty() {
                out.line(format!("{}: holds no policy", verdict.file))?;
            }
        }
        Ok(())
    })?;
    match refused {
        0 => Ok(()),
        _ => Err(ClientError::Failed(format!("{} refused", count(refused, "document")))),
    }
}

fn judge(path: &PathBuf) -> Verdict {
    let file = path.display().to_string();
    let mut verdict = Verdict { file: file.clone(), ..Verdict::default() };
    let read = fs::read_to_string(path).map_err(|error| error.to_string());
    let documents = match read.and_then(|text| objects(&text)) {
        Ok(documents) => ApiObject::all(documents),
        Err(error) => {
            verdict.refused.push(format!("{file}: {error}"));
            return verdict;
        }
    };
    for result in
        documents.iter().flat_map(|document| parse(&file, document, &PolicySettings::default()))
    {
        match result {
            Ok(policy) => {
                verdict.policies.push(policy.name.to_string());
                verdict.unsupported.extend(policy.unsupported.iter().map(ToString::to_string));
                let departures = policy.departures().into_iter();
                let named = departures.map(|it| format!("{file}: {}: {it}", policy.name));
                verdict.departures.extend(named);
            }
            Err(refused) => verdict.refused.push(refused.error.to_string()),
        }
    }
    let mut services = KnownServices::default();
    services.apply(&file, &Ok(documents), None);
    verdict.refused.extend(services.rejected().map(|(_, error)| error.to_string()));
    verdict
}
