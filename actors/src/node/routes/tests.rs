//! A node in memory with others around it.

mod changes;
mod faults;
mod fixture;
mod local_rules;
mod native;
mod tunnel;
