//! Has pods ask, all at the same time, and judges what comes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    ConnectivityError,
    api::Api,
    exec,
    hint::hint,
    judge::{Check, Verdict, judge},
    objects::{MANAGED_BY, MANAGER},
    probe::Answer,
    report::{Failure, TestReport},
    scenarios::Stage,
    setup,
    world::World,
};

/// How long everybody may take to hear of a policy or a service.
const SETTLED: Duration = Duration::from_secs(30);
/// The same after a test in which they did not, so that a broken cluster is not waited for all day.
const IMPATIENT: Duration = Duration::from_secs(5);
/// How long is waited between rounds until then.
const PAUSE: Duration = Duration::from_millis(300);
/// What takes longer is noted.
const SLOW: Duration = Duration::from_secs(5);
/// How much longer than its probes a command may take.
const SLACK: Duration = Duration::from_secs(20);

/// Asks the pods of a run.
pub(crate) struct Asking<'a> {
    pub(crate) api: &'a Api,
    pub(crate) world: &'a World,
    /// Paths of policies that are there.
    policies: BTreeSet<String>,
    /// How long everybody may take to hear of something.
    patience: Duration,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(api: &'a Api, world: &'a World) -> Self {
        Self { api, world, policies: BTreeSet::new(), patience: SETTLED }
    }

    /// Does one stage of a test.
    pub(crate) async fn stage(
        &mut self,
        stage: &Stage,
        report: &mut TestReport,
    ) -> Result<(), ConnectivityError> {
        if let Err(ConnectivityError::Server { doing, cause, .. }) = self.put(&stage.policies).await
        {
            let reason = format!("the API server refused to {doing}: {cause}");
            report.probes += 1;
            report.failed += 1;
            report.failures.push(Failure {
                stage: stage.about.to_owned(),
                from: "volvox".to_owned(),
                to: "the API server".to_owned(),
                target: String::new(),
                reason,
                hint: String::new(),
            });
            return Ok(());
        }
        // Who has no pod to ask from is noted by the runner.
        let checks: Vec<_> = stage
            .checks
            .iter()
            .filter(|it| self.world.pods.contains_key(&it.from))
            .cloned()
            .collect();
        let began = Instant::now();
        let mut verdicts = self.round(&checks).await?;
        let wrong = |all: &[Verdict]| all.iter().any(|it| matches!(it, Verdict::Failed(_)));
        if stage.settles {
            while wrong(&verdicts) && began.elapsed() < self.patience {
                sleep(PAUSE).await;
                verdicts = self.round(&checks).await?;
            }
            if !wrong(&verdicts) {
                let after = began.elapsed();
                if after >= SLOW {
                    let after = after.as_secs_f64();
                    report.note(format!(
                        "{}: it took {after:.1} s until all had heard of it",
                        stage.about
                    ));
                }
                // It has to stay so.
                verdicts = self.round(&checks).await?;
            }
        }
        self.patience = if wrong(&verdicts) { IMPATIENT } else { SETTLED };
        for (check, verdict) in checks.iter().zip(verdicts) {
            self.count(stage.about, check, verdict, report);
        }
        if stage.ready_for > 0 {
            self.stay_ready(stage, report).await?;
        }
        Ok(())
    }

    fn count(&self, about: &str, check: &Check, verdict: Verdict, report: &mut TestReport) {
        let times = u64::from(check.target.times);
        match verdict {
            Verdict::Passed => report.probes += times,
            Verdict::NotTried(why) => {
                report.note(format!(
                    "not tried: {} from {}: {why}",
                    check.target.protocol.name(),
                    check.from
                ));
            }
            Verdict::Failed(reason) => {
                report.probes += times;
                report.failed += times;
                report.failures.push(Failure {
                    stage: about.to_owned(),
                    from: check.from.clone(),
                    to: check.to.clone(),
                    target: format!("{} {}", check.target.protocol.name(), check.target.place()),
                    reason,
                    hint: hint(self.world, check),
                });
            }
        }
    }

    /// Asks all at the same time.
    pub(crate) async fn round(&self, checks: &[Check]) -> Result<Vec<Verdict>, ConnectivityError> {
        let mut by_pod: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, check) in checks.iter().enumerate() {
            by_pod.entry(&check.from).or_default().push(number);
        }
        let mut asked = JoinSet::new();
        for (pod, numbers) in by_pod {
            let mut words = vec!["volvox".to_owned(), "probe".into(), "ask".into()];
            words.extend(numbers.iter().map(|it| checks[*it].target.to_string()));
            let longest =
                numbers.iter().map(|it| &checks[*it].target).map(|it| it.wait * it.times).max();
            let patience = longest.unwrap_or_default() + SLACK;
            let (api, path) = (self.api.clone(), self.world.pod(pod).path);
            asked.spawn(async move { (numbers, exec::lines(&api, &path, &words, patience).await) });
        }
        let mut verdicts = vec![Verdict::Failed("the pod was not asked".to_owned()); checks.len()];
        while let Some(done) = asked.join_next().await {
            let Ok((numbers, lines)) = done else { continue };
            let answers: Vec<Answer> = match lines {
                Ok(lines) => lines.iter().filter_map(|it| serde_json::from_str(it).ok()).collect(),
                // Of one pod it is told; without the server nothing can go on.
                Err(
                    error @ (ConnectivityError::Exec { .. } | ConnectivityError::Server { .. }),
                ) => {
                    numbers
                        .iter()
                        .for_each(|it| verdicts[*it] = Verdict::Failed(error.to_string()));
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (at, number) in numbers.iter().enumerate() {
                let own: Vec<_> = answers.iter().filter(|it| it.number == at).collect();
                verdicts[*number] = judge(&checks[*number], &own);
            }
        }
        Ok(verdicts)
    }

    /// Has exactly these policies be there.
    pub(crate) async fn put(&mut self, policies: &[Value]) -> Result<(), ConnectivityError> {
        for path in std::mem::take(&mut self.policies) {
            self.api.delete(&path, &json!({})).await?;
        }
        for policy in policies {
            let mut policy = policy.clone();
            policy["metadata"]["labels"] = json!({ MANAGED_BY: MANAGER });
            let list = list_of(&policy, &self.world.namespace);
            self.api.create(&list, &policy).await?;
            let name = policy["metadata"]["name"].as_str().unwrap_or_default();
            self.policies.insert(format!("{list}/{name}"));
        }
        Ok(())
    }

    /// The kubelet asks each pod every second: they have to be ready all the time.
    async fn stay_ready(
        &self,
        stage: &Stage,
        report: &mut TestReport,
    ) -> Result<(), ConnectivityError> {
        let until = Instant::now() + Duration::from_secs(stage.ready_for);
        let mut failed = BTreeMap::new();
        while Instant::now() < until {
            sleep(PAUSE).await;
            for pod in setup::pods(self.api, &self.world.namespace).await? {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if let Some(why) =
                    self.world.pods.contains_key(&name).then(|| volvox_install::trouble(&pod))
                {
                    failed.extend(why.map(|why| (name, why)));
                }
            }
        }
        report.probes += self.world.pods.len() as u64;
        report.failed += failed.len() as u64;
        for (name, why) in failed {
            report.failures.push(Failure {
                stage: stage.about.to_owned(),
                from: "the kubelet".to_owned(),
                hint: format!("kubectl -n {} describe pod {name}", self.world.namespace),
                to: name,
                target: String::new(),
                reason: why,
            });
        }
        Ok(())
    }
}

/// Where policies of that kind are made.
pub(crate) fn list_of(policy: &Value, namespace: &str) -> String {
    let version = policy["apiVersion"].as_str().unwrap_or_default();
    let plural = match policy["kind"].as_str() {
        Some("CiliumNetworkPolicy") => "ciliumnetworkpolicies",
        _ => "networkpolicies",
    };
    format!("/apis/{version}/namespaces/{namespace}/{plural}")
}
