//! One call from beginning to end: reads it, carries out its command, and answers.
//! An ADD that fails is undone, and begun again if the agent went away meanwhile.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    process::ExitCode,
};

use serde_json::{Value, json};
use volvox_rest::{
    RestClient,
    delete_queue::{DeleteQueue, DeleteQueueError, LOCK_PATIENCE, Shared},
};

use super::{
    CniError, CniVersion, Command, ErrorCode, Invocation, NetworkConfig, add::add, attachment,
    cancel::Cancel, check::check, del::del, gc::gc, logging, status::status, undo::Undo,
};

/// The longest configuration read, bytes: GC's lists every attachment of the node.
const CONFIG_LIMIT: u64 = 16 << 20;

/// How often an ADD is begun whose agent goes away in the middle.
const ADD_ATTEMPTS: usize = 3;

/// One call of the plugin, with all it needs.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) invocation: Invocation,
    pub(super) config: NetworkConfig,
    pub(super) client: RestClient,
    pub(super) queue: DeleteQueue,
}

impl Call {
    pub(super) fn new(invocation: Invocation, config: NetworkConfig) -> Self {
        let client = RestClient::new(&config.socket).keep_connections();
        let queue = DeleteQueue::at(&config.delete_queue);
        Self { invocation, config, client, queue }
    }

    /// Waits until no agent is starting, then opens the queue for writing.
    pub(super) async fn share_queue(&self) -> Result<Shared, DeleteQueueError> {
        let queue = self.queue.clone();
        let locking = tokio::task::spawn_blocking(move || queue.share(LOCK_PATIENCE));
        locking.await.expect("waiting for a lock neither panics nor is aborted")
    }
}

/// Does what the environment and standard input say, and answers on standard output.
pub fn run() -> ExitCode {
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(key, _)| key.starts_with("CNI_"))
        .collect();
    if env.is_empty() {
        about();
    }
    let mut stdin = Vec::new();
    let (version, outcome) = match read_config(&mut stdin, &env) {
        Ok(()) => (NetworkConfig::version_of(&stdin), in_runtime(&env, &stdin)),
        Err(error) => (CniVersion::LATEST, Err(error)),
    };
    match outcome.or_else(|error| print(&error.to_json(version)).and(Err(error))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Answers on standard output.
fn print(answer: &Value) -> Result<(), CniError> {
    let mut out = io::stdout();
    writeln!(out, "{answer}").and_then(|()| out.flush()).map_err(|error| {
        volvox_system::complain!("volvox-cni: standard output: {error}");
        CniError::new(ErrorCode::Io, "standard output cannot be written", error)
    })
}

/// Tells a person who starts it by hand what it is.
fn about() {
    let versions = CniVersion::ALL.map(CniVersion::as_str).join(", ");
    volvox_system::complain!(
        "volvox-cni {}: a CNI plugin, started by container runtimes; CNI {versions}",
        env!("VOLVOX_VERSION")
    );
}

fn read_config(stdin: &mut Vec<u8>, env: &BTreeMap<String, String>) -> Result<(), CniError> {
    if !env.contains_key("CNI_COMMAND") {
        return Ok(());
    }
    let failed = |why: String| CniError::new(ErrorCode::Io, "standard input cannot be read", why);
    let length = io::stdin().take(CONFIG_LIMIT + 1).read_to_end(stdin);
    match length {
        Err(error) => Err(failed(error.to_string())),
        Ok(length) if length as u64 > CONFIG_LIMIT => {
            Err(failed(format!("the configuration is longer than {CONFIG_LIMIT} bytes")))
        }
        Ok(_) => Ok(()),
    }
}

fn in_runtime(env: &BTreeMap<String, String>, stdin: &[u8]) -> Result<(), CniError> {
    let failed = |error: io::Error| CniError::new(ErrorCode::Io, "the plugin cannot run", error);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let cancel = Cancel::on_signals().map_err(failed)?;
        execute(env, stdin, cancel, print).await
    })
}

/// Does one call; what there is to say goes to `tell`.
pub(super) async fn execute(
    env: &BTreeMap<String, String>,
    stdin: &[u8],
    cancel: Cancel,
    tell: impl FnOnce(&Value) -> Result<(), CniError>,
) -> Result<(), CniError> {
    let invocation = Invocation::parse(env)?;
    if invocation.command == Command::Version {
        return tell(&versions(NetworkConfig::version_of(stdin)));
    }
    let config = NetworkConfig::parse(stdin, invocation.command)?;
    logging::start(&config);
    let call = Call::new(invocation, config);
    let outcome = carry_out(&call, cancel).await;
    logging::tell(&call.invocation, &outcome);
    let Some(answer) = outcome? else { return Ok(()) };
    tell(&answer)?;
    // Who is killed before has failed for the runtime, whatever it wrote.
    attachment::conclude(&call);
    Ok(())
}

async fn carry_out(call: &Call, mut cancel: Cancel) -> Result<Option<Value>, CniError> {
    match call.invocation.command {
        Command::Add => add_or_undo(call, &mut cancel).await.map(Some),
        Command::Del => del(call).await.map(|()| None),
        Command::Check => check(call).await.map(|()| None),
        Command::Status => status(call).await.map(|()| None),
        Command::Gc => gc(call).await.map(|()| None),
        Command::Version => Ok(Some(versions(call.config.version))),
    }
}

/// Adds; what a failure leaves is removed. An agent that is restarted meanwhile costs a new
/// attempt, not the pod.
async fn add_or_undo(call: &Call, cancel: &mut Cancel) -> Result<Value, CniError> {
    let mut attempt = 1;
    loop {
        let mut undo = Undo::default();
        let error = match add(call, &mut undo, cancel).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        undo.roll_back(call).await;
        if !error.agent_lost || attempt == ADD_ATTEMPTS {
            return Err(error);
        }
        tracing::warn!(attempt, %error, "trying again");
        attempt += 1;
    }
}

fn versions(version: CniVersion) -> Value {
    json!({
        "cniVersion": version.as_str(),
        "supportedVersions": CniVersion::ALL.map(CniVersion::as_str),
    })
}
