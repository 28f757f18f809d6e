//! What all sources say of services.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use serde_json::Value;

use super::{
    object::{self, Spec},
    slice::{self, Slice},
};
use crate::{
    field::{Fault, Field, Mapping},
    ports::ObjectKey,
    workloads::Manifest,
};

/// A service's namespace and name, as `namespace/name`.
pub(super) type Name = Rc<str>;

/// An object that says something of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Service,
    EndpointSlice,
    Endpoints,
}

impl Kind {
    const ALL: [(Self, &str, &[&str]); 3] = [
        (Self::Service, "Service", &["v1"]),
        (
            Self::EndpointSlice,
            "EndpointSlice",
            &["discovery.k8s.io/v1", "discovery.k8s.io/v1beta1"],
        ),
        (Self::Endpoints, "Endpoints", &["v1"]),
    ];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// An object: of which source it is, its kind, and its name as `namespace/name`.
type Speaker = (Rc<str>, Kind, Rc<str>);

/// What is said of a service.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// What it is, by the source that says it; the first counts.
    specs: Vec<(Rc<str>, Box<Spec>)>,
    /// Who serves it, by the object that lists them.
    slices: Vec<(Speaker, Slice)>,
}

impl Said {
    /// What it is.
    pub(super) fn spec(&self) -> Option<&Spec> {
        self.specs.first().map(|(_, spec)| &**spec)
    }

    /// Who serves it.
    pub(super) fn slices(&self) -> impl Iterator<Item = &Slice> {
        self.slices.iter().map(|(_, slice)| slice)
    }

    fn is_nothing(&self) -> bool {
        self.specs.is_empty() && self.slices.is_empty()
    }
}

/// An object that is refused. What it said before stays.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Refused {
    /// Its kind and name, as far as it could be read.
    pub object: String,
    /// Path of the field.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

/// All that is said.
#[derive(Debug, Default)]
pub(super) struct Book {
    services: BTreeMap<Name, Said>,
    /// Of which service an object speaks, if not of that of its own name.
    speakers: BTreeMap<Speaker, Name>,
    /// What each file says.
    files: BTreeMap<Rc<str>, Vec<Speaker>>,
    refused: BTreeMap<Rc<str>, Vec<Refused>>,
    /// Objects of the cluster that are refused.
    refused_objects: BTreeMap<Speaker, Refused>,
}

/// What an object says.
enum Speech {
    Service(Option<Box<Spec>>),
    Slices(Name, Vec<Slice>),
    /// Nothing of any service.
    Nothing,
}

impl Book {
    /// What is said of a service.
    pub(super) fn said(&self, name: &str) -> Option<&Said> {
        self.services.get(name)
    }

    /// Each service that is said to be.
    pub(super) fn services(&self) -> impl Iterator<Item = (&Name, &Spec)> {
        self.services.iter().filter_map(|(name, said)| Some((name, said.spec()?)))
    }

    /// Objects that are refused, with their sources.
    pub(super) fn refused(&self) -> impl Iterator<Item = (&Rc<str>, &Refused)> {
        let files = self.refused.iter();
        let files = files.flat_map(|(source, all)| all.iter().map(move |one| (source, one)));
        files.chain(self.refused_objects.iter().map(|(speaker, error)| (&speaker.0, error)))
    }

    /// Takes what the cluster says of an object now.
    pub(super) fn apply_object(
        &mut self,
        cluster: &Rc<str>,
        key: &ObjectKey,
        value: &Value,
        node: &str,
        changed: &mut BTreeSet<Name>,
    ) {
        let Some(read) = read(cluster, value, node) else { return };
        match read {
            Ok((speaker, speech)) => {
                self.refused_objects.remove(&speaker);
                self.say(&speaker, speech, changed);
            }
            Err((speaker, error)) => {
                let Refused { object, path, problem, remedy } = &error;
                tracing::error!(
                    object,
                    path,
                    "refused, what it was before stays: {problem}; {remedy}"
                );
                let speaker =
                    speaker.unwrap_or_else(|| (cluster.clone(), Kind::Service, full(key)));
                self.refused_objects.insert(speaker, error);
            }
        }
    }

    /// An object of the cluster is gone, one of a Service or of who serves one.
    pub(super) fn forget_object(
        &mut self,
        cluster: &Rc<str>,
        is_service: bool,
        key: &ObjectKey,
        changed: &mut BTreeSet<Name>,
    ) {
        let kinds: &[Kind] = match is_service {
            true => &[Kind::Service],
            // The server may have been asked in an older way when it told them.
            false => &[Kind::EndpointSlice, Kind::Endpoints],
        };
        for &kind in kinds {
            let speaker = (Rc::clone(cluster), kind, full(key));
            self.refused_objects.remove(&speaker);
            self.say(&speaker, Speech::Nothing, changed);
        }
    }

