//! Durations in the notation of Go, which Cilium's settings use: read and written.

use std::time::Duration;

use serde::Serializer;

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no duration ({cause}): write it like 10m0s, 1.5h or 300ms")]
pub struct DurationError {
    text: String,
    cause: &'static str,
}

/// Units and their nanoseconds, longer names before their beginnings.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration as Go writes it, zero or longer, at most 292 years.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let bad = |cause| DurationError { text: text.to_owned(), cause };
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.starts_with('-') {
        return Err(bad("it is negative"));
    }
    if rest.is_empty() {
        return Err(bad("it is empty"));
    }
    let mut nanoseconds: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split(after, |c| !c.is_ascii_digit() && c != '.');
        let unit = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, size) = unit.ok_or_else(|| bad("a unit is missing or unknown"))?;
        let part = scale(number, *size).ok_or_else(|| bad("a number is missing or too large"))?;
        nanoseconds = nanoseconds
            .checked_add(part)
            .filter(|sum| i64::try_from(*sum).is_ok())
            .ok_or_else(|| bad("it is too long"))?;
        rest = after;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Writes a duration as Go does: `10m0s`, `1.5s`, `300ms`.
pub fn format_duration(span: Duration) -> String {
    let (seconds, nanoseconds) = (span.as_secs(), span.subsec_nanos());
    if seconds == 0 {
        return match nanoseconds {
            0 => "0s".to_owned(),
            1..1_000 => format!("{nanoseconds}ns"),
            1_000..1_000_000 => format!("{}µs", f64::from(nanoseconds) / 1e3),
            _ => format!("{}ms", f64::from(nanoseconds) / 1e6),
        };
    }
    let fraction = match format!("{nanoseconds:09}").trim_end_matches('0') {
        "" => String::new(),
        digits => format!(".{digits}"),
    };
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

/// Serialises as Cilium does.
pub fn as_nanoseconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // What was parsed is 292 years at most, which fits.
    serializer.serialize_u64(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

fn split(text: &str, within: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !within(c)).unwrap_or(text.len()))
}

/// `number` units of that size, what is below a nanosecond cut off.
fn scale(number: &str, size: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanoseconds = whole.checked_mul(size)?;
    let mut unit = size;
    for digit in fraction.bytes() {
        unit /= 10;
        nanoseconds = nanoseconds.checked_add(u64::from(digit - b'0') * unit)?;
    }
    Some(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_what_go_does() {
        for (text, milliseconds, written) in [
            ("0", 0, "0s"),
            ("5s", 5_000, "5s"),
            ("10m0s", 600_000, "10m0s"),
            ("1h", 3_600_000, "1h0m0s"),
            ("1.5h", 5_400_000, "1h30m0s"),
            ("2h45m30.5s", 9_930_500, "2h45m30.5s"),
            ("300ms", 300, "300ms"),
            (".5s", 500, "500ms"),
            ("+1m", 60_000, "1m0s"),
            ("1000000us", 1_000, "1s"),
        ] {
            let span = parse_duration(text).unwrap();
            assert_eq!(span, Duration::from_millis(milliseconds), "{text}");
            assert_eq!(format_duration(span), written);
            assert_eq!(parse_duration(written).unwrap(), span);
        }
        assert_eq!(format_duration(Duration::from_nanos(1_500)), "1.5µs");
    }

    #[test]
    fn refuses_what_is_none() {
        for text in ["", "5", "-5s", "s", "5 s", "5x", "1.2.3s", ".s", "1h-5m", "3000000h", "9e9s"]
        {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains("write it like 10m0s"), "{error}");
        }
    }
}
