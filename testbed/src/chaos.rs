//! `cargo testbed chaos`: restarts of real processes, told in files, judged by the guarantees.
//!
//! A history is a file ([`History`]): its words are in `grammar`, from which come the reader, the schema and
//! the errors. It happens in one of two [places](Place): to real processes in the [lab](crate::lab), or in the
//! [simulator](volvox_sim). What a place cannot do is refused before anything starts.

mod check;
mod command;
mod expected;
mod explain;
mod faults;
mod gauntlet;
mod grammar;
mod history;
mod html;
mod lab;
mod learn;
mod library;
mod manual;
mod mutant;
mod outcome;
mod problem;
mod read;
mod report;
mod run;
mod schema;
mod shape;
mod shrink;
mod sim;
mod suggest;
mod tree;

pub use command::{Verb, run};
pub use history::History;
pub use library::{Source, all, find};
pub use outcome::{Done, Outcome, Place, Stream};
pub use problem::Complaint;
pub use run::{Asked, histories};
pub use schema::schema;
