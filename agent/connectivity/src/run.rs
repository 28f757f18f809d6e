//! A run from its beginning to its end.

use std::time::Instant;

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use volvox_install::Cluster;

use crate::{
    ConnectivityError, Options, Outcome, Report, Say, TestReport,
    api::Api,
    asking::Asking,
    claim::{Claim, Pace, holder},
    objects::{self, MANAGED_BY, MANAGER},
    restart,
    scenarios::{self, Plan, Scenario},
    setup,
    world::{self, World},
};

/// The longest name: that of the other namespace has to be one, too.
const LONGEST: usize = 57;

/// Does all of it. The report tells what was tried also where it ended before its end.
pub async fn test(
    cluster: &Cluster,
    options: &Options,
    say: Say<'_>,
) -> (Report, Result<(), ConnectivityError>) {
    let began = Instant::now();
    let mut report = Report { namespace: options.namespace.clone(), ..Report::default() };
    let api = Api::of(cluster);
    let outcome = with(&api, options, &mut report, say).await;
    report.seconds = began.elapsed().as_secs_f64();
    report.error = outcome.as_ref().err().map(ToString::to_string);
    (report, outcome)
}

pub(crate) async fn with(
    api: &Api,
    options: &Options,
    report: &mut Report,
    say: Say<'_>,
) -> Result<(), ConnectivityError> {
    let chosen = scenarios::chosen(&options.tests)?;
    check(options)?;
    let mut claim = Claim::new(api, Pace::default());
    let tried = tokio::select! {
        tried = tried(api, options, &chosen, &mut claim, report, say) => tried,
        () = interrupted() => Err(ConnectivityError::Interrupted),
    };
    if matches!(tried, Err(ConnectivityError::Interrupted)) {
        say("interrupted: what was made is removed; interrupt again to leave it");
    }
    if options.keep {
        claim.keep();
        say(&format!(
            "namespaces {0} and {0}-other are left: the next run removes them",
            options.namespace
        ));
        return tried;
    }
    let released = tokio::select! {
        released = claim.release(say) => released,
        () = interrupted() => {
            say("what is left is removed by the next run");
            Err(ConnectivityError::Interrupted)
        }
    };
    tried.and(released)
}

/// What can be refused before the cluster is asked.
fn check(options: &Options) -> Result<(), ConnectivityError> {
    let name = &options.namespace;
    let good = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    if name.is_empty()
        || name.len() > LONGEST
        || !name.chars().all(good)
        || name.starts_with('-')
        || name.ends_with('-')
    {
        return Err(ConnectivityError::Usage(format!(
            "--namespace is {name:?}: write at most {LONGEST} small letters, digits and dashes"
        )));
    }
    if options.nodes.len() > 2 {
        return Err(ConnectivityError::Usage(
            "--node is given more than twice: two nodes take part".to_owned(),
        ));
    }
    options.external.as_deref().map(world::host_and_port).transpose().map(drop)
}

async fn interrupted() {
    // Without a handler the signal ends the program, as it does everywhere.
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut by_hand), Ok(mut by_others)) => {
            tokio::select! { _ = by_hand.recv() => {}, _ = by_others.recv() => {} }
        }
        _ => std::future::pending().await,
    }
}

async fn tried(
    api: &Api,
    options: &Options,
    chosen: &[Scenario],
    claim: &mut Claim,
    report: &mut Report,
    say: Say<'_>,
) -> Result<(), ConnectivityError> {
    let image = setup::image(api, options).await?;
    let nodes = setup::nodes(api, options).await?;
    report.nodes = nodes.iter().map(|it| it.name.clone()).collect();
    report.image.clone_from(&image);
    say(&format!(
        "nodes {}, namespace {}, image {image}",
        report.nodes.join(" and "),
        options.namespace
    ));
    claim.take(&options.namespace, &holder(), say).await?;
    let mut world = World {
        namespace: options.namespace.clone(),
        nodes,
        features: setup::features(api).await?,
        external: options.external.as_deref().map(world::host_and_port).transpose()?,
        ..World::default()
    };
    setup::make(api, options, &image, &mut world, say).await?;
    for (name, why) in &world.absent {
        report
            .notes
            .push(format!("pod {name} is not there, and what needs it is not tried: {why}"));
    }
    let mut asking = Asking::new(api, &world);
    for (number, scenario) in chosen.iter().enumerate() {
        let done = one(&mut asking, options, scenario).await?;
        say(&format!("[{:2}/{}] {}", number + 1, chosen.len(), done.line()));
        report.tests.push(done);
    }
    if report.count(Outcome::Failed) > 0 {
        report.notes.extend(foreign(api, &world).await?);
    }
    Ok(())
}

/// One test.
async fn one(
    asking: &mut Asking<'_>,
    options: &Options,
    scenario: &Scenario,
) -> Result<TestReport, ConnectivityError> {
    let began = Instant::now();
    let mut report = TestReport::new(scenario.name, scenario.about);
    if scenario.part.is_some_and(|part| options.skip.contains(&part)) {
        return Ok(report.not_tried("it is left out by --skip"));
    }
    let report = match (scenario.plan)(asking.world) {
        Plan::NotTried(why) => report.not_tried(why),
        Plan::Restart => restart::restart(asking, options, report).await?,
        Plan::Stages(stages) => {
            for stage in &stages {
                asking.stage(stage, &mut report).await?;
            }
            asking.put(&[]).await?;
            untried(report)
        }
    };
    Ok(report.ended(began.elapsed()))
}

/// A test of which no probe could be asked was not tried.
fn untried(report: TestReport) -> TestReport {
    if report.probes > 0 {
        return report;
    }
    let why = report.notes.first().cloned();
    report.not_tried(why.unwrap_or_else(|| "the pods that it needs are not there".to_owned()))
}

/// Policies of others that hold for the pods of the test.
async fn foreign(api: &Api, world: &World) -> Result<Vec<String>, ConnectivityError> {
    let mut lists = Vec::new();
    for namespace in [world.namespace.clone(), objects::other(&world.namespace)] {
        lists.push((
            "NetworkPolicy",
            format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"),
        ));
        lists.push((
            "CiliumNetworkPolicy",
            format!("/apis/cilium.io/v2/namespaces/{namespace}/ciliumnetworkpolicies"),
        ));
    }
    lists.push((
        "CiliumClusterwideNetworkPolicy",
        "/apis/cilium.io/v2/ciliumclusterwidenetworkpolicies".to_owned(),
    ));
    let mut notes = Vec::new();
    for (kind, list) in lists {
        // Who may not see them is told less.
        for policy in api.list(&list).await.unwrap_or_default() {
            let metadata = &policy["metadata"];
            if metadata["labels"][MANAGED_BY] != MANAGER {
                notes.push(format!(
                    "{kind} {} is not of the test and may hold for its pods",
                    named(metadata)
                ));
            }
        }
    }
    Ok(notes)
}

fn named(metadata: &Value) -> String {
    let name = metadata["name"].as_str().unwrap_or_default();
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}
