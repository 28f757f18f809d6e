//! Which flows are asked for: every filter of Hubble's API.
//!
//! A filter is compiled once, so that a bad one is refused before anything is answered, and what matching
//! costs is bounded: so many values, so long, and expressions of a bounded size.

mod compile;
mod flags;
mod labels;
mod patterns;
#[cfg(test)]
mod tests;
mod words;

pub use self::{
    flags::{FLAGS, FlagError, FlagFilter, flag_filters},
    words::{Words, WordsError},
};
use crate::messages::{Flow, FlowFilter};

/// How many filters a request may have, how many values all of them, and how long each may be.
const FILTERS_MAX: usize = 256;
const VALUES_MAX: usize = 16_384;
const VALUE_BYTES_MAX: usize = 4096;

/// Why a filter is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A value that means nothing.
    #[error("filter {field}: {value:?} {problem}")]
    Value {
        /// The filter's member.
        field: &'static str,
        /// What it says, cut where it is long.
        value: String,
        /// What is wrong with it, and what to write.
        problem: String,
    },
    /// Filters of requests with records that have none.
    #[error(
        "filter {0}: it is about HTTP, and event_type leaves out type 129: add that type, or drop one of both"
    )]
    HttpWithout(&'static str),
    /// More than anybody needs.
    #[error(
        "filters: at most {FILTERS_MAX} filters with {VALUES_MAX} values in all are taken: name fewer, or prefixes of many"
    )]
    TooMany,
    /// What cannot be asked here.
    #[error(
        "filter experimental.cel_expression: expressions in CEL are not evaluated here: use the other filters, as source_pod or verdict"
    )]
    Cel,
}

/// Whether a member of a flow is as a filter wants it.
type Test = Box<dyn Fn(&Flow) -> bool + Send + Sync>;

/// The filters of a request.
#[derive(Default)]
pub struct Filters {
    /// One of these, if there are any,
    allow: Vec<Vec<Test>>,
    /// and none of these.
    deny: Vec<Vec<Test>>,
}

impl std::fmt::Debug for Filters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filters({} allow, {} deny)", self.allow.len(), self.deny.len())
    }
}

impl Filters {
    /// Compiles what a request has.
    pub fn new(allow: &[FlowFilter], deny: &[FlowFilter]) -> Result<Self, FilterError> {
        if allow.len() + deny.len() > FILTERS_MAX {
            return Err(FilterError::TooMany);
        }
        let mut room = VALUES_MAX;
        let mut all = |filters: &[FlowFilter]| -> Result<Vec<_>, _> {
            filters.iter().map(|filter| compile::tests(filter, &mut room)).collect()
        };
        Ok(Self { allow: all(allow)?, deny: all(deny)? })
    }

    /// Whether every flow passes.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    /// Whether a flow is asked for.
    pub fn pass(&self, flow: &Flow) -> bool {
        let one_of = |filters: &[Vec<Test>]| {
            filters.iter().any(|filter| filter.iter().all(|test| test(flow)))
        };
        (self.allow.is_empty() || one_of(&self.allow)) && !one_of(&self.deny)
    }
}
