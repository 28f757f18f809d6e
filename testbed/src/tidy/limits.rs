//! How large functions and structs may be: who reads one sees all of it.

use std::path::Path;

use super::{Problem, Tree};

/// Lines of a function.
const LINES_MAX: usize = 80;
/// Fields of a struct.
const FIELDS_MAX: usize = 20;
/// Flags of a struct: more of them are states that exclude each other, or belong to parts with names.
const FLAGS_MAX: usize = 3;

/// Those that are larger, and why. The list may only shrink.
const LARGER: [(&str, &str, &str); 18] = [
    ("actors/src/node_supervisor.rs", "NodeSupervisor", "one address for each supervisor"),
    ("actors/src/ports/kernel/routing.rs", "RoutingDevice", "four facts of the kernel"),
    ("actors/src/state_directory/record.rs", "EndpointRecord", "the file's members"),
    ("actors/src/endpoints/endpoint/spec.rs", "EndpointSpec", "the API's members"),
    ("actors/src/endpoints/endpoint/restored.rs", "RestoredEndpoint", "all that was found"),
    ("actors/src/services/service_cache/sweep/table.rs", "see", "one arm for each map"),
    ("agent/rest/src/models/mesh.rs", "RemoteClusterConfig", "the API's members"),
    ("agent/rest/src/models/mesh.rs", "RemoteClusterSynced", "the API's members"),
    ("agent/src/run.rs", "begin", "the start, from top to bottom"),
    ("agent/src/config/options.rs", "Config", "one field for each flag"),
    ("agent/src/ports/cluster/trim.rs", "object", "one arm for each kind of object"),
    ("agent/cli/src/args.rs", "LbTables", "one flag for each table"),
    ("agent/inspect/src/monitor/hub.rs", "Ready", "one flag for each source"),
    ("agent/hubble/src/messages/flow.rs", "Flow", "the API's members"),
    ("agent/hubble/src/messages/flow.rs", "TcpFlagSet", "TCP's flags, as the API has them"),
    ("agent/hubble/src/messages/filter.rs", "FlowFilter", "the API's members"),
    ("testbed/sim/src/history/action.rs", "fmt", "one arm for each action"),
    ("bpf-progs/src/features.rs", "Features", "one flag for each feature of the datapath"),
];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut needed = vec![false; LARGER.len()];
    for (path, text) in tree.rust("").filter(|(path, _)| !is_test(path)) {
        for (line, name, what) in functions(text).into_iter().chain(structs(text)) {
            let known =
                LARGER.iter().position(|(file, it, _)| path == Path::new(file) && *it == name);
            match known {
                Some(place) => needed[place] = true,
                None => problems.push(Problem { path: path.into(), line, what }),
            }
        }
    }
    for ((file, name, _), _) in LARGER.iter().zip(needed).filter(|(_, needed)| !needed) {
        if tree.get(file).is_some() {
            let what = format!("{name} is within the limits: strike it off in tidy/limits.rs");
            problems.push(Problem { path: file.into(), line: 0, what });
        }
    }
    problems
}

fn is_test(path: &Path) -> bool {
    path.iter().any(|part| part == "tests" || part == "tests.rs")
}

/// Functions that are too long: where they begin, their names and what is wrong.
fn functions(text: &str) -> Vec<(usize, String, String)> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let Some(name) = opened(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", &line[..indent]);
        let rest = lines[number..].iter();
        let length = rest.take_while(|it| **it != end && !it.starts_with("}")).count() + 1;
        if length > LINES_MAX && !line.ends_with([';', '}']) {
            let what =
                format!("{name} has {length} lines, at most {LINES_MAX} are read at once: part it");
            found.push((number + 1, name.to_owned(), what));
        }
    }
    found
}

/// The name of the function that a line begins.
fn opened(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let known = |word: &str| {
        word.starts_with("pub") || ["const", "async", "unsafe", "extern", "\"C\""].contains(&word)
    };
    let name = after.split(['(', '<']).next()?;
    before.split_whitespace().all(known).then_some(name)
}

/// Structs with too many fields or flags.
fn structs(text: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    let mut within: Option<(usize, &str, usize, usize)> = None;
    for (number, line) in text.lines().enumerate() {
        if let Some(name) = struct_opened(line) {
            within = Some((number + 1, name, 0, 0));
        } else if let Some((start, name, fields, flags)) = &mut within {
            if line == "}" {
                if *fields > FIELDS_MAX || *flags > FLAGS_MAX {
                    let what = format!(
                        "{name} has {fields} fields and {flags} flags, at most {FIELDS_MAX} and \
                         {FLAGS_MAX}: group what belongs together, make an enum of flags that exclude \
                         each other"
                    );
                    found.push((*start, (*name).to_owned(), what));
                }
                within = None;
            } else if let Some((before, kind)) = line.split_once(": ")
                && is_field(before)
            {
                *fields += 1;
                *flags += usize::from(kind == "bool,");
            }
        }
    }
    found
}

fn struct_opened(line: &str) -> Option<&str> {
    let (before, name) = line.strip_suffix('{')?.split_once("struct ")?;
    let visible = before.is_empty() || before.starts_with("pub");
    visible.then(|| name.split(['<', ' ']).next().unwrap_or(name))
}

fn is_field(before: &str) -> bool {
    let Some(rest) = before.strip_prefix("    ") else { return false };
    let name = rest.rsplit(' ').next().unwrap_or(rest);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name && (rest == name || rest.starts_with("pub"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        check(&Tree::of(&[("a/src/lib.rs", text)])).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn a_long_function_is_named() {
        let body = "        1;\n".repeat(LINES_MAX - 2);
        let fits = format!("impl A {{\n    pub(super) fn a(&self) {{\n{body}    }}\n}}\n");
        assert!(found(&fits).is_empty());
        let long = format!("impl A {{\n    async fn a() {{\n        2;\n{body}    }}\n}}\n");
        assert_eq!(found(&long), [2]);
    }

    #[test]
    fn a_struct_of_many_fields_or_flags_is_named() {
        let fields = |n: usize, kind: &str| -> String {
            (0..n).map(|n| format!("    /// It: one.\n    pub(super) f{n}: {kind},\n")).collect()
        };
        let of = |fields: String| format!("pub struct A<T> {{\n{fields}}}\n");
        assert!(found(&of(fields(FIELDS_MAX, "u8"))).is_empty());
        assert_eq!(found(&of(fields(FIELDS_MAX + 1, "u8"))), [1]);
        assert!(found(&of(fields(FLAGS_MAX, "bool"))).is_empty());
        assert_eq!(found(&of(fields(FLAGS_MAX + 1, "bool"))), [1]);
    }
}
