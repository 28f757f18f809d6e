//! The actor that owns the health endpoint. It takes one step after the other; whatever fails is begun anew after
//! a pause, from what there is by then.

use std::{collections::VecDeque, net::IpAddr, rc::Rc, sync::Arc, time::Duration};

use super::{
    HealthEndpointMsg, HealthEndpointView,
    answers::{HealthEndpointAnswer, PlaceAnswer},
};
use crate::{
    endpoints::{
        endpoint::{CreateError, EndpointSpec, EndpointView, HEALTH_OWNER},
        ipam::{AddressFamily, Allocated, IpamError, IpamMsg},
        supervisor::{EndpointReference, EndpointsMsg},
    },
    host::{AskError, Behaviour, Cx, Lent, Outlet, Pauses, Ref, Retry, Survives, Time},
    model::{Addresses, Families, Labels},
    ports::{DesiredHealthPlace, Disk, DiskError, Echo, HealthPlace, HealthPlaces, Probes},
    restore::RestoreMsg,
    state_directory::HealthRecord,
};

/// How long another supervisor or a port may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long restored endpoints are waited for before it is asked again: as long as it takes.
const PROGRAMMED_PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// How often it is looked whether all is as it should be.
const EVERY: Duration = Duration::from_secs(60);
/// How long somebody may take to answer there, as Cilium has it.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// How long nobody may answer there before all of it is made anew.
const SILENCE_MAX: Duration = Duration::from_secs(300);
const PAUSES: Pauses =
    Pauses::Doubling { first: Duration::from_secs(1), most: Duration::from_secs(60) };
/// So often an address that it had is asked for while somebody else has it: what is left of an earlier one goes
/// first.
const CLAIMS_MAX: u32 = 5;

/// How the health endpoint is to be.
#[derive(Clone, Debug)]
pub struct HealthEndpointSettings {
    /// Name of this node.
    pub node: String,
    /// Families of its addresses.
    pub families: Families,
    /// Where it routes to.
    pub router: Addresses,
    /// The largest packet, bytes.
    pub mtu: u32,
    /// Addresses that an earlier life's had.
    pub before: Addresses,
    /// Which writing of the record that was.
    pub generation: u32,
}

/// Whom the owner of the health endpoint talks to.
#[derive(Clone)]
pub struct HealthEndpointPeers {
    /// Its place.
    pub places: Rc<dyn HealthPlaces>,
    /// Who asks there.
    pub probes: Rc<dyn Probes>,
    /// The library directory.
    pub disk: Rc<dyn Disk>,
    /// The supervisor of endpoints.
    pub endpoints: Ref<EndpointsMsg>,
    /// The owner of addresses.
    pub ipam: Ref<IpamMsg>,
    /// The supervisor of restoring.
    pub restore: Ref<RestoreMsg>,
    /// Who hears which addresses it has.
    pub heard_by: Vec<Outlet<Addresses>>,
}

/// The owner of the health endpoint.
pub struct HealthEndpoint {
    peers: HealthEndpointPeers,
    settings: HealthEndpointSettings,
    state: Lent<HealthEndpointState>,
    /// What is under way, or the time of the next look.
    tries: Retry,
    /// Endpoints that are to be deleted first.
    surplus: VecDeque<EndpointReference>,
    /// Addresses of the place that is to be made.
    chosen: Addresses,
    /// Restored endpoints are programmed: before, nothing is made or deleted.
    programmed: bool,
}

/// What outlives a crash.
struct HealthEndpointState {
    view: HealthEndpointView,
    /// What those who hear of it have heard.
    told: Addresses,
    kept: Addresses,
    generation: u32,
    /// When somebody answered there last.
    answered: Option<Time>,
    /// How often in a row its addresses were somebody else's.
    claims: u32,
}

