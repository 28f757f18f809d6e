//! `volvox`: how people and scripts speak to the agent.
//!
//! `install`, `upgrade` and `uninstall` speak to the API server instead, through `volvox-install`;
//! `connectivity` does through `volvox-connectivity`.
//!
//! Tables for people, `-o json` for programs. Exit codes: 0 done, 1 failed, 2 asked wrongly,
//! 3 the agent is not reachable, 4 there is no such thing; of `verify` 10 and the number of the first
//! guarantee that is broken.

mod args;
mod bpf;
mod config;
mod confirm;
mod connectivity;
mod dashboard;
mod endpoint;
mod endpoint_text;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod health;
mod identity;
mod install;
mod ipam;
mod map;
mod metrics;
mod migrate;
mod monitor;
mod monitoring;
mod named;
mod node;
mod observe;
mod output;
mod policy;
mod restore;
mod service;
mod sources;
mod status;
mod sysdump;
#[cfg(test)]
mod tests;
mod trace;
mod verify;
mod why;

use std::{io, process::ExitCode, time::Duration};

use clap::{CommandFactory, Parser};
use volvox_rest::RestClient;

pub use self::{args::Arguments, error::ClientError};
use self::{args::Command, output::Output, why::Places};

/// How long the agent may take to answer: longer than it waits for its own actors.
const DEADLINE: Duration = Duration::from_secs(90);

/// The program: reads its arguments, does what they say, answers with an exit code.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let mut stdout = io::stdout().lock();
    match execute(arguments, &mut stdout) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is_quiet() {
                volvox_system::complain!("volvox: {error}");
            }
            error.exit_code()
        }
    }
}

/// Does what the arguments say; what is answered goes to `out`.
pub fn execute(arguments: Arguments, out: &mut dyn io::Write) -> Result<(), ClientError> {
    if let Command::Completions { shell } = arguments.command {
        // Written by itself it would panic where nobody reads on, as behind `head`.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "volvox", &mut script);
        return Ok(out.write_all(&script)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = RestClient::new(&arguments.socket).patience(Duration::ZERO).deadline(DEADLINE);
    let mut output = Output::new(arguments.output.clone(), out);
    runtime.block_on(dispatch(arguments, &client, &mut output))
}

async fn dispatch(
    arguments: Arguments,
    client: &RestClient,
    out: &mut Output<'_>,
) -> Result<(), ClientError> {
    let Arguments { socket, bpf_root, state_dir, command, output: format } = arguments;
    if format.is_of_observe() && !matches!(command, Command::Observe(_)) {
        let text = "-o: compact, dict and tab are of `volvox observe`: say table, wide, json, yaml or \
                    jsonpath=TEMPLATE";
        return Err(ClientError::Usage(text.to_owned()));
    }
    let command = match command {
        Command::Get(command) => command.into(),
        command => command,
    };
    let (bpf_root, state_dir) = (bpf_root.as_path(), state_dir.as_path());
    match command {
        Command::Status(arguments) => status::show(client, out, state_dir, &arguments).await,
        Command::Node(command) => node::run(client, out, command).await,
        Command::Config(arguments) => config::config(client, out, &arguments).await,
        Command::Version(arguments) => config::version(client, out, &arguments).await,
        Command::Map(command) => map::run(out, state_dir, &command).await,
        Command::Sysdump(arguments) => {
            let sources = sysdump::Sources { client, bpf_root, state_dir };
            sysdump::run(out, &sources, &arguments).await
        }
        Command::Health(arguments) => health::run(&socket, out, &arguments).await,
        Command::Endpoint(command) => endpoint::run(client, out, command).await,
        Command::Ipam(command) => ipam::run(client, out, command).await,
        Command::Service(command) => service::run(client, out, command).await,
        Command::Backend(command) => service::backend(client, out, command).await,
        Command::Policy(command) => policy::run(client, out, command).await,
        Command::Bpf(command) => bpf::run(out, bpf_root, command),
        Command::Identity(command) => identity::run(client, out, command).await,
        Command::Restore(command) => restore::run(client, out, state_dir, command).await,
        Command::Why(question) => {
            why::run(client, out, &Places { state_dir, bpf_root }, &question).await
        }
        Command::Verify(arguments) => {
            verify::run(client, out, (bpf_root, state_dir), &arguments).await
        }
        Command::Trace(trace) => trace::run(out, (bpf_root, state_dir), &trace).await,
        Command::Monitor(filter) => {
            let source = monitor::Source::open(&socket, bpf_root)?;
            let endpoints = filter.endpoints.iter();
            let endpoints = endpoints.map(|it| named::endpoint_number(bpf_root, it));
            let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
            monitor::run(client, out, source, (&filter, &endpoints)).await
        }
        Command::Observe(arguments) => observe::run(&socket, out, &format, &arguments).await,
        Command::Metrics => metrics::run(client, out).await,
        Command::Dashboard(arguments) => dashboard::run(out, &arguments).await,
        Command::Migrate(command) => migrate::run(&command),
        Command::Monitoring(arguments) => monitoring::run(out, &arguments),
        Command::Install(arguments) => install::install(out, arguments).await,
        Command::Upgrade(arguments) => install::upgrade(out, arguments).await,
        Command::Uninstall(arguments) => install::uninstall(out, arguments).await,
        Command::Connectivity(command) => connectivity::run(out, command).await,
        Command::Probe(command) => connectivity::probe(out, command).await,
        // Answered before there was a runtime; another command stands for the other.
        Command::Completions { .. } | Command::Get(_) => Ok(()),
    }
}
