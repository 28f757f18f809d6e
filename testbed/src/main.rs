//! `cargo testbed VERB`: everything that tries the agent.

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use volvox_testbed::cli::{self, Cli};

/// The simulator allocates and frees whole nodes, on every processor.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    match cli::run(&Cli::parse()) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            volvox_system::complain!("testbed: {error:#}");
            ExitCode::FAILURE
        }
    }
}
