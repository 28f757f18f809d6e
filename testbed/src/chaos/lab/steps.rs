//! What each step does to a node of the lab.

use std::{thread, time::Duration};

use anyhow::{Context, Result, ensure};

use super::{Member, World, broken};
use crate::{
    chaos::history::{Build, Labels, Manifest, ManifestName, Name, Span, Step, Wait},
    judge::significant_time,
    lab::{Injection, Inventory, PATIENCE, Pod, build},
};

impl World<'_> {
    pub(super) fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Create { pod, labels } => self.make(pod, labels),
            Step::DeletePod(pod) => self.delete(pod),
            Step::Label { pod, labels } => self.label(pod, labels),
            Step::Apply(manifests) => self.apply(manifests),
            Step::DeleteManifest(name) => self.take_away(name),
            Step::Traffic(flows) => self.begin_traffic(flows),
            Step::Wait(Wait::Ready) => self.wait_until_ready(),
            Step::Wait(Wait::Applied) => self.wait_until_applied(),
            Step::Wait(Wait::Dead) => self.wait_until_dead(),
            Step::Sleep(span) => {
                thread::sleep(self.time(*span));
                Ok(())
            }
            Step::Kill => self.kill(),
            Step::KillAfter(span) => {
                thread::sleep(self.time(*span));
                self.kill()
            }
            Step::KillBefore { call, nth } => {
                let pid = self.node.agent()?.pid();
                let effect = format!("signal=KILL:when={nth}");
                self.doom = Some(Injection::attach(pid, call, &effect)?);
                Ok(())
            }
            Step::Stop => {
                self.doom = None;
                self.node.stop_agent()
            }
            Step::Start(deaths) => {
                self.bury();
                self.die(deaths)?;
                self.node.exec_agent()
            }
            Step::Restart(deaths) => {
                self.kill()?;
                self.die(deaths)?;
                self.node.exec_agent()?;
                self.wait_until_ready()
            }
            Step::Flags(flags) => {
                for (flag, value) in flags {
                    self.node.set_flag(flag, Some(value));
                }
                Ok(())
            }
            Step::Upgrade(which) => self.upgrade(*which),
            Step::Fault(fault) => self.fault(fault),
            Step::Repeat { .. } => unreachable!("it is taken apart before"),
        }
    }

    /// A time, drawn if it is to be.
    pub(super) fn time(&mut self, span: Span) -> Duration {
        match span {
            Span::Exactly(time) => time,
            Span::Within(longest) => self.random.below(longest),
        }
    }

    /// Makes a pod. If the agent dies meanwhile, it is made once there is one again, as a kubelet does it.
    pub(super) fn make(&mut self, name: &Name, labels: &Labels) -> Result<()> {
        let list: Vec<_> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        let mut pod = Pod::planned(&self.node, &name.full(), &list)?;
        if let Err(error) = pod.add(&self.node) {
            if self.node.has_agent() {
                return broken(Err(error.context(format!("pod {name} cannot be made"))));
            }
            pod.delete(&self.node).with_context(|| format!("pod {name}, which was not made"))?;
            self.pending.insert(name.clone(), labels.clone());
            return Ok(());
        }
        self.judge.watch(&[&pod])?;
        let member = Member { pod, labels: labels.clone(), responders: Default::default() };
        self.pods.insert(name.clone(), member);
        self.follow_services()
    }

    fn delete(&mut self, name: &Name) -> Result<()> {
        if self.pending.remove(name).is_some() {
            return Ok(());
        }
        let Member { pod, labels, responders } = self.pods.remove(name).context("no such pod")?;
        // It answers until nobody is sent to it any more, as a container that is given time to end.
        self.follow_services()?;
        if self.node.has_agent() && self.is_behind_a_service(&labels, &name.namespace) {
            self.wait_for_services()?;
        }
        self.judge.unwatch(&pod);
        self.judge.inventory().leave(&pod.container_id);
        drop(responders);
        broken(pod.delete(&self.node))
    }

    fn label(&mut self, name: &Name, labels: &Labels) -> Result<()> {
        if let Some(pending) = self.pending.get_mut(name) {
            *pending = labels.clone();
            return Ok(());
        }
        let member = self.pods.get_mut(name).context("no such pod")?;
        member.labels = labels.clone();
        self.judge.inventory().is_relabelled(&member.pod.container_id);
        let list: Vec<_> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        member.pod.write_labels(&self.node, &list)?;
        self.follow_services()
    }

    pub(super) fn apply(&mut self, manifests: &[Manifest]) -> Result<()> {
        for Manifest { name, object } in manifests {
            let mut object = object.clone();
            if name.kind == "service" {
                self.give_addresses(name, &mut object);
            } else {
                self.node.write_manifest(&file(name), &object.to_string())?;
            }
            self.manifests.insert(name.clone(), object);
        }
        self.follow_services()
    }

    fn take_away(&mut self, name: &ManifestName) -> Result<()> {
        self.manifests.remove(name).context("no such manifest")?;
        if name.kind != "service" {
            self.node.remove_manifest(&file(name))?;
        }
        self.follow_services()
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        if !self.node.has_agent() {
            self.bury();
            return Ok(());
        }
        let killed = self.node.kill_agent();
        self.doom = None;
        killed
    }

    /// Forgets an agent that died, and what killed it.
    pub(super) fn bury(&mut self) {
        self.node.bury_agent();
        self.doom = None;
    }

    fn wait_until_dead(&mut self) -> Result<()> {
        let what = "the agent does not make the call before which it is to die: have it do something \
                    more in front of this step";
        crate::lab::wait_for(what, || Ok(!self.node.has_agent()))?;
        self.bury();
        Ok(())
    }

    /// Waits until every pod that there is, and that was to be made, is ready.
    pub(super) fn wait_until_ready(&mut self) -> Result<()> {
        if !self.node.has_agent() && self.doom.is_some() {
            // It died as it was told: the next one is waited for.
            self.bury();
            self.node.exec_agent()?;
        }
        let api = broken(self.node.wait_for_api())?;
        for (name, labels) in std::mem::take(&mut self.pending) {
            self.make(&name, &labels)?;
        }
        let count = self.pods.len();
        let ready = broken(self.node.wait_for_ready(count))?;
        self.lives.push(super::Life { api, ready });
        // Who was there keeps what it has; who came has it from now on.
        let found = Inventory::read(&self.node)?;
        self.judge.inventory().learn(&found);
        Ok(())
    }

    fn upgrade(&mut self, which: Build) -> Result<()> {
        let binaries = match which {
            Build::Usual => self.usual.clone(),
            Build::Other => self.usual.with_agent(&build::other_agent()?),
        };
        self.node.switch_to(binaries);
        self.kill()?;
        self.node.exec_agent()?;
        self.wait_until_ready()
    }

    /// The longest of the starts that were waited for.
    pub(super) fn longest(
        &self,
        which: impl Fn(&super::Life) -> Duration,
    ) -> Result<(Duration, String)> {
        ensure!(!self.lives.is_empty(), "no start was waited for, within {PATIENCE:?}");
        let longest = self.lives.iter().map(which).max().unwrap_or_default();
        Ok((longest, format!("of {} starts, {}", self.lives.len(), significant_time(longest))))
    }
}

/// What the file of a manifest is called.
pub(super) fn file(name: &ManifestName) -> String {
    format!("{}-{}-{}.yaml", name.kind, name.name.namespace, name.name.name)
}
