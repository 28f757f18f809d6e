//! Where the agent is tried.
//!
//! A [`lab`] is a node in namespaces of its own, real kernel and real programs; [`traffic`] runs
//! between its pods and counts what is lost. On a [`fleet`] of pods, [`demo`] shows what a restart
//! costs and [`mod@bench`] measures it. [`chaos`] lives through histories that are told in files; one
//! [`judge`] says whether somebody noticed. [`picture`] is of the dashboard. [`tidy`] looks at the
//! sources.
//! [`kernels`] tries it all in virtual machines of other kernels.
//! The simulator, [`volvox_sim`], needs none of this: it lives through thousands of nodes in memory.

pub mod bench;
pub mod chaos;
pub mod cli;
pub mod cluster;
#[path = "../../bpf-progs/compile.rs"]
mod compile;
pub mod demo;
pub mod fleet;
pub mod judge;
pub mod kernels;
pub mod lab;
pub mod picture;
pub mod progress;
pub mod tidy;
pub mod traffic;
pub mod transcript;
