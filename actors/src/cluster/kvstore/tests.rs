//! Tests of stores: what each must do, and the lists of the one in memory.

mod api;
mod conformance;
mod lists;
mod memory;
