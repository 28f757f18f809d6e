//! What all sources say of services.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    rc::Rc,
};

use super::{
    dense::Dense,
    host_port,
    ingress::{self, IngressBackend},
    object::{self, Spec},
    refused::{Refusals, RefusedServiceObject, RefusedWithHeld, Withheld},
    slice::{self, Slice},
    source_object::{Name, ServiceObjectKind, SourceObject, own_service},
};
use crate::{
    model::{ApiObject, Manifest, field::Fault, place::Place},
    ports::ObjectKey,
};

impl ServiceObjectKind {
    const ALL: [(Self, &str); 5] = [
        (Self::Service, "Service"),
        (Self::EndpointSlice, "EndpointSlice"),
        (Self::Endpoints, "Endpoints"),
        (Self::Ingress, "Ingress"),
        (Self::Pod, "Pod"),
    ];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Of which kind an object is; `None` if that kind says nothing of services.
    fn of(object: &ApiObject) -> Option<Self> {
        match object {
            ApiObject::Service(_) => Some(Self::Service),
            ApiObject::EndpointSlice(_) => Some(Self::EndpointSlice),
            ApiObject::Endpoints(_) => Some(Self::Endpoints),
            ApiObject::Ingress(_) => Some(Self::Ingress),
            ApiObject::Pod(_) => Some(Self::Pod),
            ApiObject::Malformed(object) => {
                Self::ALL.into_iter().find(|(_, name)| *name == object.kind).map(|(kind, _)| kind)
            }
            _ => None,
        }
    }
}

/// What is said of a service.
#[derive(Debug, Default)]
pub(super) struct ServiceReports {
    /// What it is, by the source that says it; the first counts.
    specs: Vec<(Rc<str>, Box<Spec>)>,
    /// Who serves it, by the object that lists them.
    slices: Vec<(SourceObject, Slice)>,
    /// Which of its ports Ingresses lead to, by the Ingress.
    entries: Vec<(SourceObject, IngressBackend)>,
}

impl ServiceReports {
    /// What it is.
    pub(super) fn spec(&self) -> Option<&Spec> {
        self.specs.first().map(|(_, spec)| &**spec)
    }

    /// Who serves it.
    pub(super) fn slices(&self) -> impl Iterator<Item = &Slice> {
        self.slices.iter().map(|(_, slice)| slice)
    }

    /// What is odd about who serves it.
    pub(super) fn strangers(&self) -> impl Iterator<Item = String> {
        self.slices.iter().filter_map(|((_, kind, name), slice)| {
            let owner = slice.owner.as_ref()?;
            Some(format!(
                "{} {name} is of it by its label, and of Service {owner} by its owner: the label \
                 counts; correct one of the two",
                kind.name()
            ))
        })
    }

    /// Which of its ports Ingresses lead to, with their names.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Rc<str>, &IngressBackend)> {
        self.entries.iter().map(|((_, _, name), entry)| (name, entry))
    }

    /// Whether it is another thing by this.
    fn define(&mut self, (source, ..): &SourceObject, spec: Option<Box<Spec>>) -> bool {
        let at = self.specs.iter().position(|(of, _)| of == source);
        let before = at.map(|at| self.specs.remove(at).1);
        let changed = before != spec;
        if let Some(spec) = spec {
            self.specs.reserve_exact(1);
            self.specs.push((Rc::clone(source), spec));
            self.specs.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        changed
    }

    /// Whether others serve it by this.
    fn list(&mut self, speaker: &SourceObject, slices: Vec<Slice>) -> bool {
        let old: Vec<_> = self.slices.extract_if(.., |(it, _)| it == speaker).collect();
        let changed = !old.iter().map(|(_, slice)| slice).eq(&slices);
        self.slices.reserve_exact(slices.len());
        self.slices.extend(slices.into_iter().map(|slice| (speaker.clone(), slice)));
        self.slices.sort_by(|(one, _), (other, _)| one.cmp(other));
        changed
    }

    /// Whether an Ingress leads elsewhere by this.
    fn lead(&mut self, speaker: &SourceObject, entry: Option<IngressBackend>) -> bool {
        let at = self.entries.iter().position(|(it, _)| it == speaker);
        let before = at.map(|at| self.entries.remove(at).1);
        let changed = before != entry;
        self.entries.extend(entry.map(|entry| (speaker.clone(), entry)));
        self.entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        changed
    }

    /// Whether an object says any of it.
    fn has(&self, speaker: &SourceObject) -> bool {
        self.specs
            .iter()
            .any(|(source, _)| speaker.1 == ServiceObjectKind::Service && *source == speaker.0)
            || self.slices.iter().any(|(it, _)| it == speaker)
            || self.entries.iter().any(|(it, _)| it == speaker)
    }

    fn is_nothing(&self) -> bool {
        self.specs.is_empty() && self.slices.is_empty() && self.entries.is_empty()
    }
}

