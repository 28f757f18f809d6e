//! A pod that has no endpoint yet: what is asked for it, and whom that waits for.

use std::collections::BTreeSet;

use volvox_rest::{
    RestClient,
    models::{WaitEntry, WaitList},
};

use crate::error::ClientError;

/// Open waits that are about that pod, and what those wait for in turn; none if nobody asks for it.
pub(super) async fn waits(client: &RestClient, name: &str) -> Result<Vec<WaitEntry>, ClientError> {
    let name = name.strip_prefix("pod-name:").unwrap_or(name);
    let WaitList { waits, .. } = client.get("/volvox/waits").await?;
    Ok(about(name, &waits))
}

fn about(name: &str, waits: &[WaitEntry]) -> Vec<WaitEntry> {
    let mut found: Vec<WaitEntry> =
        waits.iter().filter(|it| names(&it.why, name)).cloned().collect();
    // Each actor that is waited for may wait itself.
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut at = 0;
    while at < found.len() {
        let whom = found[at].whom.clone();
        at += 1;
        let Some(whom) = waits.iter().map(|it| it.who.as_str()).find(|who| *who == whom) else {
            continue;
        };
        if seen.insert(whom) {
            let next = waits.iter().filter(|it| it.who == whom && !found.contains(it));
            let next: Vec<_> = next.cloned().collect();
            found.extend(next);
        }
    }
    found
}

/// Whether a text has that word: a pod's name, with its namespace or without.
fn names(text: &str, name: &str) -> bool {
    let words = || text.split(|sign: char| sign.is_whitespace() || "\"',;()".contains(sign));
    words().any(|word| word == name || word.split_once('/').is_some_and(|(_, bare)| bare == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(who: &str, whom: &str, why: &str) -> WaitEntry {
        let (who, whom, why) = (who.to_owned(), whom.to_owned(), why.to_owned());
        WaitEntry { who, whom, why, since_seconds: 3.0, left_seconds: 57.0 }
    }

    #[test]
    fn what_is_asked_for_a_pod_is_followed_to_whom_that_waits_for() {
        let all = [
            wait("outside", "ipam", "POST /ipam for shop/web"),
            wait("outside", "ipam", "POST /ipam for shop/web-2"),
            wait("ipam", "own-prefixes", "a prefix of pool blue"),
            wait("own-prefixes", "port cluster", "the CiliumNode"),
            wait("endpoint 4", "port kernel", "its build"),
        ];
        for name in ["web", "shop/web", "pod-name:shop/web"] {
            let found = about(name.strip_prefix("pod-name:").unwrap_or(name), &all);
            let whom: Vec<_> = found.iter().map(|it| it.whom.as_str()).collect();
            assert_eq!(whom, ["ipam", "own-prefixes", "port cluster"], "{name}");
        }
        assert_eq!(about("eb", &all), []);
    }
}
