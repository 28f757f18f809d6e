//! `volvox verify`: whether a living node is as it is to be. Kernel, disk and what the agent wants are read
//! and compared; nothing is changed.
//!
//! A node that works changes meanwhile: what differs is looked at again, and only what still differs in the
//! same way is told.

mod kernel;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use serde::Serialize;
use volvox_actors::{
    node::verification::{DesiredNode, Evidence, Guarantee, NodeDifference, differences},
    state_directory::scan,
};
use volvox_inspect::state_files::StateDirectory;
use volvox_rest::{RestClient, RestError};

use super::{
    error::ClientError,
    output::{Output, count},
};

/// Between two looks: longer than an endpoint is built, shorter than one waits for an answer.
const PAUSE: Duration = Duration::from_secs(2);
/// How often is looked, at most, while something differs.
const LOOKS: usize = 3;
/// Exit codes of broken guarantees begin here.
const EXIT_BASE: u8 = 10;

#[derive(Debug, Args)]
pub(super) struct VerifyArguments {
    /// Directory of what outlives a boot
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cilium")]
    lib_dir: PathBuf,
    /// Fail if no agent answers: then nobody says which policies and services there are to be
    #[arg(long)]
    agent: bool,
}

/// What was looked at, and what differs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Verdict {
    /// Endpoints that were compared.
    endpoints: usize,
    /// Services that were compared; none without an agent.
    services: Option<usize>,
    /// Why no agent said what it wants, if none did.
    agent: Option<String>,
    /// Numbers of the guarantees of which something differs.
    broken: BTreeSet<u8>,
    differences: Vec<NodeDifference>,
}

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    (bpf_root, state_dir): (&Path, &Path),
    arguments: &VerifyArguments,
) -> Result<(), ClientError> {
    let directory = StateDirectory::new(state_dir.join("state"), &arguments.lib_dir);
    let mut found: Option<Verdict> = None;
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let mut verdict = self::look(client, bpf_root, &directory).await?;
        if let (Some(why), true) = (&verdict.agent, arguments.agent) {
            return Err(ClientError::Failed(format!(
                "{why}; start the agent, or leave out --agent"
            )));
        }
        if let Some(before) = &found {
            verdict.differences.retain(|it| before.differences.contains(it));
        }
        let settled =
            found.as_ref().is_some_and(|it| it.differences.len() == verdict.differences.len());
        let is_done = verdict.differences.is_empty() || settled;
        found = Some(verdict);
        if is_done {
            break;
        }
    }
    let Some(mut verdict) = found else { return Ok(()) };
    verdict.broken = verdict.differences.iter().map(|it| it.guarantee.number()).collect();
    out.answer(&verdict, show)?;
    match verdict.broken.first() {
        None => Ok(()),
        Some(worst) => Err(ClientError::Differs { code: EXIT_BASE + worst }),
    }
}

/// The three sides, at one moment as near as can be.
async fn look(
    client: &RestClient,
    bpf_root: &Path,
    directory: &StateDirectory,
) -> Result<Verdict, ClientError> {
    let (desired, agent) = match client.get::<DesiredNode>("/volvox/desired").await {
        Ok(desired) => (Some(desired), None),
        Err(error @ RestError::Unreachable { .. }) => (None, Some(error.to_string())),
        Err(error) if error.status() == Some(404) => {
            (None, Some("the agent is of a version that does not say what it wants".to_owned()))
        }
        Err(error) => return Err(error.into()),
    };
    let kernel = Arc::new(kernel::read(bpf_root)?);
    let disk = Arc::new(scan(directory));
    let endpoints = desired.as_ref().map_or(disk.records.len(), |it| it.endpoints.len());
    let services = desired.as_ref().map(|desired| desired.services.len());
    let differences = differences(&Evidence { kernel, disk, desired });
    Ok(Verdict { endpoints, services, agent, broken: BTreeSet::new(), differences })
}

fn show(out: &mut Output<'_>, verdict: &Verdict) -> Result<(), ClientError> {
    let services = verdict.services.map(|services| format!(" and {}", count(services, "service")));
    out.line(format!(
        "{}{} compared: kernel, disk{}",
        count(verdict.endpoints, "endpoint"),
        services.unwrap_or_default(),
        if verdict.agent.is_none() { " and agent" } else { "" }
    ))?;
    if let Some(why) = &verdict.agent {
        out.line(format!(
            "No agent says what it wants, so policies and services are not compared: {why}"
        ))?;
    }
    let mut all: BTreeMap<Guarantee, Vec<&NodeDifference>> = BTreeMap::new();
    for difference in &verdict.differences {
        all.entry(difference.guarantee).or_default().push(difference);
    }
    out.line("")?;
    let rows = Guarantee::ALL.map(|guarantee| {
        let found = all.get(&guarantee).map_or(0, Vec::len);
        let verdict = match found {
            0 => "well".to_owned(),
            1 => "1 thing differs".to_owned(),
            found => format!("{found} things differ"),
        };
        [guarantee.number().to_string(), guarantee.about().to_owned(), verdict]
    });
    out.table(["GUARANTEE", "WHAT IT SAYS", "FOUND"], rows)?;
    for (guarantee, found) in all {
        out.line(format!("\n{} ({}):", guarantee.about(), guarantee.number()))?;
        for difference in found {
            out.line(format!("  {}: {}", difference.about, difference.found))?;
            out.line(format!("    {}", difference.remedy))?;
        }
    }
    Ok(())
}
