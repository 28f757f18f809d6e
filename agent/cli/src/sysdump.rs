//! `volvox sysdump`: all that a report of a fault needs, in one archive. What cannot be had is named in it,
//! and costs itself only.

mod archive;
mod redact;
#[cfg(test)]
mod tests;

use std::{
    fs,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use clap::Args;
use hyper::Method;
use serde::Serialize;
use serde_json::{Value, json};
use volvox_actors::model::Timestamp;
use volvox_inspect::{evidence::Evidence, flight::boot_id};
use volvox_maps::Dump;
use volvox_rest::RestClient;

use self::archive::Archive;
use super::{
    args::Lifetime,
    error::ClientError,
    output::{Output, count},
    trace,
};

/// Of a longer log the end is taken.
const LOG_BYTES_MAX: u64 = 32 << 20;
/// How many lines of the journal are taken.
const JOURNAL_LINES: &str = "20000";

/// What the agent is asked, and what the answer is called.
const ANSWERS: [(&str, &str); 27] = [
    ("/healthz", "status"),
    ("/config", "config"),
    ("/debuginfo", "debuginfo"),
    ("/endpoint", "endpoints"),
    ("/identity", "identities"),
    ("/identity/endpoints", "identities-of-endpoints"),
    ("/ip", "ipcache"),
    ("/policy", "policy"),
    ("/policy/selectors", "policy-selectors"),
    ("/policy/subject-selectors", "policy-subject-selectors"),
    ("/service", "services"),
    ("/cluster/nodes", "nodes"),
    ("/map", "maps"),
    ("/volvox/actors", "actors"),
    ("/volvox/waits", "waits"),
    ("/volvox/policy", "policy-status"),
    ("/volvox/policy/origins", "policy-origins"),
    ("/volvox/services", "services-summary"),
    ("/volvox/backends", "backends"),
    ("/volvox/restore", "restore"),
    ("/volvox/build-queue", "build-queue"),
    ("/volvox/conntrack", "conntrack"),
    ("/volvox/devices", "devices"),
    ("/volvox/sources", "sources"),
    ("/volvox/ipam", "ipam"),
    ("/volvox/pools", "pools"),
    ("/volvox/flight", "recorder"),
];

/// Programs that say how the node is, and what their words are called.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("addresses", &["ip", "-d", "-j", "address"]),
    ("routes", &["ip", "-j", "route", "show", "table", "all"]),
    ("routes-ipv6", &["ip", "-6", "-j", "route", "show", "table", "all"]),
    ("rules", &["ip", "-j", "rule"]),
    ("neighbours", &["ip", "-j", "neighbour"]),
    ("journal", &["journalctl", "--unit", "volvox-agent", "--no-pager", "--lines", JOURNAL_LINES]),
];

const README: &str = "\
What the node agent and the kernel said of a node, for a report of a fault.

api/         answers of the agent
maps/        what the kernel's maps hold
recordings/  what the agent's lives recorded: `volvox trace --life FILE`, `volvox dashboard FILE`
logs/        logs
node/        what programs of the node say
missing.txt  what could not be had, and why

Secrets are left out: passwords, tokens, private keys, Secrets, authorization headers. Names of pods and
addresses are not.
";

#[derive(Debug, Args)]
pub(super) struct SysdumpArguments {
    /// To this file, which must not be there [default: volvox-sysdump-TIME.tar.gz]
    #[arg(short, long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// A log that goes in, too; of a long one the end. Without one it is the journal of the unit
    /// `volvox-agent`
    #[arg(long = "log", value_name = "FILE")]
    pub(super) logs: Vec<PathBuf>,
}

/// Where the parts are.
pub(super) struct Sources<'a> {
    pub(super) client: &'a RestClient,
    pub(super) bpf_root: &'a Path,
    pub(super) state_dir: &'a Path,
}

/// Parts, and those that are missing.
struct Collection {
    archive: Archive,
    parts: usize,
    missing: Vec<String>,
}

impl Collection {
    fn value<T: Serialize, E: ToString>(
        &mut self,
        name: &str,
        value: Result<T, E>,
    ) -> Result<(), ClientError> {
        match value {
            Ok(value) => {
                self.archive.value(&format!("{name}.json"), &value)?;
                self.parts += 1;
            }
            Err(error) => self.missing.push(format!("{name}: {}", error.to_string())),
        }
        Ok(())
    }

    fn text<E: ToString>(
        &mut self,
        name: &str,
        text: Result<String, E>,
    ) -> Result<(), ClientError> {
        match text {
            Ok(text) => {
                self.archive.text(name, &text)?;
                self.parts += 1;
            }
            Err(error) => self.missing.push(format!("{name}: {}", error.to_string())),
        }
        Ok(())
    }
}

