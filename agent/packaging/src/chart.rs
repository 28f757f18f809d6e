//! The Helm chart, made from the same objects: each value becomes an expression of the template.
//!
//! The objects are rendered with marks in place of values, and printed. Each mark is then replaced,
//! line by line. The expressions are those of Go's text/template, with `quote`, `toYaml`, `toJson`,
//! `trimAll`, `nindent`, `dir` and `sha256sum`.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::{
    PART_OF, definitions,
    names::named,
    objects::{Marks, entries, is_empty, rendered},
    settings::{Kind, NO_RUNTIME, Place, RUNTIME, RUNTIME_FLAG, RUNTIME_SOCKET, SETTINGS, Setting},
    values::{at, defaults},
};

const BEGIN: &str = "volvoxValueBegin";
const END: &str = "volvoxValueEnd";
/// The mark of who manages the objects.
const MANAGER_MARK: &str = "volvoxManager";
/// The mark of the ConfigMap's sum.
const HASH_MARK: &str = "volvoxHash";

/// A file of the chart: its path in the chart's directory, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFile {
    /// Its path.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// All files of the chart, for this version of Volvox.
pub fn chart(version: &str) -> Vec<ChartFile> {
    let mut files = vec![
        ChartFile { path: "Chart.yaml".to_owned(), text: about(version) },
        ChartFile { path: "values.yaml".to_owned(), text: values_file() },
    ];
    for mut definition in definitions() {
        definition["metadata"]["labels"][PART_OF] = "volvox".into();
        files.push(ChartFile { path: place("crds", &definition), text: yaml(&definition) });
    }
    let marks = Marks { manager: MANAGER_MARK.to_owned(), hash: HASH_MARK.to_owned() };
    for object in rendered(&marked(), &marks) {
        files.push(ChartFile { path: place("templates", &object), text: template(&object) });
    }
    files
}

fn about(version: &str) -> String {
    format!(
        "apiVersion: v2\nname: volvox\ndescription: Volvox, a node agent for Kubernetes\n\
         type: application\nversion: {version}\nappVersion: \"{version}\"\n\
         kubeVersion: \">=1.30.0-0\"\n"
    )
}

fn place(folder: &str, object: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
    let (kind, name) = (word(&object["kind"]), word(&object["metadata"]["name"]));
    match folder {
        "crds" => format!("crds/{name}.yaml"),
        _ if name.ends_with("-operator") => format!("{folder}/operator-{kind}.yaml"),
        _ => format!("{folder}/{kind}.yaml"),
    }
}

fn yaml(value: &Value) -> String {
    // What is JSON can always be written.
    serde_norway::to_string(value).unwrap_or_default()
}

/// The defaults with what each value means.
fn values_file() -> String {
    let all = defaults();
    let mut text =
        String::from("# Values of Volvox. Names are those of Cilium's chart where it has them.\n");
    members(&mut text, "", &all);
    text
}

/// The values whose names begin so, each group below its name, where its first member stands.
fn members(text: &mut String, prefix: &str, all: &Value) {
    let indent = "  ".repeat(prefix.matches('.').count());
    let mut groups: Vec<&str> = Vec::new();
    for setting in SETTINGS {
        let Some(rest) = setting.name.strip_prefix(prefix) else { continue };
        match rest.split_once('.') {
            None => entry(text, &indent, rest, setting, at(all, setting.name)),
            Some((group, _)) if !groups.contains(&group) => {
                groups.push(group);
                let _ = writeln!(text, "{indent}{group}:");
                members(text, &format!("{prefix}{group}."), all);
            }
            Some(_) => {}
        }
    }
}

fn entry(text: &mut String, indent: &str, key: &str, setting: &Setting, value: &Value) {
    let _ = writeln!(text, "{indent}# {}", setting.meaning);
    if let Kind::Choice(choices) = setting.kind {
        let _ = writeln!(text, "{indent}# {}", choices.join(", "));
    }
    let member = Value::Object(Map::from_iter([(key.to_owned(), value.clone())]));
    for line in yaml(&member).lines() {
        let _ = writeln!(text, "{indent}{line}");
    }
}

/// All values, each its mark.
fn marked() -> Value {
    let mut all = Value::Object(Map::new());
    for setting in SETTINGS {
        let mut place = &mut all;
        for key in setting.name.split('.') {
            place = &mut place[key];
        }
        *place = mark(setting.name).into();
    }
    all
}

fn mark(name: &str) -> String {
    format!("{BEGIN}{name}{END}")
}

