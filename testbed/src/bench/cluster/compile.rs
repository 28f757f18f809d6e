//! All policies at once: what an agent needs from having them to every endpoint enforcing them.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use volvox_actors::host::flight::What;
use volvox_inspect::{
    flight::{self, CURRENT},
    trace::Story,
};

use super::{objects::App, policies::Cluster};
use crate::{
    bench::{Figure, Unit},
    progress::Progress,
};

/// Has the policies made while the agent is down, again and again; at the end they are there.
pub(super) fn measure(
    cluster: &mut Cluster,
    rounds: u16,
    progress: &Progress,
) -> Result<Vec<Figure>> {
    let mut compiled = Figure::new("policy.compile", Unit::Seconds).below(1.0);
    let all: Vec<_> = (0..cluster.apps).map(|app| App(app).policy()).collect();
    let places: std::collections::BTreeSet<_> = all.iter().map(|(path, _)| path.clone()).collect();
    progress.rounds("compiling policies", rounds.into(), |round| {
        if round > 0 {
            places.iter().try_for_each(|path| cluster.server.client().delete(path))?;
            cluster.wait_until_converged()?;
        }
        cluster.fleet.node.kill_agent()?;
        cluster.server.client().create_all(&all)?;
        cluster.fleet.node.exec_agent()?;
        cluster.wait_until_converged()?;
        compiled.push_time(recorded(&cluster.fleet.node.path("cilium"))?);
        Ok(())
    })?;
    Ok(vec![compiled])
}

/// How long it was, by the agent's own record, from the message that brought the policies, which
/// took the owner of the policy longest, until it heard that every endpoint enforces them.
fn recorded(state_dir: &Path) -> Result<Duration> {
    let flight = flight::open(&state_dir.join(CURRENT))?;
    let story = Story::new(&flight);
    let messages = || {
        flight.events.iter().filter_map(|event| match &event.what {
            What::Message { kind, to, enqueued, started, ended, .. }
                if *story.name(*to) == *"policy" =>
            {
                Some((&**kind, *enqueued, *started, *ended))
            }
            _ => None,
        })
    };
    let manifests = messages().filter(|(kind, ..)| *kind == "Manifests");
    let (_, brought, _, _) = manifests
        .max_by_key(|(_, _, started, ended)| ended.since(*started))
        .context("the record has no policies")?;
    let mut enforced =
        messages().filter(|(kind, _, _, ended)| *kind == "Enforced" && *ended > brought);
    let (.., ended) = enforced.next().context("the record has no end of it")?;
    Ok(ended.since(brought))
}
