//! A stretch of a gauntlet: traffic and judge of their own, an operation in which the agent dies, and the
//! way back to the beginning.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use volvox_actors::node::verification::NodeDifference;

use super::{World, flows::Flows};
use crate::{
    chaos::history::{Build, Manifest, Step},
    judge::{Judge, leftovers, more},
    lab::Injection,
};

/// Between two questions to an agent whose calls are counted: they are calls, too.
const SELDOM: Duration = Duration::from_millis(25);
/// What is cleared away in the background takes its time.
const CLEARED: Duration = Duration::from_secs(300);

impl World<'_> {
    /// Begins traffic, and looks on.
    pub(in crate::chaos) fn begin_judging(&mut self) -> Result<()> {
        self.judge = Judge::begin(&self.node)?;
        let pods: Vec<_> = self.pods.values().map(|member| &member.pod).collect();
        self.judge.watch(&pods)?;
        self.flows = Flows::default();
        let history = self.history;
        self.begin_traffic(&history.traffic)
    }

    /// Fails if somebody noticed anything, or if something is left of what went.
    pub(in crate::chaos) fn end_judging(&mut self) -> Result<()> {
        let next = Judge::begin(&self.node)?;
        let judgement = std::mem::replace(&mut self.judge, next).end(&self.node)?;
        ensure!(
            judgement.is_clean(),
            "lost {}, let through {}, moved {} ({}), without a program {}, volvox verify: {}",
            judgement.lost(),
            judgement.let_through,
            judgement.moved,
            judgement.changes.join("; "),
            judgement.dips,
            each(&judgement.differences),
        );
        let begun = Instant::now();
        loop {
            let more = more(&leftovers(&self.node)?, &self.before);
            if more.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > CLEARED {
                bail!("what went leaves {more:?}");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Notes all calls of a living agent while something is done.
    pub(in crate::chaos) fn note_calls(&mut self, operation: &Step, file: &Path) -> Result<()> {
        let pid = self.node.agent()?.pid();
        let recording = Injection::note(pid, file)?;
        self.step(operation)?;
        self.seldom(Self::wait_until_applied)?;
        drop(recording);
        Ok(())
    }

    /// Notes all calls of a start of an agent, until all is ready and restored.
    pub(in crate::chaos) fn note_start(&mut self, operation: &Step) -> Result<std::path::PathBuf> {
        let file = self.node.trace_all_calls("all-calls");
        self.step(operation)?;
        self.node.wait_until_restored()?;
        self.kill()?;
        self.node.trace_no_calls();
        self.node.exec_agent()?;
        self.wait_until_ready()?;
        Ok(file)
    }

    /// Does something to a living agent that dies before that call, if it makes so many; whether it died. An
    /// agent runs behind it.
    pub(in crate::chaos) fn dies_in(
        &mut self,
        operation: &Step,
        call: &str,
        nth: u32,
    ) -> Result<bool> {
        let restarted = self.restarted;
        self.step(&Step::KillBefore { call: call.to_owned(), nth, restarts: true })?;
        self.step(operation)?;
        let finished = self.seldom(Self::wait_until_applied);
        // From here on nobody kills it any more; a moment ago it still may have been.
        self.doom = None;
        self.restart_the_dead()?;
        self.restarts = false;
        let died = self.restarted > restarted;
        if !died {
            finished?;
        }
        self.wait_until_ready()?;
        self.wait_until_applied()?;
        Ok(died)
    }

    /// Starts an agent that dies before that call, if it makes so many before all is ready; whether it died.
    /// Another one runs behind it.
    pub(in crate::chaos) fn dies_at_start(
        &mut self,
        operation: &Step,
        call: &str,
        nth: u32,
    ) -> Result<bool> {
        if let Step::Upgrade(build, _) = operation {
            self.switch_to(*build)?;
        }
        self.kill()?;
        self.node.doom(call, nth);
        self.node.exec_agent()?;
        let count = self.pods.len();
        let lives = self.node.ready_or_ended(count)? && self.node.wait_until_restored().is_ok();
        let died = !lives || !self.node.has_agent();
        self.kill()?;
        self.node.exec_agent()?;
        self.wait_until_ready()?;
        Ok(died)
    }

    /// Undoes an operation: all is as in the beginning.
    pub(in crate::chaos) fn undo(&mut self, operation: &Step) -> Result<()> {
        let history = self.history;
        let labels = |name| {
            let found = history.pods.iter().find(|(pod, _)| pod == name);
            found.map(|(_, labels)| labels).with_context(|| format!("{name} is no pod"))
        };
        match operation {
            Step::Create { pod, .. } => self.step(&Step::DeletePod(pod.clone()))?,
            Step::DeletePod(pod) if !self.pods.contains_key(pod) => self.make(pod, labels(pod)?)?,
            Step::Label { pod, .. } => {
                let labels = labels(pod)?.clone();
                self.step(&Step::Label { pod: pod.clone(), labels })?;
            }
            Step::Apply(manifests) => {
                let before = |manifest: &Manifest| {
                    history.manifests.iter().find(|it| it.name == manifest.name).cloned()
                };
                let before: Vec<_> = manifests.iter().filter_map(before).collect();
                self.apply(&before)?;
            }
            Step::Upgrade(..) => self.step(&Step::Upgrade(Build::Usual, Vec::new()))?,
            _ => {}
        }
        self.wait_until_ready()?;
        self.wait_until_applied()
    }

    /// After something broke: an agent runs, and all is as in the beginning.
    pub(in crate::chaos) fn recover(&mut self, operation: &Step) -> Result<()> {
        self.switch_to(Build::Usual)?;
        self.kill()?;
        self.node.exec_agent()?;
        self.wait_until_ready()?;
        if matches!(operation, Step::Create { pod, .. } if !self.pods.contains_key(pod)) {
            return self.wait_until_applied();
        }
        self.undo(operation)
    }

    fn seldom(&mut self, wait: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.node.look_every(Some(SELDOM));
        let waited = wait(self);
        self.node.look_every(None);
        waited
    }
}

/// All that differs, in words.
fn each(differences: &[NodeDifference]) -> String {
    if differences.is_empty() {
        return "nothing".to_owned();
    }
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
