//! The actor that brings the devices' programs and rows from the realised to the desired state. A
//! device that fails is tried again later and holds up no other.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use ipnet::IpNet;

use super::{
    DeviceStatus, DevicesMsg, DevicesSettings, DevicesStatus,
    answers::DevicesAnswer,
    choice::DesiredDevices,
    steps::{device_of, done, steps},
};
use crate::{
    host::{AskError, Behaviour, Cx, Lent, Pauses, Reply, Retry, Survives},
    model::drift::{Drift, DriftByMap, DriftKind, DriftReply, DriftWatch},
    ports::{
        DeviceLinks, DeviceTables, HookState, Kernel, KernelDone, KernelJob, KernelOp,
        KernelOutcome, Link,
    },
};

const PATIENCE: Duration = Duration::from_secs(60);
/// After the nth failure in a row the next try comes n times as late, up to the latest.
const PAUSES: Pauses =
    Pauses::Linear { step: Duration::from_secs(1), most: Duration::from_secs(60) };

/// The owner of the node's devices. Only differences are written; what it is not told of the
/// interfaces it leaves as it is, also what an earlier run attached.
pub struct Devices {
    kernel: Rc<dyn Kernel>,
    /// Outlive a crash: they change.
    settings: Lent<DevicesSettings>,
    /// Outlives a crash.
    state: Lent<DevicesState>,
    /// What the kernel holds; `None` until it is read, anew whenever interfaces are told.
    present: Option<DeviceTables>,
    /// What it was known to hold, where it is read anew to see what drifted; who hears of that.
    believed: Option<DeviceTables>,
    watch: DriftWatch,
    subscribers: Vec<DriftReply>,
    drifted: Vec<Drift>,
    /// Steps that the kernel is doing.
    under_way: Vec<KernelOp>,
    /// The reading or writing under way; what failed is tried again later, not at once.
    work: Retry,
    /// Devices at which something fails, and what.
    failing: BTreeMap<String, String>,
    /// Those of them that are left out until the next try.
    left_out: BTreeSet<String>,
    /// The next try has its time.
    again: bool,
    last_error: Option<String>,
    /// Who waits until the kernel was asked,
    verifying: Vec<Reply<bool>>,
    /// and until all that can be done is done.
    awaiting: Vec<Reply<()>>,
}

#[derive(Default)]
struct DevicesState {
    /// The interfaces as they were seen last.
    links: Option<Rc<BTreeMap<u32, Link>>>,
    /// What was said of those that are no devices.
    said: BTreeMap<String, String>,
    /// Prefixes of this node's pods, besides those of the settings.
    own_prefixes: BTreeSet<IpNet>,
    /// What was seen at devices at the last look that is not as it is to be.
    troubles: BTreeMap<String, String>,
}

