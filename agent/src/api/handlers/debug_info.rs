//! `GET /debuginfo`: status, endpoints, services, settings, policy and more in one answer. A part that
//! cannot be had costs its own member only, and `subsystem` says why.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::Path,
    time::Duration,
};

use axum::{
    body::{Bytes, to_bytes},
    extract::State,
    http::Uri,
};
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::timeout,
};
use volvox_actors::model::Labels;
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{DebugInfo, Endpoint};

use super::{endpoint_list, health, identity, ip, map, node, policy, service, volvox};
use crate::api::Api;

/// How long one part may take: all of them come while a client waits yet.
const PART_PATIENCE: Duration = Duration::from_secs(20);
/// How much of a part is told, bytes.
const PART_MAX: usize = 1 << 20;
/// The part that names what could not be had.
const MISSING: &str = "missing";

/// What a bug report needs.
pub(crate) async fn get(State(api): State<Api>) -> Answer {
    let facts = &api.facts;
    let (status, views, services, policy, memory, mut subsystem) = tokio::join!(
        part(health::status(&api, false)),
        part(endpoint_list::views(&api, "GET /debuginfo", Labels::default())),
        part(service::all(&api)),
        part(policy::rules(&api)),
        part(memory_map()),
        subsystem(&api),
    );
    let mut missing = Missing(String::new());
    let views = missing.unless("endpoint-list", views);
    let settings = facts.settings.iter().map(|(name, value)| format!("{name}:{value}"));
    let info = DebugInfo {
        cilium_memory_map: missing.unless("cilium-memory-map", memory),
        cilium_status: missing.unless("cilium-status", status),
        cilium_version: facts.version.clone(),
        encryption: BTreeMap::new(),
        endpoint_list: views.iter().map(|view| Endpoint::new(view, &facts.options)).collect(),
        environment_variables: settings.collect(),
        kernel_version: rustix::system::uname().release().to_string_lossy().into_owned(),
        policy: missing.unless("policy", policy),
        service_list: missing.unless("service-list", services),
        subsystem: BTreeMap::new(),
    };
    if !missing.0.is_empty() {
        subsystem.insert(MISSING.to_owned(), missing.0);
    }
    ok(&DebugInfo { subsystem, ..info })
}

/// The members that could not be had, each on a line with the reason.
struct Missing(String);

impl Missing {
    fn unless<T: Default>(&mut self, name: &str, part: Result<T, String>) -> T {
        part.unwrap_or_else(|why| {
            self.0 += &format!("{name} cannot be had: {why}\n");
            T::default()
        })
    }
}

/// One part, or why it is not to be had.
async fn part<T, E: Into<ApiError>>(
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(PART_PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|error| error.into().text),
        Err(_) => Err(format!("it did not come within {} seconds", PART_PATIENCE.as_secs())),
    }
}

/// What Cilium's answer has no member for: each part as its own path answers it.
async fn subsystem(api: &Api) -> BTreeMap<String, String> {
    let mut parts = JoinSet::new();
    let state = || State(api.clone());
    let all = (Uri::default(), Bytes::new());
    begin(&mut parts, "actors", volvox::actors(state()));
    begin(&mut parts, "build-queue", volvox::build_queue(state()));
    begin(&mut parts, "cluster-nodes", node::cluster(state()));
    begin(&mut parts, "conntrack", volvox::conntrack(state()));
    begin(&mut parts, "devices", volvox::devices(state()));
    begin(&mut parts, "flight", volvox::flight(state()));
    begin(&mut parts, "identities", identity::list(state(), all.0.clone(), all.1));
    begin(&mut parts, "ipam", volvox::ipam(state()));
    begin(&mut parts, "ipcache", ip::list(state(), all.0));
    begin(&mut parts, "maps", map::list(state()));
    begin(&mut parts, "node-ids", node::ids(state()));
    begin(&mut parts, "policy", policy::status(state()));
    begin(&mut parts, "restore", volvox::restore(state()));
    begin(&mut parts, "selectors", policy::selectors(state()));
    begin(&mut parts, "services", service::summary(state()));
    begin(&mut parts, "sources", volvox::sources(state()));
    begin(&mut parts, "waits", volvox::waits(state()));
    let mut had = BTreeMap::new();
    while let Some(ended) = parts.join_next().await {
        match ended {
            Ok((name, Ok(text))) => had.insert(name.to_owned(), text),
            Ok((name, Err(why))) => had.insert(name.to_owned(), format!("cannot be had: {why}")),
            Err(error) => had.insert("crashed".to_owned(), error.to_string()),
        };
    }
    had
}

type Part = (&'static str, Result<String, String>);

fn begin(
    parts: &mut JoinSet<Part>,
    name: &'static str,
    answer: impl Future<Output = Answer> + Send + 'static,
) {
    parts.spawn(async move {
        let text = async {
            let body = to_bytes(answer.await?.into_body(), usize::MAX).await;
            let body = body.map_err(ApiError::failed)?;
            Ok::<_, ApiError>(bounded(String::from_utf8_lossy(&body).into_owned()))
        };
        (name, part(text).await)
    });
}

/// As much of a text as is told, and how much is not.
fn bounded(mut text: String) -> String {
    let whole = text.len();
    if whole > PART_MAX {
        let end = (0..=PART_MAX).rev().find(|&at| text.is_char_boundary(at));
        text.truncate(end.unwrap_or_default());
        text += &format!("\n… of {whole} bytes");
    }
    text
}

/// This process' mappings. Its own `/proc` has them, wherever the node's parameters are mounted.
const MAPPINGS: &str = "/proc/self/maps";

async fn memory_map() -> Result<String, ApiError> {
    let text = spawn_blocking(|| read(Path::new(MAPPINGS))).await.map_err(ApiError::failed)?;
    text.map_err(|error| ApiError::failed(format!("read {MAPPINGS}: {error}")))
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(PART_MAX).unwrap_or(u64::MAX);
    let mut file = File::open(path)?.take(limit);
    file.read_to_end(&mut bytes)?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if file.limit() == 0 {
        text += "\n… and more";
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_shows_its_mappings() {
        let text = read(Path::new(MAPPINGS)).unwrap();
        let program = std::env::current_exe().unwrap();
        assert!(text.contains(program.to_str().unwrap()), "{text}");
        assert!(text.ends_with('\n'), "it is whole: {text}");
    }

    #[test]
    fn a_large_part_is_cut_between_characters_and_says_so() {
        assert_eq!(bounded("short".to_owned()), "short");
        let whole = format!("x{}", "…".repeat(PART_MAX));
        let cut = bounded(whole.clone());
        assert!(cut.len() < PART_MAX + 64 && cut.len() > PART_MAX - 3, "{}", cut.len());
        assert!(cut.ends_with(&format!("\n… of {} bytes", whole.len())));
    }
}
