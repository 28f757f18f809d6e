//! The client; see [`volvox_agent::client`].
use std::process::ExitCode;

fn main() -> ExitCode {
    volvox_agent::client::run()
}
