//! The setting that limits the rate of API calls: how it is read. The API enforces it.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use serde::{Serialize, Serializer};
use volvox_system::duration::{format_duration, parse_duration};

/// Calls whose rate can be limited.
const CALLS: [&str; 5] =
    ["endpoint-create", "endpoint-delete", "endpoint-get", "endpoint-patch", "endpoint-list"];

/// Limits of the API by call; a call without one is not limited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateLimits(pub BTreeMap<String, RateLimit>);

/// Limit of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateLimit {
    /// Calls a second; any number if absent.
    pub per_second: Option<f64>,
    /// Calls that may come at once on top of the rate; 1 if absent.
    pub burst: Option<u32>,
    /// Calls that are served at the same time; any number if absent.
    pub parallel: Option<u32>,
    /// How long a call may wait for its turn before it is refused; for ever if absent.
    pub max_wait: Option<Duration>,
}

/// A text that is no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateLimitError {
    /// No such call.
    #[error("{0:?} is no call that can be limited: those are {calls}", calls = CALLS.join(", "))]
    Call(String),
    /// No such setting of a limit.
    #[error(
        "{0:?} is no setting of a limit: those are rate-limit, rate-burst, parallel-requests and \
         max-wait-duration"
    )]
    Setting(String),
    /// A setting's value.
    #[error("{setting}: {value:?} is not usable: write {expected}")]
    Value {
        /// The setting.
        setting: String,
        /// Its value.
        value: String,
        /// What one looks like.
        expected: &'static str,
    },
    /// A JSON text that is no object of texts.
    #[error("no JSON object of limits by call: {0}")]
    Json(String),
    /// A setting before any call.
    #[error("{0:?} belongs to no call: begin with one, as in endpoint-create=rate-limit:10/s")]
    Orphan(String),
}

/// What Cilium's own controller of limits uses, and fixed limits have no need of.
const IGNORED: [&str; 8] = [
    "auto-adjust",
    "estimated-processing-duration",
    "mean-over",
    "min-parallel-requests",
    "max-parallel-requests",
    "log",
    "delayed-adjustment-factor",
    "skip-initial",
];

impl FromStr for RateLimits {
    type Err = RateLimitError;

    /// Reads `CALL=SETTING:VALUE,SETTING:VALUE,CALL=…`, or a JSON object of settings by call.
    fn from_str(text: &str) -> Result<Self, RateLimitError> {
        let mut limits = Self::default();
        if text.trim_start().starts_with('{') {
            let all: BTreeMap<String, String> = serde_json::from_str(text)
                .map_err(|error| RateLimitError::Json(error.to_string()))?;
            for (call, settings) in all {
                if !CALLS.contains(&call.as_str()) {
                    return Err(RateLimitError::Call(call));
                }
                let limit = limits.0.entry(call).or_default();
                let settings = settings.split(',').map(str::trim).filter(|it| !it.is_empty());
                settings.into_iter().try_for_each(|setting| limit.set(setting))?;
            }
            return Ok(limits);
        }
        let mut call = None;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let setting = match part.split_once('=') {
                Some((name, setting)) if CALLS.contains(&name) => {
                    call = Some(name);
                    setting
                }
                Some((name, _)) => return Err(RateLimitError::Call(name.to_owned())),
                None => part,
            };
            let call = call.ok_or_else(|| RateLimitError::Orphan(part.to_owned()))?;
            limits.0.entry(call.to_owned()).or_default().set(setting)?;
        }
        Ok(limits)
    }
}

impl RateLimit {
    fn set(&mut self, setting: &str) -> Result<(), RateLimitError> {
        let (name, value) = setting.split_once(':').unwrap_or((setting, ""));
        let bad = |expected| RateLimitError::Value {
            setting: name.to_owned(),
            value: value.to_owned(),
            expected,
        };
        let count = || value.parse().map_err(|_| bad("a whole number such as 4"));
        match name {
            "rate-limit" => {
                self.per_second = Some(parse_rate(value).ok_or_else(|| bad("10/s or 5/1m"))?);
            }
            "rate-burst" => self.burst = Some(count()?),
            "parallel-requests" => self.parallel = Some(count()?),
            "max-wait-duration" => {
                let span = parse_duration(value).map_err(|_| bad("a duration such as 15s"))?;
                self.max_wait = Some(span);
            }
            name if IGNORED.contains(&name) => {}
            name => return Err(RateLimitError::Setting(name.to_owned())),
        }
        Ok(())
    }

