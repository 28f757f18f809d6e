//! The flag `-o`: how answers are written.

use std::ffi::OsStr;

use clap::{
    Arg, Command,
    builder::{PossibleValue, TypedValueParser},
    error::ErrorKind,
};

use super::jsonpath::Template;

/// How answers are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// The same with more columns.
    Wide,
    /// For programs.
    Json,
    /// The same as YAML.
    Yaml,
    /// Parts of it, by a template.
    Jsonpath(Template),
    /// Of `observe`: a line a flow.
    Compact,
    /// Of `observe`: a line a member.
    Dict,
    /// Of `observe`: in columns.
    Tab,
}

const NAMES: [(&str, &str); 9] = [
    ("table", "For people"),
    ("wide", "With more columns"),
    ("json", "For programs"),
    ("yaml", "The same as YAML"),
    ("jsonpath=TEMPLATE", "Parts of it, as '{.items[*].id}'"),
    ("compact", "Of `observe`: a line a flow, as `table`"),
    ("jsonpb", "Of `observe`: as `json`"),
    ("dict", "Of `observe`: a line a member"),
    ("tab", "Of `observe`: in columns"),
];

impl Format {
    /// Whether only `observe` knows it.
    pub(crate) fn is_of_observe(&self) -> bool {
        matches!(self, Self::Compact | Self::Dict | Self::Tab)
    }

    /// Whether programs read it.
    pub(crate) fn is_for_programs(&self) -> bool {
        matches!(self, Self::Json | Self::Yaml | Self::Jsonpath(_))
    }
}

/// Reads the flag's value.
#[derive(Clone, Debug)]
pub(crate) struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = Format;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Format, clap::Error> {
        let text = value.to_string_lossy();
        let refused = |why: String| {
            clap::Error::raw(ErrorKind::ValueValidation, format!("-o {text}: {why}\n"))
                .with_cmd(command)
        };
        Ok(match &*text {
            "table" => Format::Table,
            "wide" => Format::Wide,
            "json" | "jsonpb" => Format::Json,
            "yaml" => Format::Yaml,
            "compact" => Format::Compact,
            "dict" => Format::Dict,
            "tab" => Format::Tab,
            "jsonpath" => {
                return Err(refused("say which part: -o jsonpath='{.items[*].id}'".to_owned()));
            }
            other => match other.strip_prefix("jsonpath=") {
                Some(template) => Format::Jsonpath(Template::parse(template).map_err(refused)?),
                None => {
                    let names = NAMES.map(|(name, _)| name).join(", ");
                    return Err(refused(format!("one of these is expected: {names}")));
                }
            },
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(NAMES.iter().map(|(name, help)| PossibleValue::new(*name).help(*help))))
    }
}
