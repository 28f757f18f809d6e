//! Where a sweep is, what it has found so far, and what comes next.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::backends::Suspects;
use crate::{
    model::{
        BackendId, Frontend, L4Address, ServiceId,
        drift::{DriftByMap, DriftKind, DriftReply},
    },
    ports::{MemberKey, RowMap, RowPlace, SlotKey},
    services::service_cache::shape::Traces,
};

/// Places of rows that belong to no frontend, as it seems.
#[derive(Default)]
pub(super) struct ForeignServiceRows {
    pub(super) slots: BTreeSet<SlotKey>,
    pub(super) members: BTreeSet<(MemberKey, bool)>,
    pub(super) reverse: BTreeSet<(ServiceId, bool)>,
    pub(super) matches: BTreeSet<(BackendId, ServiceId)>,
    pub(super) ranges: BTreeSet<(ServiceId, IpNet)>,
    pub(super) tables: BTreeSet<(ServiceId, bool)>,
}

/// A sweep under way.
#[derive(Default)]
pub(in super::super) struct ServiceSweep {
    pub(super) stage: SweepStage,
    /// Whose each number is, sorted.
    pub(super) index: Vec<(ServiceId, Frontend)>,
    pub(super) found: DriftByMap,
    /// Frontends of which a row is not as it is to be, with what else may be there.
    pub(super) doubts: BTreeMap<Frontend, Traces>,
    pub(super) strangers: ForeignServiceRows,
    pub(super) suspects: Suspects,
    /// Keys that nobody writes.
    pub(super) strange: BTreeMap<RowMap, Vec<Box<[u8]>>>,
    pub(super) subscribers: Vec<DriftReply>,
}

impl ServiceSweep {
    /// Whose a number is.
    pub(super) fn whose(&self, id: ServiceId) -> Option<Frontend> {
        let at = self.index.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.index[at].1)
    }

    /// A frontend has another row than it is to have, or none.
    pub(super) fn doubt(
        &mut self,
        map: RowMap,
        frontend: Frontend,
        kind: DriftKind,
    ) -> &mut Traces {
        self.found.note(map.name(), kind, frontend);
        self.doubts.entry(frontend).or_default()
    }
}

/// What the kernel was asked for last.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SweepStage {
    /// Rows of one of [`RowMap::SERVICES`], from that place on.
    Rows { at: usize, from: Option<RowPlace> },
    /// Tables of Maglev of frontends behind that one, with where backends are.
    Tables { after: Option<Frontend>, places: BTreeMap<BackendId, L4Address> },
}

impl Default for SweepStage {
    fn default() -> Self {
        Self::Rows { at: 0, from: None }
    }
}

/// How a stage ended.
#[derive(Debug)]
pub(super) enum SweepStageOutcome {
    /// There are more rows of that map, from that place on.
    More(RowPlace),
    /// Tables up to that frontend's were compared.
    Compared(Frontend),
    /// There is no more.
    Whole,
    /// The kernel refused, or did not answer.
    Refused(String),
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextSweepStage {
    Enter(SweepStage),
    /// All was compared.
    Finish,
    /// The sweep is given up, for that reason.
    GiveUp(String),
}

impl SweepStage {
    /// Says what comes behind a stage that ended so: nobody else does.
    pub(super) fn next(self, end: SweepStageOutcome) -> NextSweepStage {
        NextSweepStage::Enter(match (self, end) {
            (_, SweepStageOutcome::Refused(why)) => return NextSweepStage::GiveUp(why),
            (Self::Rows { at, .. }, SweepStageOutcome::More(from)) => {
                Self::Rows { at, from: Some(from) }
            }
            (Self::Rows { at, .. }, _) if at + 1 < RowMap::SERVICES.len() => {
                Self::Rows { at: at + 1, from: None }
            }
            (Self::Rows { .. }, _) => Self::Tables { after: None, places: BTreeMap::new() },
            (Self::Tables { places, .. }, SweepStageOutcome::Compared(last)) => {
                Self::Tables { after: Some(last), places }
            }
            (Self::Tables { .. }, _) => return NextSweepStage::Finish,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_map_is_read_to_its_end_and_then_tables_are_compared() {
        let mut stage = SweepStage::default();
        for at in 0..RowMap::SERVICES.len() {
            let from: RowPlace = Box::new([7]);
            let more = SweepStage::Rows { at, from: Some(from.clone()) };
            assert_eq!(stage.next(SweepStageOutcome::More(from)), NextSweepStage::Enter(more));
            stage = match (SweepStage::Rows { at, from: None }).next(SweepStageOutcome::Whole) {
                NextSweepStage::Enter(stage) => stage,
                other => panic!("behind map {at}: {other:?}"),
            };
        }
        assert_eq!(stage, SweepStage::Tables { after: None, places: BTreeMap::new() });
        assert_eq!(stage.next(SweepStageOutcome::Whole), NextSweepStage::Finish);
    }

    #[test]
    fn a_refusal_ends_it_wherever_it_is() {
        let tables = SweepStage::Tables { after: None, places: BTreeMap::new() };
        for stage in [SweepStage::default(), tables] {
            let next = stage.next(SweepStageOutcome::Refused("no".to_owned()));
            assert_eq!(next, NextSweepStage::GiveUp("no".to_owned()));
        }
    }
}
