//! Which packets must pass and which may. Policies and labels are objects that change each for itself:
//! until the node is at rest again, any version of each that there was since it was last at rest may
//! explain a verdict.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
};

use volvox_actors_simulated::model::{Addresses, EndpointId, IdentityId};

use super::{
    REMOTE_PODS,
    policies::{App, OUTSIDE, Peer, Policy, Way, passes},
};

const APPS: usize = App::NAMED.len() + 1;

/// Pods of each label, nobody's, and those outside.
const PEERS: usize = APPS + 1 + OUTSIDE.len();

const PLACES: usize = 2 * APPS * PEERS;

fn place(way: Way, app: App, peer: Peer) -> usize {
    let peer = match peer {
        Peer::Pod(app) => app as usize,
        Peer::Unknown => APPS,
        Peer::Outside(place) => APPS + 1 + place,
    };
    (way as usize * APPS + app as usize) * PEERS + peer
}

/// The address of a pod of another node.
pub(crate) fn remote_address(remote: u8) -> IpAddr {
    Ipv4Addr::new(10, 1, 0, remote).into()
}

/// A pod as it should be.
#[derive(Clone, Debug)]
pub(crate) struct ExpectedPod {
    /// Its host-side interface.
    pub(crate) ifindex: u32,
    /// Its addresses.
    pub(crate) addresses: Addresses,
    /// The labels that it had since the node was last at rest.
    pub(crate) apps: Vec<App>,
    /// It runs: what is allowed must pass.
    pub(crate) runs: bool,
    /// Its endpoint, once it is known.
    pub(crate) endpoint: Option<EndpointId>,
    /// Names this pod among all that ever had its addresses.
    pub(crate) owner: u64,
    /// Its identity when the node was last at rest.
    pub(crate) identity: Option<(App, IdentityId)>,
}

/// What there was since the node was last at rest, of everything that packets depend on.
#[derive(Clone)]
pub(crate) struct Expected {
    /// The pods, by number.
    pub(crate) pods: BTreeMap<u8, ExpectedPod>,
    /// What pods of other nodes were since the node was last at rest; none is not there.
    pub(crate) remotes: BTreeMap<u8, Vec<Option<App>>>,
    /// What each source of policies held since the node was last at rest.
    sources: BTreeMap<u8, Vec<Vec<Policy>>>,
    /// What all versions let pass, and what any does, by [`place`], as far as it was asked for.
    bounds: [Option<(u8, u8)>; PLACES],
}

impl Default for Expected {
    fn default() -> Self {
        Self {
            pods: BTreeMap::new(),
            remotes: BTreeMap::new(),
            sources: BTreeMap::new(),
            bounds: [None; PLACES],
        }
    }
}

impl Expected {
    /// A source of policies changed.
    pub(crate) fn policies(&mut self, source: u8, policies: Vec<Policy>) {
        let versions = self.sources.entry(source).or_insert_with(|| vec![Vec::new()]);
        versions.retain(|version| *version != policies);
        versions.push(policies);
        self.bounds = [None; PLACES];
    }

    /// What that source holds now.
    pub(crate) fn policies_of(&self, source: u8) -> Vec<Policy> {
        self.sources.get(&source).and_then(|versions| versions.last()).cloned().unwrap_or_default()
    }

    /// A pod of another node is that from now on; what it was before.
    pub(crate) fn remote_is(&mut self, number: u8, app: Option<App>) -> Option<App> {
        let versions = self.remotes.entry(number).or_insert_with(|| vec![None]);
        let before = versions.last().copied().flatten();
        versions.retain(|version| *version != app);
        versions.push(app);
        before
    }

    /// What pods of the other node are now.
    pub(crate) fn remote_apps(&self) -> Vec<App> {
        let theirs = self.remotes.range(..=REMOTE_PODS).map(|(_, versions)| versions);
        theirs.filter_map(|versions| versions.last().copied().flatten()).collect()
    }

    /// Everything is in force: only the newest version explains anything.
    pub(crate) fn rest(&mut self) {
        for versions in self.sources.values_mut() {
            versions.drain(..versions.len() - 1);
        }
        for pod in self.pods.values_mut() {
            let newest = pod.apps.len() - 1;
            pod.apps.drain(..newest);
        }
        for versions in self.remotes.values_mut() {
            versions.drain(..versions.len() - 1);
        }
        self.bounds = [None; PLACES];
    }

    /// What must pass between a pod and its peer, whichever version of each there is, and what may.
    pub(crate) fn bounds(
        &mut self,
        way: Way,
        apps: &[App],
        peers: impl Iterator<Item = Peer> + Clone,
    ) -> (u8, u8) {
        let (mut must, mut may) = (u8::MAX, 0);
        for &app in apps {
            for peer in peers.clone() {
                let (all, any) = self.expect(way, app, peer);
                (must, may) = (must & all, may | any);
            }
        }
        (must, may)
    }

    /// What all versions let pass, and what any does.
    fn expect(&mut self, way: Way, app: App, peer: Peer) -> (u8, u8) {
        if let Some(known) = self.bounds[place(way, app, peer)] {
            return known;
        }
        // Every choice of one version of each source.
        let mut choices: Vec<Vec<&Policy>> = vec![Vec::new()];
        for versions in self.sources.values() {
            choices = choices
                .iter()
                .flat_map(|choice| {
                    versions.iter().map(move |version| {
                        choice.iter().copied().chain(version).collect::<Vec<_>>()
                    })
                })
                .collect();
        }
        let each = choices.iter().map(|choice| passes(choice.iter().copied(), way, app, peer));
        let found = each.fold((u8::MAX, 0), |(all, any), mask| (all & mask, any | mask));
        self.bounds[place(way, app, peer)] = Some(found);
        found
    }

    /// Addresses of every pod.
    pub(crate) fn addresses(&self) -> BTreeSet<IpAddr> {
        self.pods.values().flat_map(|it| it.addresses.iter()).collect()
    }
}