/// An object with marks as a template.
fn template(object: &Value) -> String {
    let printed = yaml(object);
    let printed: Vec<&str> = printed.lines().collect();
    let mut lines: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(line) = printed.get(at).copied() {
        let runtime = runtime_block(&printed[at..]);
        if !runtime.is_empty() {
            at += runtime.len();
            lines.extend(only_with_runtime(runtime));
            continue;
        }
        at += 1;
        let whole = marks(line).first().and_then(|name| named(name));
        match whole {
            Some(setting) if setting.kind.is_structured() => {
                lines.extend(structured(line, setting));
            }
            Some(setting) if may_be_empty(setting) => {
                let mut inside = vec![scalar(line)];
                // A variable's name stands before its value.
                if line.trim_start().starts_with("value: ") {
                    inside.splice(..0, lines.pop());
                }
                lines.extend(condition(setting, inside));
            }
            _ => lines.push(scalar(line)),
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// What the objects only have if the container runtime is followed, if that begins here: an item of a list,
/// or a line.
fn runtime_block<'a>(rest: &'a [&'a str]) -> &'a [&'a str] {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let Some(first) = rest.first() else { return &[] };
    let inside = match first.trim_start().starts_with("- ") {
        true => rest[1..].iter().take_while(|line| indent(line) > indent(first)).count(),
        false => 0,
    };
    let block = &rest[..=inside];
    let is_its_own = |line: &&str| marks(line).contains(&RUNTIME_SOCKET);
    // A list inside an item has items of its own.
    let is_whole = !block[1..].iter().any(|line| line.trim_start().starts_with("- "));
    if is_whole && block.iter().any(is_its_own) { block } else { &[] }
}

fn only_with_runtime(block: &[&str]) -> Vec<String> {
    let line = |line: &&str| match line.trim_start().starts_with(RUNTIME_FLAG) {
        true => scalar(line),
        // What is mounted is the socket's directory.
        false => scalar(line).replace("{{ .Values.", "{{ dir .Values."),
    };
    let begin = format!("{{{{- if ne .Values.{RUNTIME} \"{NO_RUNTIME}\" }}}}");
    [begin].into_iter().chain(block.iter().map(line)).chain(["{{- end }}".to_owned()]).collect()
}

/// Whether the objects leave out what the value is for, if it is empty.
fn may_be_empty(setting: &Setting) -> bool {
    match setting.place {
        Place::Pod(_) => true,
        Place::Flag(_) | Place::Variable(_) => is_empty(at(&defaults(), setting.name)),
        _ => false,
    }
}

/// Names of the values whose marks are in a line.
fn marks(line: &str) -> Vec<&str> {
    let parts = line.split(BEGIN).skip(1);
    parts.filter_map(|part| part.split_once(END)).map(|(name, _)| name).collect()
}

fn condition(setting: &Setting, inside: Vec<String>) -> Vec<String> {
    let begin = format!("{{{{- if .Values.{} }}}}", setting.name);
    [begin].into_iter().chain(inside).chain(["{{- end }}".to_owned()]).collect()
}

/// A line whose value is a list or a map.
fn structured(line: &str, setting: &Setting) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    let name = setting.name;
    if setting.place == Place::Flags {
        return vec![
            format!("{{{{- range $key, $value := .Values.{name} }}}}"),
            format!("{}{{{{ $key }}}}: {{{{ $value | quote }}}}", &line[..indent]),
            "{{- end }}".to_owned(),
        ];
    }
    let put = |by: usize| format!("{{{{- toYaml .Values.{name} | nindent {by} }}}}");
    // Further members, further items, or the value of a member.
    let inside = match line.trim_start().split_once(": ") {
        Some((key, _)) if key != mark(name) => {
            vec![format!("{}{key}:", &line[..indent]), put(indent + 2)]
        }
        _ => vec![put(indent)],
    };
    condition(setting, inside)
}

/// A line with expressions in place of marks.
fn scalar(line: &str) -> String {
    if let Some((before, _)) = line.split_once(HASH_MARK) {
        return format!("{before}{}", hash());
    }
    let line = line.replace(MANAGER_MARK, "{{ .Release.Service }}");
    let names = marks(&line);
    match names[..] {
        [] => line.clone(),
        // No text, but a number.
        [name] if named(name).is_some_and(|it| it.place == Place::Operators) => {
            line.replace(BEGIN, "{{ .Values.").replace(END, " }}")
        }
        [name] if named(name).is_some_and(|it| it.kind == Kind::Document) => {
            // A text becomes JSON, and a text again.
            let words = format!("{{{{ .Values.{name} | toJson | trimAll \"\\\"\" | quote }}}}");
            line.replace(&mark(name), &words)
        }
        [name] if line.ends_with(&mark(name)) => {
            line.replace(&mark(name), &format!("{{{{ .Values.{name} | quote }}}}"))
        }
        _ => {
            let (key, value) = line.split_once(": ").unwrap_or(("", &line));
            let value = value.replace(BEGIN, "{{ .Values.").replace(END, " }}");
            format!("{key}: \"{value}\"")
        }
    }
}

/// The expression that gives the sum of what the ConfigMap says.
fn hash() -> String {
    let (mut format, mut values) = (String::new(), String::new());
    for (key, value) in entries() {
        match value {
            Ok(name) => {
                let _ = write!(format, "{key}=%v\\n");
                let _ = write!(values, " .Values.{name}");
            }
            Err(fixed) => {
                let _ = write!(format, "{key}={}\\n", fixed.replace('%', "%%"));
            }
        }
    }
    format!("{{{{ printf \"{format}%v\\n\"{values} .Values.extraConfig | sha256sum | quote }}}}")
}

#[cfg(test)]
mod tests;
