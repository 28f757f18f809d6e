//! `volvox migrate`: a node goes from Cilium to Volvox with its pods, or back. The agent's program does it, which
//! knows maps, pins and records; it is run, and what it says is handed on.

use std::{env, path::PathBuf, process::Command};

use clap::{Args, Subcommand};

use super::error::ClientError;

/// The agent's program.
const AGENT: &str = "volvox-agent";

#[derive(Debug, Subcommand)]
pub(super) enum MigrateCommand {
    /// What a takeover from Cilium would keep, change and lose on this node, and what would refuse it;
    /// changes nothing
    Check(Flags),
    /// Prepare a node that was taken over for Cilium's agent: to be run when the agent is stopped, before
    /// Cilium's starts
    Back(Flags),
}

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Flags that the agent has, as `-- --config-dir=/etc/cilium --state-dir=/run/cilium`
    #[arg(last = true, value_name = "FLAG")]
    flags: Vec<String>,
}

/// Runs the agent's program, which prints.
pub(super) fn run(command: &MigrateCommand) -> Result<(), ClientError> {
    let (verb, Flags { flags }) = match command {
        MigrateCommand::Check(flags) => ("migrate-check", flags),
        MigrateCommand::Back(flags) => ("hand-back", flags),
    };
    let agent = agent();
    let status = Command::new(&agent).arg(verb).args(flags).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(ClientError::Failed(format!("{verb} ended without success, see above"))),
        Err(error) => Err(ClientError::Failed(format!(
            "cannot run {}: {error}; run `{AGENT} {verb}` where the agent is installed",
            agent.display()
        ))),
    }
}

/// The one beside this program, or else of that name.
fn agent() -> PathBuf {
    let beside = env::current_exe().ok().map(|own| own.with_file_name(AGENT));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| AGENT.into())
}
