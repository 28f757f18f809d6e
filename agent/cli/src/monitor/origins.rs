//! Asks the agent which rules stand behind a record's cookie, and remembers the answers.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use volvox_actors::policy::rules::ClauseOrigin;
use volvox_rest::RestClient;

/// How often the agent is asked again for rules that it did not know.
const PAUSE: Duration = Duration::from_secs(1);

/// Where the rules behind each cookie are written, as far as the agent said.
#[derive(Debug, Default)]
pub(super) struct Origins {
    known: BTreeMap<u32, Vec<String>>,
    asked: Option<Instant>,
}

impl Origins {
    /// The rules behind a cookie. Without an agent there are none, and none is waited for.
    pub(super) async fn of(&mut self, client: &RestClient, cookie: u32) -> Vec<String> {
        if cookie == 0 {
            return Vec::new();
        }
        let recently = self.asked.is_some_and(|asked| asked.elapsed() < PAUSE);
        if !self.known.contains_key(&cookie) && !recently {
            self.asked = Some(Instant::now());
            let answer: Result<BTreeMap<u32, Vec<ClauseOrigin>>, _> =
                client.get("/volvox/policy/origins").await;
            if let Ok(origins) = answer {
                let texts =
                    |all: Vec<ClauseOrigin>| all.iter().map(ClauseOrigin::to_string).collect();
                self.known.extend(origins.into_iter().map(|(id, all)| (id, texts(all))));
            }
        }
        self.known.get(&cookie).cloned().unwrap_or_default()
    }
}
