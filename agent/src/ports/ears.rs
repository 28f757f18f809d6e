//! When sources said something that no actor follows: what the kernel tells of interfaces and of full
//! tables, and the directory of manifests.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use volvox_actors::{cluster::sources::Hearing, host::Time};

/// What was heard of each, by name. Clones are the same ones.
#[derive(Clone, Debug, Default)]
pub struct Ears(Arc<Mutex<BTreeMap<&'static str, Ear>>>);

/// What was heard of one.
#[derive(Clone, Debug, Default)]
pub struct Ear {
    /// How it was heard.
    pub hearing: Hearing,
    /// How often it said something.
    pub words: u64,
    /// Why nobody listens.
    pub error: Option<String>,
}

impl Ears {
    /// Somebody listens to it.
    pub fn connect(&self, name: &'static str, now: Time) {
        self.with(name, |ear| ear.hearing.connect(now));
    }

    /// It said something.
    pub fn hear(&self, name: &'static str, now: Time) {
        self.with(name, |ear| {
            ear.words += 1;
            ear.hearing.hear(now);
        });
    }

    /// Nobody listens to it any more.
    pub fn lose(&self, name: &'static str, error: String) {
        self.with(name, |ear| {
            ear.hearing.lose();
            ear.error = Some(error);
        });
    }

    /// All of them.
    pub fn all(&self) -> BTreeMap<&'static str, Ear> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn with(&self, name: &'static str, change: impl FnOnce(&mut Ear)) {
        // Whoever panicked meanwhile left at worst an older word.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(name).or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_hears_all_know() {
        let ears = Ears::default();
        let copy = ears.clone();
        ears.connect("manifests", Time(1));
        ears.hear("manifests", Time(5));
        ears.hear("manifests", Time(9));
        let ear = copy.all().remove("manifests").unwrap();
        assert_eq!((ear.hearing.connected, ear.hearing.said), (Some(Time(1)), Some(Time(9))));
        assert_eq!((ear.words, ear.error), (2, None));
        copy.lose("manifests", "gone".to_owned());
        let ear = ears.all().remove("manifests").unwrap();
        assert_eq!((ear.hearing.connected, ear.error.as_deref()), (None, Some("gone")));
    }
}
