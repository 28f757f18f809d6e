//! What the cluster wants: labels of pods and policies, and when the agent hears of them.

use super::{node::Node, pod::Pod};
use crate::{
    history::events::ApiServerEvent,
    model::{
        SOURCES,
        manifests::{all_objects, pod_document, policy_object},
        policies::{App, Policy},
    },
};

impl Node {
    pub(crate) fn label(&mut self, number: u8, app: App, reported: bool) {
        self.may_be(number, app);
        let name = Pod::name(number);
        let document = pod_document(&name, app);
        self.world.manifests.insert(name.clone(), vec![document]);
        self.changed(name, reported);
    }

    pub(crate) fn policies(&mut self, source: u8, policies: Vec<Policy>, reported: bool) {
        let name = format!("policies-{source}");
        let document =
            |(place, policy): (usize, &Policy)| policy.document(&format!("{name}-{place}"));
        let documents = policies.iter().enumerate().map(document).collect();
        self.world.manifests.insert(name.clone(), documents);
        self.oracle.borrow_mut().expected.policies(source, policies);
        self.changed(name, reported);
    }

    /// From now on a pod may have that label, as well as those that it had since the last rest.
    fn may_be(&mut self, number: u8, app: App) {
        let Some(pod) = self.pods.get_mut(&number) else { return };
        pod.apps.retain(|other| *other != app);
        pod.apps.push(app);
        if let Some(subject) = self.oracle.borrow_mut().expected.pods.get_mut(&number) {
            subject.apps.clone_from(&pod.apps);
        }
    }

    /// What a manifest holds is to be told, now or later.
    pub(crate) fn changed(&mut self, name: String, reported: bool) {
        self.news.untold.insert(name);
        if reported {
            self.deliver(false);
        }
    }

    /// Tells what was not told; and once more something that was.
    pub(crate) fn deliver(&mut self, repeat: bool) {
        if !self.world.is_alive() {
            return;
        }
        self.api_server(ApiServerEvent::Up);
        let mut names: Vec<String> = std::mem::take(&mut self.news.untold).into_iter().collect();
        if repeat {
            names.extend(self.world.manifests.keys().next().cloned());
        }
        self.news.heard = true;
        self.tell(&names);
    }

    fn named(which: u8) -> String {
        if which < SOURCES { format!("policies-{which}") } else { Pod::name(which - SOURCES + 1) }
    }

    pub(crate) fn relist(&mut self, which: u8) {
        let name = Self::named(which);
        let Some(documents) = self.world.manifests.remove(&name) else { return };
        let now = if which < SOURCES {
            let mut oracle = self.oracle.borrow_mut();
            let now = oracle.expected.policies_of(which);
            oracle.expected.policies(which, Vec::new());
            Err(now)
        } else {
            let number = which - SOURCES + 1;
            let app = self.pods[&number].apps.last().copied();
            self.may_be(number, App::None);
            Ok(app)
        };
        if self.world.is_alive() && self.news.heard {
            self.tell(std::slice::from_ref(&name));
            self.steps(20, u64::from(which));
        }
        self.world.manifests.insert(name.clone(), documents);
        match now {
            Err(policies) => self.oracle.borrow_mut().expected.policies(which, policies),
            Ok(app) => self.may_be(which - SOURCES + 1, app.unwrap_or(App::None)),
        }
        self.changed(name, true);
    }

    pub(crate) fn unreadable(&mut self, which: u8) {
        let name = Self::named(which);
        if self.world.cluster.is_some() {
            self.serve_rubbish(name);
        } else if self.world.is_alive() && self.news.heard {
            self.world.tell_unreadable(&name);
            // It can be read again by the time that anything else is told.
            self.news.untold.insert(name);
        }
    }

    /// Has the agent know what these manifests hold now, or the API server have it.
    pub(crate) fn tell(&self, names: &[String]) {
        let Some(cluster) = &self.world.cluster else { return self.world.tell_manifests(names) };
        for name in names {
            if let Some(all) = all_objects(name) {
                match self.world.manifests.get(name).map(Vec::as_slice) {
                    Some(objects @ [_, ..]) => {
                        objects.iter().for_each(|object| cluster.apply(object.clone()));
                    }
                    _ => all.iter().for_each(|object| cluster.delete(object)),
                }
                continue;
            }
            match self.world.manifests.get(name).map(Vec::as_slice) {
                Some([pod]) if pod["kind"] == "Pod" => cluster.apply(pod.clone()),
                Some(policies @ [_, ..]) => cluster.apply(policy_object(name, policies)),
                Some([]) | None => {
                    // One of these is not there, and going once more changes nothing.
                    cluster.delete(&policy_object(name, &[]));
                    cluster.delete(&pod_document(name, App::None));
                }
            }
        }
    }
}
