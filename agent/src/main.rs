//! `volvox-agent`: the node agent.

use std::{env, process::ExitCode};

use volvox_agent::{
    boot::Boot,
    config::{self, ConfigError, Verb},
    logging, run, takeover, uninstall,
};
use volvox_system::{heap, resident};

/// Exit status of a wrong flag, as clap has it.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    heap::share();
    #[cfg(debug_assertions)]
    if let Err(complaint) = switch_mutant_in() {
        volvox_system::complain!("error: {complaint}");
        return ExitCode::from(EXIT_USAGE);
    }
    let loaded = match config::load(env::args_os(), |name| env::var_os(name)) {
        Ok(loaded) => loaded,
        // Help is no error; the text and the status are clap's.
        Err(ConfigError::CommandLine(error)) => error.exit(),
        Err(error) => {
            volvox_system::complain!("error: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let config = loaded.config;
    logging::start(config.effective_log_level(), config.log_format);
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    // The order of a start: what is on disk and in the kernel is read; the actors come to life;
    // each restored endpoint is told to regenerate; whoever asks is answered meanwhile.
    let ended = match loaded.verb {
        Verb::Uninstall => uninstall::run(&config),
        Verb::MigrateCheck => takeover::check(&config),
        Verb::HandBack => takeover::hand_back(&config),
        Verb::Run => Boot::read(&config).and_then(|boot| {
            // Neither the command line nor the disk is parsed again.
            resident::give_back();
            run::run(config, boot)
        }),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Switches a known bug in, for the testbed, which holds its judge against it. A release cannot.
#[cfg(debug_assertions)]
fn switch_mutant_in() -> Result<(), String> {
    let Some(name) = env::var_os("VOLVOX_MUTANT") else { return Ok(()) };
    let name = name.to_string_lossy();
    match volvox_actors::mutants::switch_everywhere(&name) {
        true => Ok(()),
        false => Err(format!("VOLVOX_MUTANT={name}: there is no such mutant")),
    }
}