impl HealthEndpoint {
    /// Makes each life of the owner.
    pub fn factory(
        peers: impl Fn() -> HealthEndpointPeers + 'static,
        settings: HealthEndpointSettings,
    ) -> impl FnMut() -> Self + 'static {
        let addresses = settings.before;
        let state = Survives::new(HealthEndpointState {
            view: HealthEndpointView { addresses, ..HealthEndpointView::default() },
            told: addresses,
            kept: addresses,
            generation: settings.generation,
            answered: None,
            claims: 0,
        });
        move || Self {
            peers: peers(),
            settings: settings.clone(),
            state: state.lend(),
            tries: Retry::default(),
            surplus: VecDeque::new(),
            chosen: Addresses::default(),
            programmed: false,
        }
    }

    fn await_programmed(&self, cx: &mut Cx<'_, Self>) {
        cx.ask(
            &self.peers.restore,
            PROGRAMMED_PATIENCE,
            "restored endpoints to be programmed, before a health endpoint is made",
            RestoreMsg::AwaitProgrammed,
            HealthEndpointAnswer::Programmed,
        );
    }

    /// Has somebody answer at the place that there is, and sees what it is.
    fn look(&mut self, cx: &mut Cx<'_, Self>) {
        if self.tries.begin_now(cx) {
            let why = "what there is of the health endpoint's place";
            let reply = cx.expect("health place", PATIENCE, why, HealthEndpointAnswer::Looked);
            self.peers.places.look(reply);
        }
    }

    fn looked(&mut self, cx: &mut Cx<'_, Self>, answer: PlaceAnswer<Option<HealthPlace>>) {
        let place = match said(answer) {
            Ok(place) => place,
            Err(error) => return self.failed(cx, error),
        };
        if !self.programmed {
            // It is answered there by now; all else waits.
            return self.tries.succeeded();
        }
        let labels = Labels::reserved("health");
        cx.ask(
            &self.peers.endpoints,
            PATIENCE,
            "the health endpoint",
            |reply| EndpointsMsg::List { labels, reply },
            move |answer| HealthEndpointAnswer::Listed(place, answer),
        );
    }

    fn listed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        place: Option<HealthPlace>,
        answer: Result<Vec<Arc<EndpointView>>, AskError>,
    ) {
        let views = match answer {
            Ok(views) => views,
            Err(error) => return self.failed(cx, error.to_string()),
        };
        let mut views: Vec<_> = views.into_iter().filter(|view| view.spec.is_health()).collect();
        let fits = |view: &Arc<EndpointView>| {
            let place = place.as_ref().filter(|place| self.is_wanted(place.addresses));
            view.lost.is_none() && place.is_some_and(|place| view.spec.is_at_place(place))
        };
        let own = views.iter().position(fits).map(|own| views.remove(own));
        self.surplus = views.iter().map(|view| EndpointReference::Id(view.id)).collect();
        match own {
            Some(view) if self.surplus.is_empty() => self.there(cx, &view),
            Some(_) => self.delete_next(cx),
            None => {
                self.state.view.endpoint = None;
                self.delete_next(cx);
            }
        }
    }

    /// Whether these are addresses of all families that it is to have.
    fn is_wanted(&self, addresses: Addresses) -> bool {
        let Families { ipv4, ipv6 } = self.settings.families;
        (addresses.ipv4.is_some(), addresses.ipv6.is_some()) == (ipv4, ipv6)
    }

    /// It is there. Whether somebody answers is asked as others ask.
    fn there(&mut self, cx: &mut Cx<'_, Self>, view: &EndpointView) {
        self.has(view);
        self.tell(cx);
        let Some(address) = self.state.view.addresses.iter().next() else {
            return self.at_rest(cx);
        };
        let why = "an answer of the health endpoint";
        let patience = HELLO_PATIENCE + PATIENCE;
        let reply = cx.expect("probes", patience, why, HealthEndpointAnswer::Answered);
        self.peers.probes.hello(address, HELLO_PATIENCE, reply);
    }

    fn answered_there(&mut self, cx: &mut Cx<'_, Self>, answer: Result<Echo, AskError>) {
        let error = match answer {
            Ok(Ok(_)) => {
                self.state.answered = Some(cx.now());
                self.state.view.error = None;
                return self.at_rest(cx);
            }
            Ok(Err(error)) => error,
            Err(error) => error.to_string(),
        };
        let since = *self.state.answered.get_or_insert(cx.now());
        if cx.now().since(since) >= SILENCE_MAX {
            tracing::warn!(error, "nobody answers at the health endpoint: it is made anew");
            self.state.answered = None;
            self.surplus =
                self.state.view.endpoint.map(EndpointReference::Id).into_iter().collect();
            return self.delete_next(cx);
        }
        self.failed(cx, format!("nobody answers there: {error}"));
    }

    fn at_rest(&mut self, cx: &mut Cx<'_, Self>) {
        self.tries.succeeded();
        self.tries.pause(cx, EVERY, HealthEndpointAnswer::Look);
    }

    /// Deletes what is not the health endpoint any more; after the last of them the place goes.
    fn delete_next(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(target) = self.surplus.pop_front() else { return self.remove(cx) };
        cx.ask(
            &self.peers.endpoints,
            PATIENCE,
            format!("health endpoint {target} to be deleted"),
            |reply| EndpointsMsg::Delete { target, reply },
            HealthEndpointAnswer::Deleted,
        );
    }

    /// A place whose endpoint is another one's is not kept: that would be two at one interface.
    fn remove(&mut self, cx: &mut Cx<'_, Self>) {
        let why = "the health endpoint's place to be removed";
        let reply = cx.expect("health place", PATIENCE, why, HealthEndpointAnswer::Removed);
        self.peers.places.remove(reply);
    }

    /// Has an address of each family: that of the one before, or any.
    fn choose(&mut self, cx: &mut Cx<'_, Self>) {
        let Families { ipv4, ipv6 } = self.settings.families;
        let before = self.state.view.addresses;
        let unclaimed = [
            (ipv4, self.chosen.ipv4.is_none(), before.ipv4.map(IpAddr::V4), AddressFamily::Ipv4),
            (ipv6, self.chosen.ipv6.is_none(), before.ipv6.map(IpAddr::V6), AddressFamily::Ipv6),
        ];
        let next = unclaimed.into_iter().find(|(on, open, ..)| *on && *open);
        let Some((_, _, before, family)) = next else { return self.make(cx) };
        let owner = HEALTH_OWNER.to_owned();
        match before {
            Some(address) => cx.ask(
                &self.peers.ipam,
                PATIENCE,
                format!("address {address} of the health endpoint"),
                |reply| IpamMsg::Claim { address, owner, external: false, reply },
                move |answer| HealthEndpointAnswer::Claimed(address, answer),
            ),
            None => cx.ask(
                &self.peers.ipam,
                PATIENCE,
                format!("an {family} address for the health endpoint"),
                |reply| {
                    let (family, pool) = (Some(family), None);
                    IpamMsg::Allocate { family, owner, pool, expires: None, reply }
                },
                HealthEndpointAnswer::Allocated,
            ),
        }
    }

    fn claimed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        address: IpAddr,
        answer: Result<Result<(), IpamError>, AskError>,
    ) {
        let error = match answer {
            Ok(Ok(())) => {
                self.chosen = self.chosen.iter().chain([address]).collect();
                return self.choose(cx);
            }
            Ok(Err(error)) => error,
            Err(error) => return self.failed(cx, error.to_string()),
        };
        self.state.claims += 1;
        if matches!(error, IpamError::InUse { .. }) && self.state.claims < CLAIMS_MAX {
            return self.failed(cx, error.to_string());
        }
        tracing::warn!(%address, %error, "the health endpoint gets another address");
        let before = &mut self.state.view.addresses;
        match address {
            IpAddr::V4(_) => before.ipv4 = None,
            IpAddr::V6(_) => before.ipv6 = None,
        }
        self.choose(cx);
    }

    fn allocated(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<Allocated, IpamError>, AskError>,
    ) {
        let Allocated { ipv4, ipv6, .. } = match answer {
            Ok(Ok(allocated)) => allocated,
            Ok(Err(error)) => return self.failed(cx, error.to_string()),
            Err(error) => return self.failed(cx, error.to_string()),
        };
        let new = Addresses { ipv4, ipv6 };
        self.chosen = self.chosen.iter().chain(new.iter()).collect();
        // Whatever comes of it, these are its own.
        self.state.view.addresses =
            self.chosen.iter().chain(self.state.view.addresses.iter()).collect();
        self.choose(cx);
    }

    fn make(&mut self, cx: &mut Cx<'_, Self>) {
        self.state.claims = 0;
        let HealthEndpointSettings { router, mtu, .. } = self.settings;
        let desired = DesiredHealthPlace { addresses: self.chosen, router, mtu };
        let why = "a place for the health endpoint";
        let reply = cx.expect("health place", PATIENCE, why, HealthEndpointAnswer::Made);
        self.peers.places.make(desired, reply);
    }

    fn made(&mut self, cx: &mut Cx<'_, Self>, answer: PlaceAnswer<HealthPlace>) {
        let place = match said(answer) {
            Ok(place) => place,
            Err(error) => return self.failed(cx, error),
        };
        let spec = Box::new(EndpointSpec::health(&place));
        cx.ask(
            &self.peers.endpoints,
            PATIENCE,
            "the health endpoint to be built",
            |reply| EndpointsMsg::Create { spec, sync: true, reply },
            HealthEndpointAnswer::Created,
        );
    }

    fn created(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<Arc<EndpointView>, CreateError>, AskError>,
    ) {
        match answer {
            Ok(Ok(view)) => {
                self.state.view.made += 1;
                self.state.answered = None;
                tracing::info!(endpoint = %view.id, addresses = ?view.spec.addresses, "health endpoint made");
                self.there(cx, &view);
            }
            // Its place is there, and so may its endpoint be: that is seen at the next look.
            Ok(Err(error)) => self.failed(cx, error.to_string()),
            Err(error) => self.failed(cx, error.to_string()),
        }
    }

    fn has(&mut self, view: &EndpointView) {
        self.state.view.endpoint = Some(view.id);
        self.state.view.addresses = view.spec.addresses;
    }

    /// Who others ask for it hears where it is, and the next life will know.
    fn tell(&mut self, cx: &mut Cx<'_, Self>) {
        let addresses = self.state.view.addresses;
        if self.state.told != addresses {
            let heard: Vec<bool> =
                self.peers.heard_by.iter().map(|it| it.say(addresses).is_ok()).collect();
            if !heard.contains(&false) {
                self.state.told = addresses;
            }
        }
        if self.state.kept != addresses {
            let record = HealthRecord { addresses, node: self.settings.node.clone() };
            self.state.generation = self.state.generation.wrapping_add(1);
            let write = HealthRecord::SLOTS.save(&record, self.state.generation);
            let why = "addresses of the health endpoint to be kept";
            let reply = cx.expect("disk", PATIENCE, why, HealthEndpointAnswer::Kept);
            self.peers.disk.submit(vec![write], reply);
            self.state.kept = addresses;
        }
    }

    fn kept(&mut self, answer: Result<Result<(), DiskError>, AskError>) {
        let error = match answer {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(error, "addresses of the health endpoint are not kept; tried again");
        self.state.kept = Addresses::default();
    }

    fn failed(&mut self, cx: &mut Cx<'_, Self>, error: String) {
        self.chosen = Addresses::default();
        let wait = self.tries.failed(PAUSES, cx, HealthEndpointAnswer::Look);
        if self.state.view.error.as_ref() != Some(&error) {
            tracing::warn!(error, retry_in = ?wait, "the health endpoint is not as it should be");
        }
        self.state.view.error = Some(error);
    }
}

