//! Tests of what nodes share, by where they share it.

pub(crate) mod objects;
pub(crate) mod store;