    fn settings(&self) -> String {
        let settings = [
            self.per_second.map(|rate| format!("rate-limit:{rate}/s")),
            self.burst.map(|burst| format!("rate-burst:{burst}")),
            self.parallel.map(|parallel| format!("parallel-requests:{parallel}")),
            self.max_wait.map(|span| format!("max-wait-duration:{}", format_duration(span))),
        ];
        settings.into_iter().flatten().collect::<Vec<_>>().join(",")
    }
}

/// Reads `10/s` or `5/1m` as calls a second, more than none.
fn parse_rate(text: &str) -> Option<f64> {
    let (calls, span) = text.split_once('/')?;
    let calls: f64 = calls.parse().ok()?;
    // A unit alone is one of it.
    let span = match span.starts_with(|c: char| c.is_ascii_digit()) {
        true => parse_duration(span),
        false => parse_duration(&format!("1{span}")),
    };
    Some(calls / span.ok()?.as_secs_f64()).filter(|rate| rate.is_finite() && *rate > 0.0)
}

impl Serialize for RateLimits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(call, limit)| (call, limit.settings())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_limits_of_several_calls() {
        let text = "endpoint-create=rate-limit:10/s,rate-burst:4,auto-adjust:true,\
                    endpoint-delete=rate-limit:6/1m,parallel-requests:2,max-wait-duration:15s";
        let limits: RateLimits = text.parse().unwrap();
        let (create, delete) = (limits.0["endpoint-create"], limits.0["endpoint-delete"]);
        assert_eq!((create.per_second, create.burst, create.parallel), (Some(10.0), Some(4), None));
        assert_eq!((delete.per_second, delete.parallel), (Some(0.1), Some(2)));
        assert_eq!(delete.max_wait, Some(Duration::from_secs(15)));
        let shown = serde_json::to_value(&limits).unwrap();
        assert_eq!(shown["endpoint-create"], "rate-limit:10/s,rate-burst:4");
    }

    #[test]
    fn reads_the_same_as_json() {
        let text = r#" {"endpoint-create": "rate-limit:0.5/s,rate-burst:4,auto-adjust:true",
                        "endpoint-get": "parallel-requests:4, max-wait-duration:15s"}"#;
        let plain = "endpoint-create=rate-limit:0.5/s,rate-burst:4,\
                     endpoint-get=parallel-requests:4,max-wait-duration:15s";
        assert_eq!(text.parse::<RateLimits>(), plain.parse());
        assert!(!text.parse::<RateLimits>().unwrap().0.is_empty());
    }

    #[test]
    fn is_off_by_default() {
        assert_eq!("".parse(), Ok(RateLimits::default()));
    }

    #[test]
    fn names_what_is_wrong() {
        for (text, words) in [
            ("endpoint-make=rate-limit:1/s", "\"endpoint-make\" is no call"),
            ("rate-limit:1/s", "belongs to no call"),
            ("{\"endpoint-make\": \"\"}", "\"endpoint-make\" is no call"),
            ("{\"endpoint-get\": 4}", "no JSON object of limits"),
            ("endpoint-get=speed:1", "\"speed\" is no setting"),
            ("endpoint-get=rate-limit:0/s", "write 10/s"),
            ("endpoint-get=rate-limit:1/x", "write 10/s"),
            ("endpoint-get=rate-limit:1/0s", "write 10/s"),
            ("endpoint-get=rate-burst:-1", "whole number"),
            ("endpoint-get=max-wait-duration:soon", "duration such as"),
        ] {
            let error = text.parse::<RateLimits>().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
