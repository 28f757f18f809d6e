//! The CNI plugin; see [`volvox_cni`].
use std::process::ExitCode;

fn main() -> ExitCode {
    volvox_cni::run()
}
