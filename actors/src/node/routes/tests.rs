//! A node in memory with others around it.

mod changes;
mod faults;
mod local_rules;
mod native;
mod town;
mod tunnel;
