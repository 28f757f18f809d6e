//! Moments as text: RFC 3339, in UTC.

use crate::messages::Timestamp;

const DAY: i64 = 86_400;

/// `2026-11-28T09:30:00.123456789Z`, with as few digits of the second as say it, by threes.
pub fn moment(at: &Timestamp) -> String {
    let (days, second) = (at.seconds.div_euclid(DAY), at.seconds.rem_euclid(DAY));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let nanos = at.nanos.clamp(0, 999_999_999);
    let fraction = match nanos {
        0 => String::new(),
        _ if nanos % 1_000_000 == 0 => format!(".{:03}", nanos / 1_000_000),
        _ if nanos % 1000 == 0 => format!(".{:06}", nanos / 1000),
        _ => format!(".{nanos:09}"),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Reads such a moment, of any offset; also the date alone, or without seconds.
pub fn parse_moment(text: &str) -> Option<Timestamp> {
    let (day_text, clock) = match text.split_once(['T', 't', ' ']) {
        Some((day, clock)) => (day, clock),
        None => (text, "00:00:00Z"),
    };
    let mut parts = day_text.splitn(3, '-').map(|it| it.parse::<i64>().ok());
    let (year, month) = (parts.next()??, parts.next().unwrap_or(Some(1))?);
    let day = parts.next().unwrap_or(Some(1))?;
    if !(1970..=2500).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (clock, offset) = zone(clock)?;
    let mut parts = clock.splitn(3, ':');
    let hour: i64 = parts.next()?.parse().ok()?;
    let minute: i64 = parts.next().unwrap_or("0").parse().ok()?;
    let second = parts.next().unwrap_or("0");
    let (second, fraction) = second.split_once('.').unwrap_or((second, ""));
    let second: i64 = second.parse().ok()?;
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..=60).contains(&second) {
        return None;
    }
    if fraction.len() > 9 || !fraction.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
    Some(Timestamp { seconds, nanos })
}

fn zone(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = clock.rfind(['+', '-']) else { return Some((clock, 0)) };
    let sign = if clock.as_bytes()[at] == b'-' { -1 } else { 1 };
    let (hours, minutes) = clock[at + 1..].split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    ((0..24).contains(&hours) && (0..60).contains(&minutes))
        .then(|| (&clock[..at], sign * (hours * 3600 + minutes * 60)))
}

/// Year, month and day of a day since 1970, by the calendar of today.
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Days since 1970 of a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