/// All that is said.
#[derive(Debug, Default)]
pub(super) struct ReportedServices {
    services: Dense<Name, ServiceReports>,
    /// Of which service an object speaks, if not of that of its own name.
    speakers: BTreeMap<SourceObject, Name>,
    /// What each file says.
    files: BTreeMap<Rc<str>, Vec<SourceObject>>,
    refusals: Refusals,
}

/// What an object says.
enum ObjectReport {
    Service(Box<Spec>),
    Slices(Name, Vec<Slice>),
    Entry(Name, IngressBackend),
    /// What is served, and who serves.
    Both(Box<Spec>, Slice),
    /// Nothing of any service.
    Nothing,
}

impl ReportedServices {
    /// Takes no more memory than is needed.
    pub(super) fn pack(&mut self) {
        self.services.pack();
    }

    /// What is said of a service.
    pub(super) fn said(&self, name: &str) -> Option<&ServiceReports> {
        self.services.get(name)
    }

    /// Each service that is said to be.
    pub(super) fn services(&self) -> impl Iterator<Item = (&Name, &Spec)> {
        self.services.iter().filter_map(|(name, said)| Some((name, said.spec()?)))
    }

    /// Services that slices say an address serves, in whatever state.
    pub(super) fn listing(&self, address: &IpAddr) -> impl Iterator<Item = &Name> {
        let is_listed = move |said: &ServiceReports| {
            said.slices().any(|slice| slice.members.iter().any(|it| it.address == *address))
        };
        self.services.iter().filter(move |(_, said)| is_listed(said)).map(|(name, _)| name)
    }

    /// Services that are not there, and to which Ingresses lead.
    pub(super) fn missing(&self) -> impl Iterator<Item = &Name> {
        let all = self.services.iter();
        let missing = all.filter(|(_, it)| it.spec().is_none() && !it.entries.is_empty());
        missing.map(|(name, _)| name)
    }

    /// Objects that are refused.
    pub(super) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Whether something is held no more for an object that was refused.
    pub(super) fn take_let_go(&mut self) -> bool {
        self.refusals.take_let_go()
    }

    /// What an earlier run left that is held for an object that is refused, unless this life knows what it
    /// was before.
    fn held(&self, speaker: Option<&SourceObject>, object: &ApiObject) -> Option<Withheld> {
        let kind = speaker.map_or(ServiceObjectKind::Service, |(_, kind, _)| *kind);
        if speaker.is_some_and(|speaker| self.has_said(speaker)) {
            return None;
        }
        match (kind, speaker) {
            (ServiceObjectKind::EndpointSlice | ServiceObjectKind::Endpoints, Some(speaker)) => {
                members_of(speaker, object).map(Withheld::Members)
            }
            (ServiceObjectKind::EndpointSlice | ServiceObjectKind::Endpoints, None) => None,
            (
                ServiceObjectKind::Service | ServiceObjectKind::Ingress | ServiceObjectKind::Pod,
                _,
            ) => Some(Withheld::mentioned(&object.to_json())),
        }
    }

    /// Whether an object says something of a service.
    fn has_said(&self, speaker: &SourceObject) -> bool {
        let name = self.speakers.get(speaker).cloned().unwrap_or_else(|| own_service(speaker));
        self.services.get(&name).is_some_and(|said| said.has(speaker))
    }

    /// Takes what the cluster says of an object now.
    pub(super) fn apply_object(
        &mut self,
        cluster: &Rc<str>,
        key: &ObjectKey,
        object: &ApiObject,
        node: &str,
        changed: &mut BTreeSet<Name>,
    ) {
        let Some(read) = read(cluster, object, node) else { return };
        match read {
            Ok((speaker, speech)) => {
                changed.extend(self.refusals.accept(&speaker));
                self.say(&speaker, speech, changed);
            }
            Err((speaker, error)) => {
                let held = self.held(speaker.as_ref(), object);
                let RefusedServiceObject { object: name, path, problem, remedy } = &error;
                tracing::error!(
                    object = name,
                    path,
                    "refused, what it was before stays: {problem}; {remedy}"
                );
                let speaker = speaker
                    .unwrap_or_else(|| (cluster.clone(), ServiceObjectKind::Service, full(key)));
                self.refusals.refuse(speaker, (error, held));
            }
        }
    }

