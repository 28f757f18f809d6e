//! `volvox-operator`: the operator of a cluster.

use std::{env, process::ExitCode};

use volvox_operator::{run, settings};

/// Exit status of a wrong flag, as clap has it.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    volvox_system::heap::share();
    let settings = match settings::load(env::args_os(), |name| env::var_os(name)) {
        Ok(settings) => settings,
        // Help is no error; the text and the status are clap's.
        Err(settings::SettingsError::CommandLine(error)) => error.exit(),
        Err(error) => {
            volvox_system::complain!("error: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    run::log();
    match run::run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
