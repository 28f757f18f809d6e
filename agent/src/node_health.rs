//! The health of nodes: the place of this node's health endpoint, who answers there and on the node, and probes of
//! other nodes. On a thread of its own: neither a node that does not answer nor one that asks too much holds up an
//! actor.

mod place;
mod probes;
mod responder;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, io, net::IpAddr, rc::Rc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    task::{LocalSet, spawn_blocking, spawn_local},
};
use volvox_actors::{
    host::Reply,
    model::{Addresses, Families},
    ports::{DesiredHealthPlace, Echo, HealthPlace, HealthPlaceError, HealthPlaces, Probes},
};

use self::{probes::Prober, responder::Responder};
use crate::{boot::NodeNumbers, config::Config};

pub use self::place::{Place, PlaceTrouble};

/// Why nobody can be probed.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread that probes nodes: {0}; raise the limit of threads")]
pub struct NodeHealthError(#[from] io::Error);

/// How nodes are probed and answered.
#[derive(Clone, Debug)]
pub struct NodeHealthSettings {
    /// Where the health endpoint is, if there is to be one.
    pub place: Option<Place>,
    /// Families that are switched on.
    pub families: Families,
    /// Addresses of the node at which it answers others; all of them if none is known.
    pub addresses: Addresses,
    /// The port of all nodes.
    pub port: u16,
}

/// The ports for the health of nodes.
#[derive(Clone)]
pub struct NodeHealth(mpsc::UnboundedSender<Asked>);

/// What is asked of the thread.
enum Asked {
    Look(oneshot::Sender<Result<Option<HealthPlace>, HealthPlaceError>>),
    Make(DesiredHealthPlace, oneshot::Sender<Result<HealthPlace, HealthPlaceError>>),
    Remove(oneshot::Sender<Result<(), HealthPlaceError>>),
    Echo(Vec<IpAddr>, u32, Duration, oneshot::Sender<BTreeMap<IpAddr, Echo>>),
    Hello(IpAddr, Duration, oneshot::Sender<Echo>),
}

impl NodeHealth {
    /// Who probes nodes and answers them, if that is done.
    pub fn of(config: &Config, node: &NodeNumbers) -> Result<Option<Self>, NodeHealthError> {
        if !config.health.enable_health_checking {
            return Ok(None);
        }
        let place =
            config.health.has_endpoint().then(|| Place::of(&config.run_dir, &config.procfs));
        let families = Families { ipv4: config.enable_ipv4, ipv6: config.enable_ipv6 };
        let (addresses, port) = (node.own, config.health.cluster_health_port);
        let settings = NodeHealthSettings { place, families, addresses, port };
        Ok(Some(Self::start(settings)?))
    }

    /// Starts the thread; it answers other nodes from now on.
    pub fn start(settings: NodeHealthSettings) -> Result<Self, NodeHealthError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // The actors ask for one thing at a time of each address.
        let (asks, mut asked) = mpsc::unbounded_channel::<Asked>();
        volvox_system::threads::spawn("node-health", move || {
            LocalSet::new().block_on(&runtime, async {
                let mut served = Served::start(settings);
                while let Some(asked) = asked.recv().await {
                    served.take(asked).await;
                }
            });
        })?;
        Ok(Self(asks))
    }

    fn ask<T: 'static>(&self, make: impl FnOnce(oneshot::Sender<T>) -> Asked, reply: Reply<T>) {
        let (done, outcome) = oneshot::channel();
        // Where the thread has ended the outcome is that there is none.
        drop(self.0.send(make(done)));
        spawn_local(async move {
            if let Ok(outcome) = outcome.await {
                reply.send(outcome);
            }
        });
    }
}

impl HealthPlaces for NodeHealth {
    fn look(&self, reply: Reply<Result<Option<HealthPlace>, HealthPlaceError>>) {
        self.ask(Asked::Look, reply);
    }