impl Devices {
    /// Makes each life of the owner.
    pub fn factory(
        kernel: Rc<dyn Kernel>,
        settings: DevicesSettings,
        watch: DriftWatch,
    ) -> impl FnMut() -> Self + 'static {
        let own_prefixes = settings.own_prefixes.clone();
        let state = Survives::new(DevicesState { own_prefixes, ..DevicesState::default() });
        let settings = Survives::new(settings);
        move || Self {
            kernel: Rc::clone(&kernel),
            settings: settings.lend(),
            state: state.lend(),
            present: None,
            believed: None,
            watch: watch.clone(),
            subscribers: Vec::new(),
            drifted: Vec::new(),
            under_way: Vec::new(),
            work: Retry::default(),
            failing: BTreeMap::new(),
            left_out: BTreeSet::new(),
            again: false,
            last_error: None,
            verifying: Vec::new(),
            awaiting: Vec::new(),
        }
    }

    /// Takes the next step towards what is desired.
    fn proceed(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.work.is_idle() {
            return;
        }
        let Some(desired) = self.desired() else { return };
        self.tell_passed_over(&desired);
        let Some(present) = &self.present else {
            self.work.asked();
            let reply = cx.expect("kernel", PATIENCE, "the node's devices", DevicesAnswer::Read);
            return self.kernel.submit(KernelJob::new(vec![KernelOp::ReadDevices]), reply);
        };
        let mut ops = steps(present, &desired, &self.unmasqueraded());
        ops.retain(|op| {
            let device = device_of(op, present, &desired);
            device.is_none_or(|device| !self.left_out.contains(&device))
        });
        if ops.is_empty() {
            return self.at_rest(cx);
        }
        self.work.asked();
        self.under_way.clone_from(&ops);
        let why = format!("{} steps at the node's devices", ops.len());
        let reply = cx.expect("kernel", PATIENCE, why, DevicesAnswer::Done);
        self.kernel.submit(KernelJob::new(ops), reply);
    }

    /// All that can be done is done; what fails is tried again later.
    fn at_rest(&mut self, cx: &mut Cx<'_, Self>) {
        self.last_error = None;
        self.answer();
        self.awaiting.drain(..).for_each(|reply| reply.send(()));
        self.failing.retain(|device, _| self.left_out.contains(device));
        if self.left_out.is_empty() {
            self.work.succeeded();
        } else if !std::mem::replace(&mut self.again, true) {
            // The others are not held up meanwhile.
            let wait = self.work.count_failure(PAUSES);
            cx.after(wait, DevicesAnswer::Again);
        }
    }

    /// Where pods go to as themselves, besides the cluster.
    fn unmasqueraded(&self) -> BTreeSet<IpNet> {
        self.settings.unmasqueraded.union(&self.state.own_prefixes).copied().collect()
    }

    fn desired(&self) -> Option<DesiredDevices> {
        let links = self.state.links.clone()?;
        Some(self.settings.choose(&links))
    }

    fn tell_passed_over(&mut self, desired: &DesiredDevices) {
        let said = &mut self.state.said;
        if *said == desired.passed_over {
            return;
        }
        for (device, why) in
            desired.passed_over.iter().filter(|(name, _)| !said.contains_key(*name))
        {
            tracing::warn!(device, why, "the interface leads out, and no programs run there");
        }
        said.clone_from(&desired.passed_over);
    }

    fn read(&mut self, done: Result<KernelDone, AskError>, cx: &mut Cx<'_, Self>) {
        self.work.answered();
        let tables = KernelDone::of_one(done, |outcome| match outcome {
            KernelOutcome::Devices(tables) => Some(*tables),
            _ => None,
        });
        match tables {
            Ok(tables) => {
                if let Some(believed) = self.believed.take() {
                    self.note(&believed, &tables);
                }
                self.present = Some(tables);
                self.note_troubles();
                self.verifying.drain(..).for_each(|reply| reply.send(true));
                self.proceed(cx);
            }
            Err(error) => {
                self.verifying.drain(..).for_each(|reply| reply.send(true));
                self.failed(error, cx);
            }
        }
    }

    /// Keeps what was seen that is not as it is to be: it is put right next, or it says who is in the way.
    fn note_troubles(&mut self) {
        let Some(present) = &self.present else { return };
        let trouble = |links: &DeviceLinks| match links.state {
            HookState::Behind(who) => Some((links.name.clone(), format!("{who} runs first"))),
            _ => None,
        };
        let mut troubles: BTreeMap<_, _> = present.links.values().filter_map(trouble).collect();
        troubles.extend(present.sockets.clone().map(|trouble| ("sockets".to_owned(), trouble)));
        let state = &mut *self.state;
        for (device, trouble) in
            troubles.iter().filter(|(name, _)| !state.troubles.contains_key(*name))
        {
            tracing::warn!(device, trouble, "programs do not run there as they are to");
        }
        state.troubles = troubles;
    }

    fn done(&mut self, answer: Result<KernelDone, AskError>, cx: &mut Cx<'_, Self>) {
        self.work.answered();
        let ops = std::mem::take(&mut self.under_way);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.failed(error.to_string(), cx),
        };
        let failed = answer.failed.map(|(step, error)| (self.device(ops.get(step)), error));
        if let Some(present) = &mut self.present {
            ops.into_iter().take(answer.outcomes.len()).for_each(|op| done(present, op));
        }
        if !self.verifying.is_empty() {
            self.doubt();
        }
        match failed {
            None => self.proceed(cx),
            Some((Some(device), error)) => self.leave_out(device, error.to_string(), cx),
            Some((None, error)) => self.failed(error.to_string(), cx),
        }
    }

    /// The device that a step is about.
    fn device(&self, op: Option<&KernelOp>) -> Option<String> {
        device_of(op?, self.present.as_ref()?, &self.desired()?)
    }

    /// The others do not wait for a device at which something fails. It may be half done: the kernel is
    /// read again.
    fn leave_out(&mut self, device: String, error: String, cx: &mut Cx<'_, Self>) {
        if self.failing.get(&device) != Some(&error) {
            tracing::warn!(device, error, "the device is not as it is to be: it is tried again");
        }
        self.failing.insert(device.clone(), error);
        self.left_out.insert(device);
        (self.present, self.believed) = (None, None);
        self.proceed(cx);
    }

    /// What failed may be half done: the kernel is read again before anything is tried again.
    fn failed(&mut self, error: String, cx: &mut Cx<'_, Self>) {
        let wait = self.work.failed(PAUSES, cx, DevicesAnswer::Again);
        tracing::warn!(error, retry_in = ?wait, "the node's devices are not as they are to be");
        self.last_error = Some(error);
        (self.present, self.believed) = (None, None);
        self.answer();
        self.awaiting.drain(..).for_each(|reply| reply.send(()));
    }

    /// The kernel is read anew, to see what drifted.
    fn doubt(&mut self) {
        self.believed = self.present.take().or(self.believed.take());
    }

    fn compare(&mut self, subscriber: Option<DriftReply>, cx: &mut Cx<'_, Self>) {
        if subscriber.is_none() {
            self.watch.sweep_later(cx, DevicesAnswer::Sweep);
        }
        self.subscribers.extend(subscriber);
        if !self.work.is_idle() || self.desired().is_none() {
            return self.answer();
        }
        self.doubt();
        self.proceed(cx);
    }

    /// Notes which rows are not as they were known.
    fn note(&mut self, believed: &DeviceTables, seen: &DeviceTables) {
        let mut found = DriftByMap::default();
        let device = |ifindex: &u32| format!("interface {ifindex}");
        found.compare_all("volvox_device", &believed.rows, &seen.rows, device);
        let (written, there) = (&believed.unmasqueraded, &seen.unmasqueraded);
        let map = |prefix: &IpNet| match prefix {
            IpNet::V4(_) => "cilium_ipmasq_v4",
            IpNet::V6(_) => "cilium_ipmasq_v6",
        };
        written.difference(there).for_each(|it| found.note(map(it), DriftKind::Missing, it));
        there.difference(written).for_each(|it| found.note(map(it), DriftKind::Foreign, it));
        let found = found.into_all();
        self.watch.tell(found.clone());
        self.drifted.extend(found);
    }

    /// Tells who asked what drifted.
    fn answer(&mut self) {
        let drifted = std::mem::take(&mut self.drifted);
        self.subscribers.drain(..).for_each(|subscriber| subscriber.send(drifted.clone()));
    }

    fn status(&self) -> DevicesStatus {
        let desired = self.desired().unwrap_or_default();
        let runs = |ifindex| {
            let links = self.present.as_ref().and_then(|present| present.links.get(ifindex));
            links.is_some_and(|links| links.state == HookState::Link)
        };
        let devices = desired.links.iter().map(|(ifindex, links)| DeviceStatus {
            name: links.name.clone(),
            ifindex: *ifindex,
            addresses: desired.rows.get(ifindex).map(|row| row.addresses).unwrap_or_default(),
            attached: runs(ifindex),
            trouble: self.state.troubles.get(&links.name).cloned(),
        });
        DevicesStatus {
            devices: devices.collect(),
            missing: desired.missing,
            passed_over: desired.passed_over,
            failing: self.failing.clone(),
            unmasqueraded: self.unmasqueraded(),
            programs: self.present.as_ref().and_then(|present| present.programs.clone()),
            mount: self.present.as_ref().and_then(|present| present.mount.clone()),
            last_error: self.last_error.clone(),
        }
    }
}

