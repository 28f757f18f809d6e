//! Objects that are refused. What one said before stays; if that was in an earlier run, it is told by what
//! the object mentions.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    rc::Rc,
};

use serde_json::Value;

use super::source_object::{Name, SourceObject};
use crate::{model::Frontend, ports::service_flags as flags};

/// An object that is refused. What it said before stays.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RefusedServiceObject {
    /// Its kind and name, as far as it could be read.
    pub object: String,
    /// Path of the field.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

/// What an earlier run left that may be of an object which this one never understood.
#[derive(Debug)]
pub(super) enum Withheld {
    /// Frontends at these addresses, or at these ports of the node.
    Frontends { addresses: BTreeSet<IpAddr>, ports: BTreeSet<u16> },
    /// Who serves a service.
    Members(Name),
}

impl Withheld {
    /// Whatever has an address or a port that the object mentions anywhere.
    pub(super) fn mentioned(object: &Value) -> Self {
        let (mut addresses, mut ports) = Default::default();
        mention(object, &mut addresses, &mut ports);
        Self::Frontends { addresses, ports }
    }
}

fn mention(value: &Value, addresses: &mut BTreeSet<IpAddr>, ports: &mut BTreeSet<u16>) {
    match value {
        Value::String(text) => addresses.extend(text.parse::<IpAddr>()),
        Value::Number(number) => {
            ports.extend(number.as_u64().and_then(|it| u16::try_from(it).ok()));
        }
        Value::Array(all) => all.iter().for_each(|it| mention(it, addresses, ports)),
        Value::Object(all) => all.values().for_each(|it| mention(it, addresses, ports)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// An object that is refused, and what is held for it.
pub(super) type RefusedWithHeld = (RefusedServiceObject, Option<Withheld>);

/// All that is refused.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    of_files: BTreeMap<Rc<str>, Vec<RefusedWithHeld>>,
    /// Objects of the cluster.
    objects: BTreeMap<SourceObject, RefusedWithHeld>,
    /// Files of which nothing can be read, and never could in this life.
    unreadable: BTreeSet<Rc<str>>,
    /// Something is held no more.
    let_go: bool,
}

impl Refusals {
    /// All of them, with their sources.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Rc<str>, &RefusedServiceObject)> {
        let files = self.of_files.iter();
        let files = files.flat_map(|(source, all)| all.iter().map(move |(one, _)| (source, one)));
        files.chain(self.objects.iter().map(|(speaker, (error, _))| (&speaker.0, error)))
    }

    /// An object of the cluster is refused. What is held for it stays so, whatever is wrong with it next.
    pub(super) fn refuse(&mut self, speaker: SourceObject, (error, held): RefusedWithHeld) {
        let before = self.objects.remove(&speaker).and_then(|(_, held)| held);
        self.objects.insert(speaker, (error, held.or(before)));
    }

    /// An object of the cluster is understood, or gone; the service whose members were held for it.
    pub(super) fn accept(&mut self, speaker: &SourceObject) -> Option<Name> {
        let (_, held) = self.objects.remove(speaker)?;
        self.let_go |= held.is_some();
        members(held.as_ref()).cloned()
    }

    /// Of a file, these are refused; those that were not before, and the services whose members were held.
    pub(super) fn refuse_of_file(
        &mut self,
        source: &Rc<str>,
        all: Vec<RefusedWithHeld>,
    ) -> (Vec<RefusedServiceObject>, BTreeSet<Name>) {
        let before = self.of_files.remove(source).unwrap_or_default();
        self.let_go |= self.unreadable.remove(source);
        self.let_go |= before.iter().any(|(_, held)| held.is_some());
        let new = all.iter().map(|(error, _)| error);
        let new = new.filter(|error| !before.iter().any(|(it, _)| it == *error)).cloned().collect();
        if !all.is_empty() {
            self.of_files.insert(Rc::clone(source), all);
        }
        (new, before.iter().filter_map(|(_, held)| members(held.as_ref()).cloned()).collect())
    }

    /// Nothing can be read of a file that this life never read.
    pub(super) fn cannot_read(&mut self, source: Rc<str>) {
        self.unreadable.insert(source);
    }

    /// Whether a frontend of an earlier run may be of something that is refused.
    pub(super) fn may_mean(&self, at: &Frontend, bits: u16) -> bool {
        let is_of_node = bits & (flags::NODE_PORT | flags::HOST_PORT | flags::EXTERNAL_IP) != 0;
        !self.unreadable.is_empty()
            || self.held().any(|held| match held {
                Withheld::Frontends { addresses, ports } => {
                    addresses.contains(&at.at.address)
                        || (is_of_node && ports.contains(&at.at.port))
                }
                Withheld::Members(_) => false,
            })
    }

    /// Whether backends of an earlier run may be of a service although no slice that can be read names them.
    pub(super) fn hold_members(&self, name: &Name) -> bool {
        let is_it = |held| members(Some(held)) == Some(name);
        !self.unreadable.is_empty() || self.held().any(is_it)
    }

    /// Whether something is held no more since this was asked last.
    pub(super) fn take_let_go(&mut self) -> bool {
        std::mem::take(&mut self.let_go)
    }

    fn held(&self) -> impl Iterator<Item = &Withheld> {
        let all = self.of_files.values().flatten().chain(self.objects.values());
        all.filter_map(|(_, held)| held.as_ref())
    }
}

fn members(held: Option<&Withheld>) -> Option<&Name> {
    match held {
        Some(Withheld::Members(name)) => Some(name),
        Some(Withheld::Frontends { .. }) | None => None,
    }
}
