//! Waits by what they come down to: who waits for whom is followed to the end, and those with the same end
//! are told together.

use std::collections::{BTreeMap, BTreeSet};

use volvox_rest::models::{RootCause, Source, WaitEntry};

/// What a source says while it is left alone after a failure: `pods, which …: error; tried 3 times, …`.
const TRIED: &str = "; tried ";
/// What who follows a store says: `it is unreachable since 12:40:32: error; retry in 1.0 s`.
const UNREACHABLE: &str = "it is unreachable since ";
const RETRY: &str = "; retry in ";
/// What an endpoint says that goes on with what it has.
const KEEPS: &str = "it keeps the policy";
/// Who asks from outside, and by what for a new pod.
const OUTSIDE: &str = "outside";
const NEW_POD: [&str; 2] = ["PUT /endpoint", "POST /ipam"];

/// The causes of these waits, the one with most waits first. Sources know for how long they heard nothing.
pub(super) fn causes(waits: &[WaitEntry], sources: &[Source]) -> Vec<RootCause> {
    let mut of: BTreeMap<&str, Vec<&WaitEntry>> = BTreeMap::new();
    for wait in waits {
        of.entry(wait.who.as_str()).or_default().push(wait);
    }
    let errors: BTreeSet<String> =
        waits.iter().filter_map(failure).map(|(_, error)| error).collect();
    let mut found: BTreeMap<String, RootCause> = BTreeMap::new();
    for wait in waits {
        let end = end(wait, &of);
        let own = || failure(end).map(|(_, error)| error);
        // Who is no source has the same to say in other words.
        let error = own().or_else(|| errors.iter().find(|it| end.why.contains(*it)).cloned());
        let key = match &error {
            Some(error) => error.clone(),
            None if end.whom.starts_with("port ") => end.whom.clone(),
            None => format!("{} {}", end.whom, end.why),
        };
        let cause = found.entry(key).or_insert_with(|| RootCause {
            whom: whom(end),
            about: error.is_none().then(|| end.why.clone()),
            error,
            ..RootCause::default()
        });
        count(cause, wait);
    }
    let mut all: Vec<_> = found.into_values().collect();
    for cause in &mut all {
        let silences = sources.iter().filter(|it| cause.sources.contains(&it.name));
        let silence = silences.filter_map(|it| it.silent_seconds).reduce(f64::min);
        cause.since_seconds = cause.since_seconds.max(silence.unwrap_or_default());
    }
    all.sort_by(|a, b| b.waits.cmp(&a.waits).then_with(|| a.whom.cmp(&b.whom)));
    all
}

fn count(cause: &mut RootCause, wait: &WaitEntry) {
    cause.waits += 1;
    cause.since_seconds = cause.since_seconds.max(wait.since_seconds);
    let is_endpoint = wait.who.starts_with("endpoint ");
    if let Some((source, _)) = failure(wait) {
        cause.sources.insert(source);
    } else if is_endpoint && wait.why.contains(KEEPS) {
        cause.keeping.insert(wait.who.clone());
    } else if is_endpoint {
        cause.endpoints.insert(wait.who.clone());
    } else if wait.who == OUTSIDE && NEW_POD.iter().any(|it| wait.why.starts_with(it)) {
        cause.pods += 1;
    } else {
        cause.others.insert(wait.who.clone());
    }
}

/// The wait at which a chain ends. Of several ends one that failed.
fn end<'a>(wait: &'a WaitEntry, of: &BTreeMap<&str, Vec<&'a WaitEntry>>) -> &'a WaitEntry {
    let mut frontier = vec![wait];
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut ends = Vec::new();
    while let Some(at) = frontier.pop() {
        match of.get(at.whom.as_str()).filter(|_| failure(at).is_none()) {
            Some(next) if seen.insert(&at.whom) => frontier.extend(next.iter().copied()),
            // A ring has no end: each of it is as good.
            Some(_) => {}
            None => ends.push(at),
        }
    }
    let failed = ends.iter().find(|it| failure(it).is_some());
    failed.or(ends.first()).copied().unwrap_or(wait)
}

