//! Wall-clock time as text, for people and for stored records. Spans are measured elsewhere.

use serde::{Deserialize, Serialize};

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

/// A moment as RFC 3339 in UTC, mostly to the second: `2026-11-20T15:42:30Z`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub String);

impl Timestamp {
    /// The moment so many nanoseconds after 1970.
    pub fn from_nanos(nanos: u64) -> Self {
        let seconds = nanos / NANOS_PER_SECOND;
        let (year, month, day) = civil(seconds / SECONDS_PER_DAY);
        let rest = seconds % SECONDS_PER_DAY;
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        Self(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
    }

    /// The same to the nanosecond: `2026-11-20T15:42:30.000000001Z`.
    pub fn to_the_nanosecond(nanos: u64) -> Self {
        let Self(seconds) = Self::from_nanos(nanos);
        Self(format!("{}.{:09}Z", seconds.trim_end_matches('Z'), nanos % NANOS_PER_SECOND))
    }
}

/// Year, month and day of the day so many days after 1970-01-01.
///
/// Years are counted from March, so that the leap day is a year's last: then a month's first day
/// is linear in its number, and an era of 400 years always has 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970_03_ERA: u64 = 719_468;
    const DAYS_PER_ERA: u64 = 146_097;
    let days = days + DAYS_TO_1970_03_ERA;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_known_moments() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Timestamp::from_nanos(seconds * NANOS_PER_SECOND).0, text);
        }
    }

    #[test]
    fn days_follow_each_other() {
        let mut last = civil(0);
        for days in 1..200_000 {
            let day = civil(days);
            let next_day = day.2 == last.2 + 1 && (day.0, day.1) == (last.0, last.1);
            let next_month = day.2 == 1 && (day.1 == last.1 + 1 || (day.1, last.1) == (1, 12));
            assert!(next_day || next_month, "{last:?} then {day:?}");
            last = day;
        }
    }
}