    /// Takes what a file says in place of what it said; the services that are another thing by
    /// it are added to `changed`.
    pub(super) fn apply(&mut self, manifest: Manifest, node: &str, changed: &mut BTreeSet<Name>) {
        // Of a file that cannot be read, the owner of the policy complains.
        let Ok(documents) = manifest.objects else { return };
        let source: Rc<str> = manifest.source.into();
        let mut old = self.files.remove(&source).unwrap_or_default();
        let (mut now, mut refused, mut nameless) = (Vec::new(), Vec::new(), false);
        for document in &documents {
            let Some(read) = read(&source, document, node) else { continue };
            match read {
                Ok((speaker, _)) if now.contains(&speaker) => refused.push(twice(&speaker)),
                Ok((speaker, speech)) => {
                    self.say(&speaker, speech, changed);
                    now.push(speaker);
                }
                Err((speaker, error)) => {
                    refused.push(error);
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
        old.iter().for_each(|speaker| self.say(speaker, Speech::Nothing, changed));
        let before = self.refused.remove(&source).unwrap_or_default();
        for error in refused.iter().filter(|error| !before.contains(error)) {
            let Refused { object, path, problem, remedy } = error;
            tracing::error!(%source, object, path, "refused, what it was before stays: {problem}; {remedy}");
        }
        if !refused.is_empty() {
            self.refused.insert(Rc::clone(&source), refused);
        }
        if !now.is_empty() {
            now.shrink_to_fit();
            self.files.insert(source, now);
        }
    }

    /// An object says this in place of what it said.
    fn say(&mut self, speaker: &Speaker, speech: Speech, changed: &mut BTreeSet<Name>) {
        let own: Name = Rc::clone(&speaker.2);
        let before = match speaker.1 {
            Kind::Service => own.clone(),
            _ => self.speakers.get(speaker).cloned().unwrap_or_else(|| own.clone()),
        };
        let (name, spec, slices) = match speech {
            Speech::Service(spec) => (own.clone(), spec, Vec::new()),
            Speech::Slices(name, slices) => (name, None, slices),
            Speech::Nothing => (before.clone(), None, Vec::new()),
        };
        if before != name && self.replace(&before, speaker, None, Vec::new()) {
            changed.insert(before);
        }
        if speaker.1 != Kind::Service {
            match slices.is_empty() || name == own {
                true => drop(self.speakers.remove(speaker)),
                false => drop(self.speakers.insert(speaker.clone(), Rc::clone(&name))),
            }
        }
        if self.replace(&name, speaker, spec, slices) {
            changed.insert(name);
        }
    }

    /// Whether that is anything new.
    fn replace(
        &mut self,
        name: &Name,
        speaker: &Speaker,
        spec: Option<Box<Spec>>,
        slices: Vec<Slice>,
    ) -> bool {
        let said = self.services.entry(Rc::clone(name)).or_default();
        let changed = match speaker.1 {
            Kind::Service => {
                let at = said.specs.iter().position(|(source, _)| *source == speaker.0);
                let before = at.map(|at| said.specs.remove(at).1);
                let changed = before != spec;
                if let Some(spec) = spec {
                    said.specs.reserve_exact(1);
                    said.specs.push((Rc::clone(&speaker.0), spec));
                    said.specs.sort_by(|(one, _), (other, _)| one.cmp(other));
                }
                changed
            }
            _ => {
                let old: Vec<_> = said.slices.extract_if(.., |(it, _)| it == speaker).collect();
                let changed = !old.iter().map(|(_, slice)| slice).eq(&slices);
                said.slices.reserve_exact(slices.len());
                said.slices.extend(slices.into_iter().map(|slice| (speaker.clone(), slice)));
                said.slices.sort_by(|(one, _), (other, _)| one.cmp(other));
                changed
            }
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

fn twice(speaker: &Speaker) -> Refused {
    Refused {
        object: format!("{} {}", speaker.1.name(), speaker.2),
        path: "metadata.name".to_owned(),
        problem: "the same source has it twice".to_owned(),
        remedy: "remove one of them".to_owned(),
    }
}

type Read = Result<(Speaker, Speech), (Option<Speaker>, Refused)>;

/// Reads a document; `None` if it is of a kind that is not looked at.
fn read(source: &Rc<str>, document: &Value, node: &str) -> Option<Read> {
    let kind = document.get("kind").and_then(Value::as_str)?;
    let (kind, _, versions) = Kind::ALL.into_iter().find(|(_, name, _)| *name == kind)?;
    let root = Field::root(document);
    let refuse = |speaker: Option<Speaker>, Fault { path, problem, remedy }: Fault| {
        let name = speaker.as_ref().map(|speaker| format!(" {}", speaker.2)).unwrap_or_default();
        let object = format!("{}{name}", kind.name());
        (speaker, Refused { object, path, problem, remedy })
    };
    let (namespace, name) = match full_name(&root) {
        Ok(name) => name,
        Err(fault) => return Some(Err(refuse(None, fault))),
    };
    let speaker: Speaker = (Rc::clone(source), kind, format!("{namespace}/{name}").into());
    let speech = root.any_mapping().and_then(|root| {
        let version = root.need("apiVersion")?;
        if !versions.contains(&version.text()?) {
            let problem = format!("{} of version {} is not known", kind.name(), version.value);
            return Err(version.fault(problem, format!("write {}", versions[0])));
        }
        speech(kind, &root, namespace, &speaker.2, node)
    });
    Some(match speech {
        Ok(speech) => Ok((speaker, speech)),
        Err(fault) => Err(refuse(Some(speaker), fault)),
    })
}

fn speech(
    kind: Kind,
    root: &Mapping<'_>,
    namespace: &str,
    own: &str,
    node: &str,
) -> Result<Speech, Fault> {
    Ok(match kind {
        Kind::Service => Speech::Service(object::service(root)?.map(Box::new)),
        Kind::EndpointSlice => match slice::owner(root)? {
            None => Speech::Nothing,
            Some(service) => {
                let name = format!("{namespace}/{service}");
                Speech::Slices(name.into(), vec![slice::slice(root, node)?])
            }
        },
        Kind::Endpoints => Speech::Slices(own.into(), slice::endpoints(root, node)?),
    })
}

fn full_name<'a>(root: &Field<'a>) -> Result<(&'a str, &'a str), Fault> {
    let metadata = root.any_mapping()?.need("metadata")?.any_mapping()?;
    let name = metadata.need("name")?;
    if name.text()?.is_empty() {
        return Err(name.fault("the name is empty", "write a name"));
    }
    let namespace = metadata.get("namespace").map(|field| field.text()).transpose()?;
    Ok((namespace.unwrap_or("default"), name.text()?))
}