    /// An object of the cluster is gone, one of that resource.
    pub(super) fn forget_object(
        &mut self,
        cluster: &Rc<str>,
        resource: &str,
        key: &ObjectKey,
        changed: &mut BTreeSet<Name>,
    ) {
        let kinds: &[ServiceObjectKind] = match resource {
            "services" => &[ServiceObjectKind::Service],
            "ingresses" => &[ServiceObjectKind::Ingress],
            "pods" => &[ServiceObjectKind::Pod],
            "namespaces" => &[],
            // The server may have been asked in an older way when it told them.
            _ => &[ServiceObjectKind::EndpointSlice, ServiceObjectKind::Endpoints],
        };
        for &kind in kinds {
            let speaker = (Rc::clone(cluster), kind, full(key));
            changed.extend(self.refusals.accept(&speaker));
            self.say(&speaker, ObjectReport::Nothing, changed);
        }
    }

    /// Takes what a file says in place of what it said; the services that are another thing by
    /// it are added to `changed`.
    pub(super) fn apply(&mut self, manifest: Manifest, node: &str, changed: &mut BTreeSet<Name>) {
        let source: Rc<str> = manifest.source.into();
        // Of a file that cannot be read, the owner of the policy complains.
        let Ok(documents) = manifest.objects else {
            if !self.files.contains_key(&source) {
                self.refusals.cannot_read(source);
            }
            return;
        };
        let mut old = self.files.remove(&source).unwrap_or_default();
        let (mut now, mut refused, mut nameless) =
            (Vec::new(), Vec::<RefusedWithHeld>::new(), false);
        for document in &documents {
            let Some(read) = read(&source, document, node) else { continue };
            match read {
                Ok((speaker, _)) if now.contains(&speaker) => {
                    refused.push((twice(&speaker), None));
                }
                Ok((speaker, speech)) => {
                    self.say(&speaker, speech, changed);
                    now.push(speaker);
                }
                Err((speaker, error)) => {
                    let held = self.held(speaker.as_ref(), document);
                    refused.push((error, held));
                    nameless |= speaker.is_none();
                    now.extend(speaker.filter(|it| old.contains(it)));
                }
            }
        }
        old.retain(|speaker| !now.contains(speaker));
        if nameless {
            // It may be any of those that are not named any more.
            now.append(&mut old);
        }
        old.iter().for_each(|speaker| self.say(speaker, ObjectReport::Nothing, changed));
        let (new, mut freed) = self.refusals.refuse_of_file(&source, refused);
        for RefusedServiceObject { object, path, problem, remedy } in new {
            tracing::error!(%source, object, path, "refused, what it was before stays: {problem}; {remedy}");
        }
        changed.append(&mut freed);
        if !now.is_empty() {
            now.shrink_to_fit();
            self.files.insert(source, now);
        }
    }

    /// An object says this in place of what it said.
    fn say(&mut self, speaker: &SourceObject, speech: ObjectReport, changed: &mut BTreeSet<Name>) {
        let own = own_service(speaker);
        let before = match speaker.1 {
            ServiceObjectKind::Service | ServiceObjectKind::Pod => own.clone(),
            _ => self.speakers.get(speaker).cloned().unwrap_or_else(|| own.clone()),
        };
        let name = match &speech {
            ObjectReport::Service(_) | ObjectReport::Both(..) => own.clone(),
            ObjectReport::Slices(name, _) | ObjectReport::Entry(name, _) => Rc::clone(name),
            ObjectReport::Nothing => before.clone(),
        };
        if before != name && self.replace(&before, speaker, ObjectReport::Nothing) {
            changed.insert(before);
        }
        let says_nothing = match &speech {
            ObjectReport::Slices(_, slices) => slices.is_empty(),
            ObjectReport::Nothing => true,
            ObjectReport::Service(_) | ObjectReport::Entry(..) | ObjectReport::Both(..) => false,
        };
        match says_nothing || name == own {
            true => drop(self.speakers.remove(speaker)),
            false => drop(self.speakers.insert(speaker.clone(), Rc::clone(&name))),
        }
        if self.replace(&name, speaker, speech) {
            changed.insert(name);
        }
    }

