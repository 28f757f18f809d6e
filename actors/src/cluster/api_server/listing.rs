//! Why a source lists all of its objects.

use std::mem;

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
