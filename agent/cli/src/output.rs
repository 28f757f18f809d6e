//! How answers are written: tables and lines for people, JSON for programs.

use std::io::Write;

use clap::ValueEnum;
use comfy_table::{Table, presets::NOTHING};
use serde::Serialize;

use super::error::ClientError;

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Table,
    /// For programs
    Json,
    /// Of `observe`: a line a flow, as `table`
    Compact,
    /// Of `observe`: as `json`
    Jsonpb,
    /// Of `observe`: a line a member
    Dict,
    /// Of `observe`: in columns
    Tab,
}

/// Where answers go, and how they are written.
pub(super) struct Output<'a> {
    format: Format,
    out: &'a mut dyn Write,
}

impl<'a> Output<'a> {
    pub(super) fn new(format: Format, out: &'a mut dyn Write) -> Self {
        Self { format, out }
    }

    /// Whether a program reads it.
    pub(super) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Writes one line.
    pub(super) fn line(&mut self, text: impl AsRef<str>) -> Result<(), ClientError> {
        Ok(writeln!(self.out, "{}", text.as_ref())?)
    }

    /// Has what was written read at once.
    pub(super) fn flush(&mut self) -> Result<(), ClientError> {
        Ok(self.out.flush()?)
    }

    /// Writes a value as JSON, indented.
    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), ClientError> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| ClientError::Failed(error.to_string()))?;
        self.line(text)
    }

    /// Writes a value as one line of JSON, at once.
    pub(super) fn json_line(&mut self, value: &impl Serialize) -> Result<(), ClientError> {
        let text =
            serde_json::to_string(value).map_err(|error| ClientError::Failed(error.to_string()))?;
        self.line(text)?;
        Ok(self.out.flush()?)
    }

    /// Writes rows below their headings.
    pub(super) fn table<const N: usize>(
        &mut self,
        headings: [&str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Result<(), ClientError> {
        let mut table = Table::new();
        table.load_style(NOTHING).set_header(headings).add_rows(rows);
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        self.line(table.trim_fmt())
    }

    /// Writes one thing, a line a member; members without a value are left out.
    pub(super) fn members(&mut self, members: &[(&str, String)]) -> Result<(), ClientError> {
        let width = members.iter().map(|(name, _)| name.len() + 1).max().unwrap_or(0);
        for (name, value) in members.iter().filter(|(_, value)| !value.is_empty()) {
            let mut label = format!("{name}:");
            for line in value.lines() {
                self.line(format!("{label:width$}  {line}"))?;
                label.clear();
            }
        }
        Ok(())
    }

    /// Writes a value for a program, or else leaves it to `people`.
    pub(super) fn answer<T: Serialize>(
        &mut self,
        value: &T,
        people: impl FnOnce(&mut Self, &T) -> Result<(), ClientError>,
    ) -> Result<(), ClientError> {
        if self.is_json() { self.json(value) } else { people(self, value) }
    }
}

/// A number and its thing, in the plural unless it is one.
pub(super) fn count(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

/// A span of so many seconds.
pub(super) fn seconds(span: f64) -> String {
    match span {
        span if span < 0.001 => format!("{:.0} us", span * 1e6),
        span if span < 1.0 => format!("{:.1} ms", span * 1e3),
        span if span < 120.0 => format!("{span:.1} s"),
        span => format!("{:.0} min", span / 60.0),
    }
}