    fn make(
        &self,
        desired: DesiredHealthPlace,
        reply: Reply<Result<HealthPlace, HealthPlaceError>>,
    ) {
        self.ask(|done| Asked::Make(desired, done), reply);
    }

    fn remove(&self, reply: Reply<Result<(), HealthPlaceError>>) {
        self.ask(Asked::Remove, reply);
    }
}

impl Probes for NodeHealth {
    fn echo(
        &self,
        addresses: Vec<IpAddr>,
        requests: u32,
        patience: Duration,
        reply: Reply<BTreeMap<IpAddr, Echo>>,
    ) {
        self.ask(|done| Asked::Echo(addresses, requests, patience, done), reply);
    }

    fn hello(&self, address: IpAddr, patience: Duration, reply: Reply<Echo>) {
        self.ask(|done| Asked::Hello(address, patience, done), reply);
    }
}

/// What the thread has.
struct Served {
    settings: NodeHealthSettings,
    prober: Rc<Prober>,
    /// Who answers at the health endpoint.
    inside: Option<Responder>,
    /// Who answers on the node.
    _own: Vec<Responder>,
}

impl Served {
    fn start(settings: NodeHealthSettings) -> Self {
        let own = responder::on_node(settings.addresses, settings.families, settings.port);
        let prober = Rc::new(Prober::start(settings.families, settings.port));
        Self { settings, prober, inside: None, _own: own }
    }

    async fn take(&mut self, asked: Asked) {
        // Whoever asked may not wait any more.
        match asked {
            Asked::Look(done) => drop(done.send(self.look().await)),
            Asked::Make(desired, done) => drop(done.send(self.make(desired).await)),
            Asked::Remove(done) => drop(done.send(self.remove().await)),
            // Probes take long, and there are many at once.
            Asked::Echo(addresses, requests, patience, done) => {
                let prober = Rc::clone(&self.prober);
                spawn_local(async move {
                    drop(done.send(prober.echo(addresses, requests, patience).await));
                });
            }
            Asked::Hello(address, patience, done) => {
                let prober = Rc::clone(&self.prober);
                spawn_local(async move { drop(done.send(prober.hello(address, patience).await)) });
            }
        }
    }

    async fn look(&mut self) -> Result<Option<HealthPlace>, HealthPlaceError> {
        let found = self.at_place(|place| place.look()).await?;
        match &found {
            Some(found) => self.answer(found).await?,
            None => self.inside = None,
        }
        Ok(found)
    }

    async fn make(&mut self, desired: DesiredHealthPlace) -> Result<HealthPlace, HealthPlaceError> {
        self.inside = None;
        let made = self.at_place(move |place| place.make(&desired)).await?;
        self.answer(&made).await?;
        Ok(made)
    }

    async fn remove(&mut self) -> Result<(), HealthPlaceError> {
        self.inside = None;
        self.at_place(|place| place.clear()).await
    }

    /// Has somebody answer inside, unless somebody does in that very namespace.
    async fn answer(&mut self, found: &HealthPlace) -> Result<(), HealthPlaceError> {
        let cookie = found.netns_cookie;
        if self.inside.as_ref().is_some_and(|inside| inside.is_of(cookie)) {
            return Ok(());
        }
        self.inside = None;
        let (families, port) = (self.settings.families, self.settings.port);
        let listener = self.at_place(move |place| place.listen(families, port)).await?;
        let inside = Responder::start(listener, cookie);
        self.inside = Some(inside.map_err(|error| HealthPlaceError(error.to_string()))?);
        Ok(())
    }

    /// Does something with interfaces and namespaces, which may take a while.
    async fn at_place<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Place) -> Result<T, PlaceTrouble> + Send + 'static,
    ) -> Result<T, HealthPlaceError> {
        let failed = |error: &dyn std::fmt::Display| HealthPlaceError(error.to_string());
        let Some(place) = self.settings.place.clone() else {
            return Err(failed(&"there is to be no health endpoint"));
        };
        let done = spawn_blocking(move || work(&place)).await;
        done.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }
}