/// What the port said, or why it did not.
fn said<T>(answer: PlaceAnswer<T>) -> Result<T, String> {
    match answer {
        Ok(Ok(said)) => Ok(said),
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

impl Behaviour for HealthEndpoint {
    type Msg = HealthEndpointMsg;
    type Answer = HealthEndpointAnswer;
    type Observed = HealthEndpointView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        // Who asks at a place that was kept is answered before anything else is done.
        self.look(cx);
        self.await_programmed(cx);
    }

    fn handle(&mut self, msg: HealthEndpointMsg, _: &mut Cx<'_, Self>) {
        match msg {
            HealthEndpointMsg::Show(reply) => reply.send(self.state.view.clone()),
        }
    }

    fn answered(&mut self, answer: HealthEndpointAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            // Where nothing is restored there may be one all the same.
            HealthEndpointAnswer::Programmed(Ok(_)) => {
                self.programmed = true;
                self.look(cx);
            }
            HealthEndpointAnswer::Programmed(Err(_)) => self.await_programmed(cx),
            HealthEndpointAnswer::Look => {
                self.tries.over();
                self.look(cx);
            }
            HealthEndpointAnswer::Looked(answer) => self.looked(cx, answer),
            HealthEndpointAnswer::Listed(place, answer) => self.listed(cx, place, answer),
            HealthEndpointAnswer::Answered(answer) => self.answered_there(cx, answer),
            HealthEndpointAnswer::Deleted(answer) => {
                if let Ok(Err(error)) = answer {
                    tracing::warn!(%error, "an earlier health endpoint is not deleted yet");
                }
                self.delete_next(cx);
            }
            HealthEndpointAnswer::Removed(answer) => match said(answer) {
                Ok(()) => {
                    self.chosen = Addresses::default();
                    self.choose(cx);
                }
                Err(error) => self.failed(cx, error),
            },
            HealthEndpointAnswer::Claimed(address, answer) => self.claimed(cx, address, answer),
            HealthEndpointAnswer::Allocated(answer) => self.allocated(cx, answer),
            HealthEndpointAnswer::Made(answer) => self.made(cx, answer),
            HealthEndpointAnswer::Created(answer) => self.created(cx, answer),
            HealthEndpointAnswer::Kept(answer) => self.kept(answer),
        }
    }

    fn observe(&self) -> HealthEndpointView {
        self.state.view.clone()
    }
}