    /// Whether that is anything new.
    fn replace(&mut self, name: &Name, speaker: &SourceObject, speech: ObjectReport) -> bool {
        let said = self.services.entry(Rc::clone(name)).or_default();
        let (spec, slices, entry) = match speech {
            ObjectReport::Service(spec) => (Some(spec), Vec::new(), None),
            ObjectReport::Slices(_, slices) => (None, slices, None),
            ObjectReport::Entry(_, entry) => (None, Vec::new(), Some(entry)),
            ObjectReport::Both(spec, slice) => (Some(spec), vec![slice], None),
            ObjectReport::Nothing => (None, Vec::new(), None),
        };
        let changed = match speaker.1 {
            ServiceObjectKind::Service => said.define(speaker, spec),
            ServiceObjectKind::Ingress => said.lead(speaker, entry),
            ServiceObjectKind::EndpointSlice | ServiceObjectKind::Endpoints => {
                said.list(speaker, slices)
            }
            ServiceObjectKind::Pod => said.define(speaker, spec) | said.list(speaker, slices),
        };
        if said.is_nothing() {
            self.services.remove(name);
        }
        changed
    }
}

fn full(key: &ObjectKey) -> Rc<str> {
    format!("{}/{}", key.namespace, key.name).into()
}

/// The service that a slice serves which cannot be read, if that much can be.
fn members_of((_, kind, own): &SourceObject, object: &ApiObject) -> Option<Name> {
    if *kind == ServiceObjectKind::Endpoints {
        return Some(Rc::clone(own));
    }
    let json = object.to_json();
    let owner = json.get("metadata")?.get("labels")?.get(slice::SERVICE_LABEL)?.as_str()?;
    let (namespace, _) = own.split_once('/')?;
    Some(format!("{namespace}/{owner}").into())
}

fn twice(speaker: &SourceObject) -> RefusedServiceObject {
    RefusedServiceObject {
        object: format!("{} {}", speaker.1.name(), speaker.2),
        path: "metadata.name".to_owned(),
        problem: "the same source has it twice".to_owned(),
        remedy: "remove one of them".to_owned(),
    }
}

type ObjectReadResult =
    Result<(SourceObject, ObjectReport), (Option<SourceObject>, RefusedServiceObject)>;

/// Reads a document; `None` if it is of a kind that is not looked at.
fn read(source: &Rc<str>, document: &ApiObject, node: &str) -> Option<ObjectReadResult> {
    let kind = ServiceObjectKind::of(document)?;
    let refuse = |speaker: Option<SourceObject>, Fault { path, problem, remedy }: Fault| {
        let name = speaker.as_ref().map(|speaker| format!(" {}", speaker.2)).unwrap_or_default();
        let object = format!("{}{name}", kind.name());
        (speaker, RefusedServiceObject { object, path, problem, remedy })
    };
    let Some((namespace, name)) = document.name() else {
        let fault = match document {
            ApiObject::Malformed(object) => object.fault.clone(),
            _ => Place::ROOT.key("metadata").missing("name"),
        };
        return Some(Err(refuse(None, fault)));
    };
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    let speaker: SourceObject = (Rc::clone(source), kind, format!("{namespace}/{name}").into());
    Some(match speech(document, namespace, &speaker.2, node) {
        Ok(speech) => Ok((speaker, speech)),
        Err(fault) => Err(refuse(Some(speaker), fault)),
    })
}

fn speech(
    document: &ApiObject,
    namespace: &str,
    own: &str,
    node: &str,
) -> Result<ObjectReport, Fault> {
    Ok(match document {
        ApiObject::Service(it) => match object::service(it)? {
            None => ObjectReport::Nothing,
            Some(spec) => ObjectReport::Service(Box::new(spec)),
        },
        ApiObject::EndpointSlice(it) => {
            let name = format!("{namespace}/{}", slice::owner(it)?);
            ObjectReport::Slices(name.into(), vec![slice::slice(it, node)?])
        }
        ApiObject::Endpoints(it) => ObjectReport::Slices(own.into(), slice::endpoints(it, node)?),
        ApiObject::Ingress(it) => match ingress::ingress(it)? {
            None => ObjectReport::Nothing,
            Some((service, entry)) => {
                ObjectReport::Entry(format!("{namespace}/{service}").into(), entry)
            }
        },
        ApiObject::Pod(it) => match host_port::pod(it, node)? {
            None => ObjectReport::Nothing,
            Some((spec, slice)) => ObjectReport::Both(Box::new(spec), slice),
        },
        ApiObject::Malformed(object) => return Err(object.fault.clone()),
        _ => ObjectReport::Nothing,
    })
}
