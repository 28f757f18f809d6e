//! `volvox policy validate`: judges manifests without the agent.

use std::{fs, path::PathBuf};

use serde::Serialize;
use volvox_actors::{
    model::ApiObject,
    policy::rules::{Effect, KnownServices, PolicySettings, parse},
};
use volvox_inspect::manifests::objects;

use crate::{
    error::ClientError,
    output::{Output, count},
};

/// What is found in one manifest.
#[derive(Debug, Default, Serialize)]
struct Verdict {
    file: String,
    policies: Vec<String>,
    /// Parts that are not supported, by which a rule fails closed.
    #[serde(rename = "fails-closed")]
    fails_closed: Vec<String>,
    /// Parts that are switched off.
    unsupported: Vec<String>,
    departures: Vec<String>,
    refused: Vec<String>,
}

/// Says what is wrong with manifests. Fails over a document that is refused, and over a file without a policy unless
/// those are meant to be there; if it is to be strict, also over a rule that fails closed.
pub(super) fn run(
    out: &mut Output<'_>,
    files: &[PathBuf],
    allow_empty: bool,
    strict: bool,
) -> Result<(), ClientError> {
    let verdicts: Vec<Verdict> = files.iter().map(judge).collect();
    let refused: usize = verdicts.iter().map(|verdict| verdict.refused.len()).sum();
    let empty = verdicts.iter().filter(|verdict| verdict.is_empty()).count();
    let closed: usize = verdicts.iter().map(|verdict| verdict.fails_closed.len()).sum();
    out.answer(&verdicts, |out, verdicts| verdicts.iter().try_for_each(|it| show(out, it)))?;
    let mut wrong = Vec::new();
    if refused > 0 {
        wrong.push(format!("{} refused", count(refused, "document")));
    }
    if empty > 0 && !allow_empty {
        wrong.push(format!(
            "{} without a policy (--allow-empty takes that for right)",
            count(empty, "file")
        ));
    }
    if strict && closed > 0 {
        wrong.push(format!("{} of rules that fail closed", count(closed, "part")));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(ClientError::Failed(wrong.join(", "))),
    }
}

fn show(out: &mut Output<'_>, verdict: &Verdict) -> Result<(), ClientError> {
    for policy in &verdict.policies {
        out.line(format!("{}: {policy}: valid", verdict.file))?;
    }
    for part in &verdict.fails_closed {
        out.line(format!("{part} (the rule fails closed; --strict refuses it)"))?;
    }
    verdict
        .unsupported
        .iter()
        .chain(&verdict.departures)
        .chain(&verdict.refused)
        .try_for_each(|text| out.line(text))?;
    match verdict.is_empty() {
        true => out.line(format!("{}: holds no policy", verdict.file)),
        false => Ok(()),
    }
}

impl Verdict {
    fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.refused.is_empty()
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
                for part in &policy.unsupported {
                    match part.effect {
                        Effect::SelectsNothing => verdict.unsupported.push(part.to_string()),
                        _ => verdict.fails_closed.push(part.to_string()),
                    }
                }
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
