//! How answers are written: tables and lines for people; JSON, YAML and parts of them for programs.

mod format;
mod jsonpath;
mod list;
mod wrap;

use std::io::Write;

use comfy_table::{Table, presets::NOTHING};
use serde::Serialize;

#[cfg(test)]
pub(super) use self::jsonpath::Template;
pub(super) use self::{
    format::{Format, FormatParser},
    list::{Listed, Listing, Watch, list, namespace_in, namespace_of, shown, shown_one},
    wrap::{terminal_width, wrapped},
};
use super::error::ClientError;

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
    pub(super) fn is_for_programs(&self) -> bool {
        self.format.is_for_programs()
    }

    /// Whether people want to see more.
    pub(super) fn is_wide(&self) -> bool {
        self.format == Format::Wide
    }

    /// Writes one line.
    pub(super) fn line(&mut self, text: impl AsRef<str>) -> Result<(), ClientError> {
        Ok(writeln!(self.out, "{}", text.as_ref())?)
    }

    /// Writes text in lines that the terminal has room for, those behind the first indented.
    pub(super) fn paragraph(&mut self, text: &str, indent: usize) -> Result<(), ClientError> {
        match terminal_width() {
            Some(width) => wrapped(text, width, indent).iter().try_for_each(|line| self.line(line)),
            None => self.line(text),
        }
    }

    /// Has what was written read at once.
    pub(super) fn flush(&mut self) -> Result<(), ClientError> {
        Ok(self.out.flush()?)
    }

    /// Writes a value for a program; as JSON, indented, unless another format is asked for.
    pub(super) fn value(&mut self, value: &impl Serialize) -> Result<(), ClientError> {
        let text = match &self.format {
            Format::Yaml => serde_norway::to_string(value).map_err(failed)?,
            Format::Jsonpath(_) => self.part(value)?,
            _ => serde_json::to_string_pretty(value).map_err(failed)?,
        };
        if text.is_empty() {
            return Ok(());
        }
        self.line(text.trim_end_matches('\n'))
    }

    /// Writes one value of several, at once: as one line of JSON, or a document of YAML.
    pub(super) fn record(&mut self, value: &impl Serialize) -> Result<(), ClientError> {
        let text = match &self.format {
            Format::Yaml => format!("---\n{}", serde_norway::to_string(value).map_err(failed)?),
            Format::Jsonpath(_) => self.part(value)?,
            _ => serde_json::to_string(value).map_err(failed)?,
        };
        self.line(text.trim_end_matches('\n'))?;
        Ok(self.out.flush()?)
    }

    fn part(&self, value: &impl Serialize) -> Result<String, ClientError> {
        let Format::Jsonpath(template) = &self.format else { return Ok(String::new()) };
        let value = serde_json::to_value(value).map_err(failed)?;
        template.apply(&value).map_err(ClientError::Failed)
    }

    /// Writes rows below their headings.
    pub(super) fn table<const N: usize>(
        &mut self,
        headings: [&str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Result<(), ClientError> {
        self.rows(&headings, rows.into_iter().map(Vec::from))
    }

    /// The same of any number of columns.
    pub(super) fn rows(
        &mut self,
        headings: &[&str],
        rows: impl IntoIterator<Item = Vec<String>>,
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
        if self.is_for_programs() { self.value(value) } else { people(self, value) }
    }
}

fn failed(error: impl ToString) -> ClientError {
    ClientError::Failed(error.to_string())
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
