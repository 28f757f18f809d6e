//! The messages of Hubble's API, as they are on the wire: numbers are the API's, unknown fields are
//! skipped. Enumerations are their numbers; [`crate::schema`] has the names.

mod filter;
mod flow;
mod observer;
mod peer;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message;

pub use self::{filter::*, flow::*, observer::*, peer::*};

/// A moment: `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Message)]
pub struct Timestamp {
    /// Seconds since 1970.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds of that second.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Timestamp {
    /// The moment so many nanoseconds after 1970.
    pub fn from_nanoseconds(since: u64) -> Self {
        let (seconds, nanos) = (since / 1_000_000_000, since % 1_000_000_000);
        Self { seconds: seconds as i64, nanos: nanos as i32 }
    }

    /// Nanoseconds since 1970: what is before counts as 1970, what is after 2500 as that.
    pub fn nanoseconds(&self) -> u64 {
        let seconds = u64::try_from(self.seconds).unwrap_or(0).min(16_725_225_600);
        let nanos = u64::try_from(self.nanos).unwrap_or(0).min(999_999_999);
        seconds * 1_000_000_000 + nanos
    }

    /// This moment.
    pub fn now() -> Self {
        Self::from_nanoseconds(now())
    }
}

/// Nanoseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Names of fields, `source.pod_name`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FieldMask {
    /// Each of them.
    #[prost(string, repeated, tag = "1")]
    pub paths: Vec<String>,
}
