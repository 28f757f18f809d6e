//! What each step does to a node of the lab.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::{Member, World, broken};
use crate::{
    chaos::history::{Build, Death, Labels, Manifest, ManifestName, Name, Span, Step, Wait},
    judge::significant_time,
    lab::{Injection, Inventory, PATIENCE, Pod, build, cni},
};

impl World<'_> {
    pub(in crate::chaos) fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Create { pod, labels } => self.make(pod, labels),
            Step::Cancel { pod, labels, after } => self.cancel(pod, labels, *after),
            Step::Crash(_) | Step::KillAfterMessages(_) => {
                bail!("it happens in the simulator alone")
            }
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
            Step::KillBefore { call, nth, restarts } => {
                let pid = self.node.agent()?.pid();
                let effect = format!("signal=KILL:when={nth}");
                self.doom = Some(Injection::attach(pid, call, &effect)?);
                self.restarts = *restarts;
                Ok(())
            }
            Step::Stop => {
                (self.doom, self.restarts) = (None, false);
                self.forget_scarcity();
                self.died();
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
            Step::Upgrade(which, deaths) => self.upgrade(*which, deaths),
            Step::Reach(reach) => self.try_to_reach(reach),
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
        let mut pod = self.planned(name, labels)?;
        let (restarted, begun) = (self.restarted, Instant::now());
        let added = self.plugin("ADD", &pod).and_then(|answer| pod.was_added(&answer, begun));
        if let Err(error) = added {
            if self.node.has_agent() && self.restarted == restarted {
                return broken(Err(error.context(format!(
                    "pod {name} cannot be made; the end of the agent's log:\n{}",
                    self.node.log_end()
                ))));
            }
            if self.retries_late {
                self.half_made.push(pod);
            } else {
                self.remove(&pod).with_context(|| format!("pod {name}, which was not made"))?;
            }
            self.pending.insert(name.clone(), labels.clone());
            return Ok(());
        }
        self.judge.watch(&[&pod])?;
        let member = Member { pod, labels: labels.clone(), responders: Default::default() };
        self.pods.insert(name.clone(), member);
        self.follow_services()
    }

    /// Begins to make a pod, and gives up: the plugin dies, and is called to remove what there is.
    fn cancel(&mut self, name: &Name, labels: &Labels, after: Span) -> Result<()> {
        let pod = self.planned(name, labels)?;
        let running = cni::Running::begin(&self.node, "ADD", &pod)?;
        thread::sleep(self.time(after));
        running.kill()?;
        self.remove(&pod).with_context(|| format!("pod {name}, whose making was given up"))
    }

    /// A pod that the agent can know of, before the plugin is called.
    fn planned(&mut self, name: &Name, labels: &Labels) -> Result<Pod> {
        let list: Vec<_> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        match &mut self.around.servers.cluster {
            Some(cluster) => {
                let uid = cluster.pod(name, labels)?;
                Pod::planned_in_cluster(&name.full(), &uid)
            }
            None => Pod::planned(&self.node, &name.full(), &list),
        }
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
        broken(self.remove(&pod))
    }

    /// Removes a pod by the plugin. If the agent dies over it, it is tried once more, as a runtime does.
    pub(super) fn remove(&mut self, pod: &Pod) -> Result<()> {
        let restarted = self.restarted;
        if let Err(error) = self.plugin("DEL", pod) {
            if self.node.has_agent() && self.restarted == restarted {
                return Err(error);
            }
            self.plugin("DEL", pod)?;
        }
        self.forget(pod);
        Ok(())
    }

    /// Nobody knows of a pod any more.
    pub(super) fn forget(&self, pod: &Pod) {
        // It may be gone already.
        let _ = match &self.around.servers.cluster {
            Some(cluster) => cluster.forget(pod),
            None => pod.forget(&self.node),
        };
    }

    /// What the agent died over is whole, or was never there; a runtime removes it either way.
    fn remove_half_made(&mut self) -> Result<()> {
        for pod in std::mem::take(&mut self.half_made) {
            broken(self.node.wait("a pod is there by half", |node| {
                let endpoints = node.endpoints()?;
                let its = endpoints.iter().find(|endpoint| {
                    let ids = &endpoint["status"]["external-identifiers"];
                    ids["container-id"] == *pod.container_id
                });
                Ok(its.is_none_or(|endpoint| endpoint["status"]["state"] == "ready"))
            }))?;
            broken(self.remove(&pod))?;
        }
        Ok(())
    }

    /// Whether a runtime waits for an agent before it removes what it got no answer for.
    pub(in crate::chaos) fn retry_late(&mut self, late: bool) {
        self.retries_late = late;
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
        match &mut self.around.servers.cluster {
            Some(cluster) => drop(cluster.pod(name, labels)?),
            None => member.pod.write_labels(&self.node, &list)?,
        }
        self.follow_services()
    }

    pub(super) fn apply(&mut self, manifests: &[Manifest]) -> Result<()> {
        for Manifest { name, object } in manifests {
            let mut object = object.clone();
            if name.kind == "service" {
                self.give_addresses(name, &mut object);
            }
            if let Some(cluster) = &mut self.around.servers.cluster {
                object = cluster.apply(name, &object)?;
            } else if name.kind != "service" {
                self.node.write_manifest(&file(name), &object.to_string())?;
            }
            self.manifests.insert(name.clone(), object);
        }
        self.follow_services()
    }

    fn take_away(&mut self, name: &ManifestName) -> Result<()> {
        self.manifests.remove(name).context("no such manifest")?;
        if let Some(cluster) = &self.around.servers.cluster {
            cluster.take_away(name)?;
        } else if name.kind != "service" {
            self.node.remove_manifest(&file(name))?;
        }
        self.follow_services()
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        self.restarts = false;
        self.died();
        if !self.node.has_agent() {
            self.bury();
            return Ok(());
        }
        let killed = self.node.kill_agent();
        self.doom = None;
        self.forget_scarcity();
        killed
    }

    /// Forgets an agent that died, and what killed it.
    pub(super) fn bury(&mut self) {
        self.node.bury_agent();
        self.doom = None;
        self.forget_scarcity();
    }

    fn wait_until_dead(&mut self) -> Result<()> {
        if self.restarts {
            let what = "the agent does not make the call before which it is to die: have it do something \
                        more in front of this step";
            return crate::lab::wait_for(what, || {
                self.restart_the_dead()?;
                // Who was restarted is not to die again.
                Ok(self.doom.is_none())
            });
        }
        let what = "the agent does not make the call before which it is to die: have it do something \
                    more in front of this step";
        crate::lab::wait_for(what, || Ok(!self.node.has_agent()))?;
        self.died();
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
        self.remove_half_made()?;
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

    fn upgrade(&mut self, which: Build, deaths: &[Death]) -> Result<()> {
        self.switch_to(which)?;
        self.kill()?;
        self.die(deaths)?;
        self.node.exec_agent()?;
        self.wait_until_ready()
    }

    /// Has agents be of that build from the next start on.
    pub(super) fn switch_to(&mut self, which: Build) -> Result<()> {
        self.node.switch_to(match which {
            Build::Usual => self.usual.clone(),
            Build::Other => self.usual.with_agent(&build::other_agent()?),
        });
        Ok(())
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
