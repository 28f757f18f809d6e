//! The client; see [`volvox_cli`].
use std::process::ExitCode;

fn main() -> ExitCode {
    volvox_cli::run()
}
