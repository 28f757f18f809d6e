//! The CNI plugin; see [`volvox_agent::cni`].
use std::process::ExitCode;

fn main() -> ExitCode {
    volvox_agent::cni::run()
}