pub(super) async fn run(
    out: &mut Output<'_>,
    sources: &Sources<'_>,
    arguments: &SysdumpArguments,
) -> Result<(), ClientError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let stamp = Timestamp::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)).0;
    let stamp: String = stamp.chars().take(19).filter(char::is_ascii_alphanumeric).collect();
    let name = format!("volvox-sysdump-{stamp}");
    let path = arguments.file.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        ClientError::Failed(format!(
            "{what} {}: {error}; name another file with --file",
            path.display()
        ))
    };
    if path.exists() {
        return Err(failed("write", &"it is there already"));
    }
    let archive = Archive::begin(&path, name, since.as_secs());
    let archive = archive.map_err(|error| failed("write", &error))?;
    let mut all = Collection { archive, parts: 0, missing: Vec::new() };
    all.archive.text("README.txt", README)?;
    all.archive.value("version.json", &json!({ "client": env!("VOLVOX_VERSION") }))?;
    agent(&mut all, sources.client).await?;
    maps(&mut all, sources.bpf_root)?;
    recordings(&mut all, sources.state_dir)?;
    logs(&mut all, &arguments.logs)?;
    programs(&mut all, arguments.logs.is_empty())?;
    let Collection { mut archive, parts, missing } = all;
    archive.text("missing.txt", &missing.join("\n"))?;
    archive.end().map_err(|error| failed("write", &error))?;
    let answer = json!({ "file": path.display().to_string(), "parts": parts, "missing": missing });
    out.answer(&answer, |out, _| {
        out.line(format!("{}: {} without secrets.", path.display(), count(parts, "part")))?;
        match missing.len() {
            0 => Ok(()),
            number => out.line(format!(
                "{} could not be had: missing.txt in it says why.",
                count(number, "part")
            )),
        }
    })
}

/// What the agent says; if it cannot be reached, that is one missing part.
async fn agent(all: &mut Collection, client: &RestClient) -> Result<(), ClientError> {
    if let Err(error) = client.reach().await {
        all.missing.push(format!("api: {error}"));
        return Ok(());
    }
    for (path, name) in ANSWERS {
        let answer = client.get::<Value>(path).await;
        all.value(&format!("api/{name}"), answer)?;
    }
    let metrics = client.send(Method::GET, "/volvox/metrics", &[], None::<&Value>).await;
    let metrics = metrics.map(|answer| String::from_utf8_lossy(&answer.body).into_owned());
    all.text("api/metrics.txt", metrics)
}

/// What the kernel's maps hold.
fn maps(all: &mut Collection, bpf_root: &Path) -> Result<(), ClientError> {
    let dump = Dump::at(bpf_root);
    let pairs = |what| move |rows| texts(what, rows);
    all.value("maps/sizes", Ok::<_, String>(dump.sizes()))?;
    all.value("maps/lxc", dump.lxc())?;
    all.value("maps/ipcache", dump.ipcache())?;
    all.value("maps/config", dump.config())?;
    all.value("maps/endpoints", dump.endpoints())?;
    all.value("maps/connections", dump.connections())?;
    all.value("maps/translations", dump.translations())?;
    all.value("maps/metrics", dump.metrics().map(pairs("counter")))?;
    let policies = dump.endpoints().and_then(|endpoints| {
        let rows = endpoints.into_keys().map(|id| {
            let rows = dump.policy(id)?.map(|rows| rows.into_iter().collect::<Vec<_>>());
            Ok((id.to_string(), rows))
        });
        rows.collect::<Result<std::collections::BTreeMap<_, _>, volvox_maps::DatapathError>>()
    });
    all.value("maps/policies", policies)
}

/// Rows of which there is no other form, in words.
fn texts<K: std::fmt::Debug, V: std::fmt::Debug>(
    what: &'static str,
    rows: impl IntoIterator<Item = (K, V)>,
) -> Vec<Value> {
    rows.into_iter()
        .map(|(key, value)| json!({ what: format!("{key:?}"), "value": format!("{value:?}") }))
        .collect()
}

/// What is recorded of this life, the one before, and earlier ones. As JSON, so that words in it lose their
/// secrets as all others do.
fn recordings(all: &mut Collection, state_dir: &Path) -> Result<(), ClientError> {
    let evidence = Evidence::at(state_dir);
    let named = [("current", Lifetime::Current), ("previous", Lifetime::Previous)];
    let lives = evidence.lives();
    let numbered = lives.iter().map(|number| (format!("life-{number}"), Lifetime::Number(*number)));
    let named = named.into_iter().map(|(name, life)| (name.to_owned(), life));
    for (name, life) in named.chain(numbered) {
        let flight = trace::read(state_dir, &life);
        let flight = flight.map(|it| json!({ "life": it.life, "events": it.events }));
        all.value(&format!("recordings/{name}"), flight)?;
    }
    let restored: Vec<_> = lives.into_iter().filter_map(|it| evidence.life(it)).collect();
    let restored: Vec<_> = restored.iter().map(|life| &*life.report).collect();
    all.value("recordings/restored", Ok::<_, String>(restored))?;
    all.value("recordings/lost", Ok::<_, String>(evidence.lost(&boot_id())))
}

fn logs(all: &mut Collection, logs: &[PathBuf]) -> Result<(), ClientError> {
    for (number, path) in logs.iter().enumerate() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.text(&format!("logs/{number}-{name}"), end_of(path))?;
    }
    Ok(())
}

/// The end of a file, as far as it is taken.
fn end_of(path: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What programs of the node say. Their environment is this program's, and goes nowhere.
fn programs(all: &mut Collection, journal: bool) -> Result<(), ClientError> {
    for (name, words) in PROGRAMS {
        if name == "journal" && !journal {
            continue;
        }
        let said = Command::new(words[0]).args(&words[1..]).output();
        let said = said.map_err(|error| format!("{}: {error}", words.join(" ")));
        let said = said.and_then(|output| match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!(
                "{}: {}",
                words.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            )),
        });
        let directory = if name == "journal" { "logs" } else { "node" };
        all.text(&format!("{directory}/{name}.txt"), said)?;
    }
    for file in ["/proc/version", "/proc/meminfo", "/proc/mounts"] {
        let name = file.trim_start_matches("/proc/");
        all.text(&format!("node/{name}.txt"), fs::read_to_string(file))?;
    }
    Ok(())
}