fn whom(end: &WaitEntry) -> String {
    let name = end.whom.strip_prefix("port ").unwrap_or(&end.whom);
    name.to_owned()
}

/// What a source could not do, and why.
fn failure(wait: &WaitEntry) -> Option<(String, String)> {
    if let Some(rest) = wait.why.strip_prefix(UNREACHABLE) {
        let (said, _) = rest.rsplit_once(RETRY)?;
        let (_, error) = said.split_once(": ")?;
        return Some((wait.who.clone(), format!("{} is unreachable: {error}", whom(wait))));
    }
    let (said, _) = wait.why.rsplit_once(TRIED)?;
    let (what, error) = said.split_once(": ")?;
    let name = what.split_once(',').map_or(what, |(name, _)| name);
    Some((name.to_owned(), error.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(who: &str, whom: &str, why: &str, since: f64) -> WaitEntry {
        let (who, whom, why) = (who.to_owned(), whom.to_owned(), why.to_owned());
        WaitEntry { who, whom, why, since_seconds: since, left_seconds: 60.0 }
    }

    #[test]
    fn what_comes_down_to_one_failure_is_one_cause() {
        let refused = |name: &str| {
            let why = format!(
                "{name}, which are not synced for 3 s: the API server does not answer: refused; tried 2 \
                 times, and again after this"
            );
            wait(&format!("source {name}"), "time", &why, 0.4)
        };
        let keeps = "the policies of the cluster; it keeps the policy of the life before";
        let mut all = vec![
            refused("pods"),
            refused("nodes"),
            wait("cluster", "source pods", "all pods of the cluster", 9.0),
            wait("policy", "cluster", "every source of the cluster to be synced", 9.5),
            wait("outside", "workloads", "PUT /endpoint/0", 2.0),
            wait("workloads", "cluster", "what the cluster says of pod a/b", 2.0),
            wait("endpoint 9 (a/c)", "port kernel", "its programs", 1.0),
        ];
        all.extend((1..=3).map(|id| wait(&format!("endpoint {id}"), "policy", keeps, 5.0)));
        let found = causes(&all, &[]);
        assert_eq!(found.len(), 2, "{found:?}");
        let first = &found[0];
        assert_eq!(first.error.as_deref(), Some("the API server does not answer: refused"));
        assert_eq!(Vec::from_iter(&first.sources), ["nodes", "pods"]);
        assert_eq!((first.keeping.len(), first.pods, first.waits), (3, 1, 9));
        assert_eq!(first.since_seconds, 9.5);
        assert_eq!(Vec::from_iter(&first.others), ["cluster", "policy", "workloads"]);
        let kernel = &found[1];
        assert_eq!((kernel.whom.as_str(), kernel.endpoints.len()), ("kernel", 1));
    }

    #[test]
    fn watchers_of_a_store_are_one_cause() {
        let why = "it is unreachable since 12:40:32: connect to 10.0.0.1: refused; retry in 1.5 s";
        let all = ["ids", "nodes"].map(|who| wait(who, "port kvstore", why, 0.5));
        let found = causes(&all, &[]);
        assert_eq!(found.len(), 1);
        let error = "kvstore is unreachable: connect to 10.0.0.1: refused";
        assert_eq!(found[0].error.as_deref(), Some(error));
        assert_eq!(Vec::from_iter(&found[0].sources), ["ids", "nodes"]);
    }

    #[test]
    fn sources_say_for_how_long_and_a_ring_ends() {
        let why = "pods, which stay as they were: gone; tried 2 times, and again after this";
        let source =
            Source { name: "pods".to_owned(), silent_seconds: Some(120.0), ..Source::default() };
        let found = causes(&[wait("source pods", "time", why, 1.0)], &[source]);
        assert_eq!(found[0].since_seconds, 120.0);
        let ring = [wait("a", "b", "x", 1.0), wait("b", "a", "y", 1.0)];
        assert_eq!(causes(&ring, &[]).iter().map(|it| it.waits).sum::<usize>(), 2);
    }
}