impl Behaviour for Devices {
    type Msg = DevicesMsg;
    type Answer = DevicesAnswer;
    type Observed = DevicesStatus;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.watch.sweep_later(cx, DevicesAnswer::Sweep);
        self.proceed(cx);
    }

    fn handle(&mut self, msg: DevicesMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            DevicesMsg::Links(links) => {
                self.state.links = Some(links);
                if !self.work.is_asked() {
                    // Endpoints may have had programs loaded since, which devices are to run, too.
                    self.doubt();
                }
                self.proceed(cx);
            }
            DevicesMsg::NodeAddresses(addresses) => {
                self.settings.node_addresses = addresses.iter().collect();
                self.proceed(cx);
            }
            DevicesMsg::OwnPrefixes(prefixes) => {
                self.state.own_prefixes = prefixes;
                self.proceed(cx);
            }
            DevicesMsg::Verify(reply) => {
                if self.work.is_pausing() || self.state.links.is_none() {
                    return reply.send(false);
                }
                self.verifying.push(reply);
                if !self.work.is_asked() {
                    self.doubt();
                }
                self.proceed(cx);
            }
            DevicesMsg::AtRest(reply) if self.work.is_pausing() => reply.send(()),
            DevicesMsg::AtRest(reply) => {
                self.awaiting.push(reply);
                self.proceed(cx);
            }
            DevicesMsg::Compare(subscriber) => self.compare(Some(subscriber), cx),
            DevicesMsg::Show(reply) => reply.send(self.status()),
        }
    }

    fn answered(&mut self, answer: DevicesAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            DevicesAnswer::Sweep => self.compare(None, cx),
            DevicesAnswer::Read(done) => self.read(done, cx),
            DevicesAnswer::Done(done) => self.done(done, cx),
            DevicesAnswer::Again => {
                self.work.over();
                self.again = false;
                if !self.left_out.is_empty() {
                    self.left_out.clear();
                    self.present = None;
                }
                self.proceed(cx);
            }
        }
    }

    fn observe(&self) -> DevicesStatus {
        self.status()
    }
}
