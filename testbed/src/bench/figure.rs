//! A figure: measured values under a name, with what they should be.

use std::{fmt, time::Duration};

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde_json::json;

/// Unit of a figure's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// 10^6 bytes.
    Megabytes,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Hundredths of something.
    Percent,
    /// One quantity in terms of another.
    Ratio,
    /// A number of things.
    Count,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seconds => "s",
            Self::Megabytes => "MB",
            Self::Bytes => "B",
            Self::Nanoseconds => "ns",
            Self::Percent => "%",
            Self::Ratio => "ratio",
            Self::Count => "count",
        })
    }
}

/// Which value a target is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    /// The median must be below.
    Below(f64),
    /// The median must be above.
    Above(f64),
    /// Every value must be 0.
    Zero,
}

/// Values of one kind, in the order in which they were measured. Dropped before it is printed, as
/// where a bench fails late, it says on stderr what it holds.
#[derive(Debug)]
pub struct Figure {
    name: &'static str,
    unit: Unit,
    values: Vec<f64>,
    target: Option<Target>,
    printed: bool,
}

impl Figure {
    /// A figure without values yet.
    pub fn new(name: &'static str, unit: Unit) -> Self {
        Self { name, unit, values: Vec::new(), target: None, printed: false }
    }

    /// The median should be below `limit`.
    pub fn below(mut self, limit: f64) -> Self {
        self.target = Some(Target::Below(limit));
        self
    }

    /// The median should be above `limit`.
    pub fn above(mut self, limit: f64) -> Self {
        self.target = Some(Target::Above(limit));
        self
    }

    /// Every value should be 0.
    pub fn zero(mut self) -> Self {
        self.target = Some(Target::Zero);
        self
    }

    /// Adds a value in the figure's unit.
    pub fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    /// Adds a time to a figure in seconds.
    pub fn push_time(&mut self, time: Duration) {
        self.push(time.as_secs_f64());
    }

    /// Adds a number of things.
    pub fn push_count(&mut self, count: u64) {
        self.push(count as f64);
    }

    /// The 99th percentile by nearest rank: the value that 99 of 100 are at most.
    pub fn high(&self) -> f64 {
        self.rank(99)
    }

    /// The value that so many of 100 are at most.
    pub fn rank(&self, percent: usize) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() * percent).div_ceil(100);
        rank.checked_sub(1).map_or(0.0, |index| sorted[index])
    }

    /// Smallest, middle and largest value; zeros without values.
    pub fn spread(&self) -> [f64; 3] {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => return [0.0; 3],
            length if length % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        [sorted[0], median, sorted[sorted.len() - 1]]
    }

    /// Whether the target is met; `None` without one.
    pub fn is_met(&self) -> Option<bool> {
        let [min, median, max] = self.spread();
        self.target.map(|target| match target {
            Target::Below(limit) => median < limit,
            Target::Above(limit) => median > limit,
            Target::Zero => min == 0.0 && max == 0.0,
        })
    }

    fn line(&self) -> String {
        let [min, median, max] = self.spread();
        let unit = self.unit.to_string();
        let n = self.values.len();
        json!({ "name": self.name, "unit": unit, "n": n, "min": min, "median": median, "max": max })
            .to_string()
    }

    fn row(&self) -> Vec<Cell> {
        let number = |value: f64| Cell::new(significant(value)).set_alignment(CellAlignment::Right);
        let [min, median, max] = self.spread();
        let target = match self.target {
            Some(Target::Below(limit)) => format!("< {}", significant(limit)),
            Some(Target::Above(limit)) => format!("> {}", significant(limit)),
            Some(Target::Zero) => "0".into(),
            None => String::new(),
        };
        let verdict = match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        let n = Cell::new(self.values.len()).set_alignment(CellAlignment::Right);
        let unit = Cell::new(self.unit.to_string());
        let target = Cell::new(target).set_alignment(CellAlignment::Right);
        let numbers = [min, median, max].map(number);
        [vec![Cell::new(self.name), unit, n], numbers.into(), vec![target, Cell::new(verdict)]]
            .concat()
    }
}

impl Drop for Figure {
    fn drop(&mut self) {
        if !self.printed && !self.values.is_empty() {
            volvox_system::complain!("measured before it failed: {}", self.line());
        }
    }
}

/// Three significant digits, as many as the noise of a machine deserves.
fn significant(value: f64) -> String {
    if value == 0.0 || value.abs() >= 100.0 {
        return format!("{value:.0}");
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.max(0) as usize)
}

/// Prints figures on stdout: a table, or one JSON line each.
pub(super) fn print(mut figures: Vec<Figure>, json: bool) {
    figures.iter_mut().for_each(|figure| figure.printed = true);
    if json {
        figures.iter().for_each(|figure| volvox_system::say!("{}", figure.line()));
        return;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["figure", "unit", "n", "min", "median", "max", "target", ""]);
    table.add_rows(figures.iter().map(Figure::row));
    volvox_system::say!("{table}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_and_a_maximum_are_judged_apart() {
        let mut time = Figure::new("a", Unit::Seconds).below(2.5);
        [1.0, 9.0, 2.0, 2.0].into_iter().for_each(|value| time.push(value));
        assert_eq!((time.spread(), time.is_met()), ([1.0, 2.0, 9.0], Some(true)));
        let mut lost = Figure::new("b", Unit::Count).zero();
        [0, 0, 1].into_iter().for_each(|value| lost.push_count(value));
        assert_eq!(lost.is_met(), Some(false));
        let mut share = Figure::new("c", Unit::Ratio).above(0.9);
        [0.1, 0.95, 1.0].into_iter().for_each(|value| share.push(value));
        assert_eq!(share.is_met(), Some(true));
    }

    #[test]
    fn one_value_of_a_hundred_is_beyond_the_high_one() {
        let mut figure = Figure::new("a", Unit::Seconds);
        assert_eq!(figure.high(), 0.0);
        (1..=100).rev().for_each(|value| figure.push(value.into()));
        assert_eq!(figure.high(), 99.0);
        figure.push(1000.0);
        assert_eq!(figure.high(), 100.0);
    }

    #[test]
    fn a_line_has_the_agreed_members() {
        let mut figure = Figure::new("restart.ready", Unit::Seconds);
        figure.push(0.5);
        let line = r#"{"max":0.5,"median":0.5,"min":0.5,"n":1,"name":"restart.ready","unit":"s"}"#;
        assert_eq!(figure.line(), line);
    }

    #[test]
    fn three_digits_tell_enough() {
        assert_eq!([0.0, 0.012345, 1.5, 432.1].map(significant), ["0", "0.0123", "1.50", "432"]);
    }
}
