//! `volvox map events`: what was written to the kernel's maps, by whom and whether the kernel took it. It is
//! read from the flight recorder, so it works without the agent, and for lives that are over.

use std::path::Path;

use serde::Serialize;
use volvox_actors::host::flight::{Event, What};
use volvox_inspect::trace::{Line, Story, lines};

use super::{
    args::{Lifetime, MapCommand},
    error::ClientError,
    output::{Listed, Output, shown},
    trace::{self, Followed},
};

/// A step in the kernel that wrote to maps.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct MapEvent {
    time: String,
    maps: Vec<&'static str>,
    step: String,
    about: String,
    actor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Listed for MapEvent {
    const HEADINGS: &'static [&'static str] = &["TIME", "MAP", "STEP", "ABOUT", "ACTOR", "RESULT"];

    fn cells(&self) -> Vec<String> {
        let result = self.failed.as_ref().map_or("ok".to_owned(), |why| format!("FAILED: {why}"));
        let Self { time, maps, step, about, actor, .. } = self;
        vec![time.clone(), maps.join("\n"), step.clone(), about.clone(), actor.clone(), result]
    }
}

pub(super) async fn run(
    out: &mut Output<'_>,
    state_dir: &Path,
    command: &MapCommand,
) -> Result<(), ClientError> {
    let MapCommand::Events { map, follow, last, life } = command;
    let flight = trace::read(state_dir, life)?;
    let story = Story::new(&flight);
    let mut events = of_maps(&story, story.flight.events.iter(), map.as_deref());
    if *last > 0 {
        events.drain(..events.len().saturating_sub(*last));
    }
    if !*follow {
        return shown(out, &events);
    }
    if *life != Lifetime::Current {
        return Err(ClientError::Usage("--follow is of the life that goes on".to_owned()));
    }
    show(out, &events)?;
    let mut followed = Followed::after(&flight);
    loop {
        let (flight, fresh) = followed.next(state_dir).await?;
        let story = Story::new(&flight);
        let fresh = story.flight.events.iter().filter(|event| fresh.contains(&event.seq));
        show(out, &of_maps(&story, fresh, map.as_deref()))?;
    }
}

fn show(out: &mut Output<'_>, events: &[MapEvent]) -> Result<(), ClientError> {
    for event in events {
        match out.is_for_programs() {
            true => out.record(event)?,
            false => out.line(
                event.cells().iter().map(|it| it.replace('\n', ",")).collect::<Vec<_>>().join("  "),
            )?,
        }
    }
    out.flush()
}

fn of_maps<'a>(
    story: &Story<'a>,
    events: impl Iterator<Item = &'a Event>,
    map: Option<&str>,
) -> Vec<MapEvent> {
    let event = |event: &'a Event| {
        let What::Kernel { op, about, write: true, failed, .. } = &event.what else { return None };
        let maps = maps(op);
        let is_meant = map.is_none_or(|part| maps.iter().any(|name| name.contains(part)));
        let Line { time, actor, .. } = lines(story, &[event]).pop()?;
        (is_meant && !maps.is_empty()).then(|| MapEvent {
            time,
            maps: maps.to_vec(),
            step: op.to_string(),
            about: about.to_string(),
            actor,
            failed: failed.as_ref().map(ToString::to_string),
        })
    };
    events.filter_map(event).collect()
}

/// The maps that a step writes to; none if it writes to other things.
fn maps(step: &str) -> &'static [&'static str] {
    match step {
        "BuildPolicy" | "FlipPolicy" | "PutPolicyRow" | "DeletePolicyRow" | "ClearSlot" => {
            &["volvox_policy"]
        }
        "PinPolicy" | "UnpinPolicy" => &["cilium_policy_v2"],
        "PutConfig" | "DeleteConfig" => &["volvox_config"],
        "PutLxc" | "DeleteLxc" => &["cilium_lxc"],
        "PutEndpoint" | "DeleteEndpoint" => &["volvox_endpoint"],
        "PutIpcache" | "DeleteIpcache" => &["cilium_ipcache_v2"],
        "PutNode" => &["volvox_node"],
        "PutDevice" | "DeleteDevice" => &["volvox_device"],
        "PutUnmasqueraded" | "DeleteUnmasqueraded" => &["cilium_ipmasq_v4", "cilium_ipmasq_v6"],
        "PutUnusedNumbers" => &["volvox_lb"],
        "PutServiceSlots" | "DeleteServiceSlots" => {
            &["cilium_lb4_services_v2", "cilium_lb6_services_v2"]
        }
        "PutBackends" | "DeleteBackends" => &["cilium_lb4_backends_v3", "cilium_lb6_backends_v3"],
        "PutMembers" | "DeleteMembers" => &["volvox_lb4_members", "volvox_lb6_members"],
        "PutReverseNat" | "DeleteReverseNat" => {
            &["cilium_lb4_reverse_nat", "cilium_lb6_reverse_nat"]
        }
        "PutAffinityMatches" | "DeleteAffinityMatches" => &["cilium_lb_affinity_match"],
        "PutSourceRanges" | "DeleteSourceRanges" => {
            &["cilium_lb4_source_range", "cilium_lb6_source_range"]
        }
        "PutMaglev" | "DeleteMaglev" => &["cilium_lb4_maglev", "cilium_lb6_maglev"],
        "ScrubConntrack" | "CollectConntrack" => &[
            "cilium_ct4_global",
            "cilium_ct6_global",
            "cilium_ct_any4_global",
            "cilium_ct_any6_global",
        ],
        _ => &[],
    }
}
