//! The plugin's log: where it goes, and the line that each call leaves there.

use std::{
    fs::File,
    io::{self, IsTerminal},
    sync::Mutex,
};

use serde_json::Value;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use super::{CniError, Invocation, NetworkConfig};

/// Logs to where the configuration says; to standard error, which runtimes log, if that fails.
pub(super) fn start(config: &NetworkConfig) {
    let file = config
        .log_file
        .as_ref()
        .map(|path| (path, File::options().create(true).append(true).open(path)));
    let (writer, complaint) = match file {
        None => (BoxMakeWriter::new(io::stderr), None),
        Some((_, Ok(file))) => (BoxMakeWriter::new(Mutex::new(file)), None),
        Some((path, Err(error))) => (BoxMakeWriter::new(io::stderr), Some((path, error))),
    };
    let level = if config.debug { tracing::Level::DEBUG } else { tracing::Level::INFO };
    let subscriber = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_max_level(level)
        .with_ansi(config.log_file.is_none() && io::stderr().is_terminal());
    // Only a test starts twice in one process; the first one's log serves it too.
    let started =
        if config.log_json { subscriber.json().try_init() } else { subscriber.try_init() };
    if let (Ok(()), Some((path, error))) = (started, complaint) {
        tracing::warn!(log_file = %path.display(), %error, "cannot log to the file");
    }
}

/// Logs how a call ended.
pub(super) fn tell(invocation: &Invocation, outcome: &Result<Option<Value>, CniError>) {
    let command = invocation.command.as_str();
    let Invocation { container_id, ifname, pod_namespace, pod_name, .. } = invocation;
    match outcome {
        Ok(_) => tracing::info!(command, container_id, ifname, pod_namespace, pod_name, "done"),
        Err(error) => {
            tracing::error!(command, container_id, ifname, pod_namespace, pod_name, %error, "failed");
        }
    }
}
