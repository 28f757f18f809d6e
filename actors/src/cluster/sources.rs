//! What is known of a source of news, whichever it is: since when it is connected, when it last said
//! anything, and whether it is the one that it was.

use std::time::Duration;

use serde::Serialize;

use crate::host::Time;

/// Who is silent for so long is worth a warning, if it should have spoken.
pub const SILENCE_WARNED: Duration = Duration::from_secs(15);

/// How a source was heard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hearing {
    /// Since when it is connected; none while it is not.
    pub connected: Option<Time>,
    /// When it last said anything.
    pub said: Option<Time>,
    /// That it is another one than before.
    pub replaced: Option<Replaced>,
}

/// That a source is another one than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// When that was noticed, nanoseconds since 1970, UTC.
    pub at: u64,
    /// By what.
    pub why: String,
    /// How often since the agent's start.
    pub times: u64,
}

impl Hearing {
    /// It is connected.
    pub fn connect(&mut self, now: Time) {
        self.connected.get_or_insert(now);
    }

    /// It said something.
    pub fn hear(&mut self, now: Time) {
        self.said = Some(now);
        self.connect(now);
    }

    /// It is not connected any more.
    pub fn lose(&mut self) {
        self.connected = None;
    }

    /// It is another one.
    pub fn replace(&mut self, at: u64, why: String) {
        let times = self.replaced.as_ref().map_or(0, |it| it.times) + 1;
        self.replaced = Some(Replaced { at, why, times });
    }

    /// For how long it has said nothing; none if it never said anything.
    pub fn silence(&self, now: Time) -> Option<Duration> {
        self.said.map(|said| now.since(said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_last_word_and_a_connection_from_the_first() {
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let mut hearing = Hearing::default();
        assert_eq!(hearing.silence(at(9)), None);
        hearing.hear(at(10));
        hearing.hear(at(12));
        assert_eq!(hearing.connected, Some(at(10)));
        assert_eq!(hearing.silence(at(20)), Some(Duration::from_secs(8)));
        hearing.lose();
        assert_eq!((hearing.connected, hearing.said), (None, Some(at(12))));
        hearing.replace(1, "its revision is 1".to_owned());
        hearing.replace(2, "its revision is 0".to_owned());
        let replaced = hearing.replaced.unwrap();
        assert_eq!((replaced.at, replaced.times), (2, 2));
    }
}
