//! A list of all objects of a source: why it is made, and what of it is there.

use std::{collections::BTreeSet, mem};

use super::reported_versions::{Delta, ReportedVersions};
use crate::ports::{Object, ObjectKey};

/// Why all is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ListReason {
    #[default]
    Anew,
    /// It failed before: the first page tells whether the server is the one that it was.
    Checking,
    /// Nothing was said.
    AfterSilence,
}

impl ListReason {
    /// Whether the list was to tell if the server is the one that it was. It goes on as any other.
    pub(super) fn end_check(&mut self) -> bool {
        let checks = *self == Self::Checking;
        if checks {
            *self = Self::Anew;
        }
        checks
    }

    /// The whole list is there. Whether it was made because nothing was said.
    pub(super) fn end(&mut self) -> bool {
        mem::take(self) == Self::AfterSilence
    }
}

/// When the supervisor is told what a list says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// When it is whole: it holds what was so at one moment.
    Whole,
    /// With each page, and at last what is gone. Of many objects only a page is ever in memory.
    Pages,
}

/// What is there of a list that is not complete.
pub(super) struct PartialList {
    telling: Telling,
    objects: Vec<Object>,
    /// What pages that were told hold.
    listed: BTreeSet<ObjectKey>,
}

impl PartialList {
    pub(super) fn new(telling: Telling) -> Self {
        Self { telling, objects: Vec::new(), listed: BTreeSet::new() }
    }

    /// It begins anew.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.telling);
    }

    /// Takes in a page; what of it is to be told now.
    pub(super) fn add(&mut self, page: Vec<Object>, reported: &ReportedVersions) -> Vec<Delta> {
        match self.telling {
            Telling::Whole => {
                self.objects.extend(page);
                Vec::new()
            }
            Telling::Pages => {
                self.listed.extend(page.iter().map(|object| object.key.clone()));
                reported.news(page)
            }
        }
    }

    /// It is complete; what is to be told now. The next one begins.
    pub(super) fn end(&mut self, reported: &ReportedVersions) -> Vec<Delta> {
        let Self { telling, objects, listed } = mem::replace(self, Self::new(self.telling));
        match telling {
            Telling::Whole => reported.list(objects),
            Telling::Pages => reported.gone(&listed),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::reported_versions::marks, *};

    fn page(names: &[&str]) -> Vec<Object> {
        let key = |name: &str| ObjectKey { namespace: String::new(), name: name.to_owned() };
        names
            .iter()
            .map(|name| Object { key: key(name), value: json!({ "is": name }).into() })
            .collect()
    }

    fn names(deltas: &[Delta]) -> Vec<(&str, bool)> {
        deltas.iter().map(|(key, value)| (key.name.as_str(), value.is_some())).collect()
    }

    #[test]
    fn a_list_is_told_whole_or_by_pages_and_says_what_is_gone_at_its_end() {
        let mut reported = ReportedVersions::default();
        reported.note(marks(&reported.news(page(&["a", "b"]))));

        let mut whole = PartialList::new(Telling::Whole);
        assert!(whole.add(page(&["b", "c"]), &reported).is_empty());
        assert!(whole.add(page(&["d"]), &reported).is_empty());
        let told = whole.end(&reported);
        assert_eq!(names(&told), [("a", false), ("c", true), ("d", true)]);

        let mut pages = PartialList::new(Telling::Pages);
        for (page, expected) in [(page(&["b", "c"]), "c"), (page(&["d"]), "d")] {
            let told = pages.add(page, &reported);
            assert_eq!(names(&told), [(expected, true)]);
            reported.note(marks(&told));
        }
        assert_eq!(names(&pages.end(&reported)), [("a", false)]);
        // What an earlier list held says nothing of the next one.
        assert_eq!(names(&pages.end(&reported)).len(), 4);

        // One that broke off takes nothing away.
        pages.add(page(&["e"]), &reported);
        pages.clear();
        pages.add(page(&["b", "c", "d", "a"]), &reported);
        assert_eq!(names(&pages.end(&reported)), []);
    }
}
