//! Tests of what nodes share, by where they share it.

mod numbering;
pub(crate) mod objects;
pub(crate) mod store;
