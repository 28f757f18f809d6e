//! An endpoint's life, on a whole node in memory.

mod chained;
mod create;
mod delete;
mod faults;
mod policy;
mod records;
mod room;
