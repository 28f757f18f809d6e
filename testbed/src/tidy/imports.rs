//! What a Rust file names of its own crate: by `use`, and by whole paths in its code.

/// Paths below the crate's root that a file of that module names, each with the line where it stands.
/// Unit tests at the end of the file, comments and strings are not looked at.
pub(super) fn imports(text: &str, module: &[String]) -> Vec<(usize, Vec<String>)> {
    let code = code_of(text);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = code[at..].find("use ").map(|it| it + at) {
        let begins = code[..start].chars().next_back().is_none_or(|c| c.is_whitespace());
        let Some(length) = code[start..].find(';').filter(|_| begins) else {
            at = start + 4;
            continue;
        };
        let line = line_of(&code, start);
        let paths = expand(&code[start + 4..start + length]);
        found.extend(paths.into_iter().filter_map(|path| Some((line, whole(&path, module)?))));
        at = start + length;
    }
    for (number, line) in code.lines().enumerate() {
        for (place, _) in line.match_indices("crate::") {
            let path: String = line[place..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':'))
                .collect();
            let path = path.trim_end_matches(':');
            found
                .extend(whole(path, module).filter(|it| !it.is_empty()).map(|it| (number + 1, it)));
        }
    }
    found
}

/// Paths that a file uses, as they are written: by `use`, and in its code, there with what stands for
/// their first name. What it hands on is not used.
pub(super) fn paths(text: &str) -> Vec<String> {
    let code = code_of(text);
    let (imported, rest) = statements(&code, false);
    let imported: Vec<_> = imported.iter().flat_map(|path| expand(path)).collect();
    let by_name = |name: &str| imported.iter().find(|path| path.rsplit("::").next() == Some(name));
    let inside = rest
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':')))
        .filter(|word| word.contains("::") && word.starts_with(|c: char| c.is_lowercase()));
    let inside: Vec<_> = inside
        .map(|word| {
            let (first, more) = word.split_once("::").unwrap_or((word, ""));
            by_name(first).map_or_else(|| word.to_owned(), |path| format!("{path}::{more}"))
        })
        .collect();
    imported.into_iter().chain(inside).collect()
}

/// Names that a file hands on, each with the path of what it is, as that is written.
pub(super) fn handed_on(text: &str) -> Vec<(String, String)> {
    let (paths, _) = statements(&code_of(text), true);
    let named = paths.into_iter().map(|path| match path.split_once(" as ") {
        Some((path, name)) => (name.to_owned(), path.to_owned()),
        None => (path.rsplit("::").next().unwrap_or(&path).to_owned(), path),
    });
    named.collect()
}

/// All paths of statements `use`, public ones or the others, and the code without any of both.
fn statements(code: &str, public: bool) -> (Vec<String>, String) {
    let (mut found, mut rest) = (Vec::new(), String::new());
    let mut statement: Option<(bool, String)> = None;
    for line in code.lines() {
        let bare = line.trim_start();
        if statement.is_none() {
            let inner =
                bare.strip_prefix("pub").map(|it| it.trim_start_matches(|c| c != ' ').trim_start());
            let begins = |it: &str| it.starts_with("use ");
            statement = match inner.filter(|it| begins(it)) {
                Some(inner) => Some((true, inner[4..].to_owned())),
                None if begins(bare) => Some((false, bare[4..].to_owned())),
                None => {
                    rest.push_str(line);
                    rest.push('\n');
                    continue;
                }
            };
        } else if let Some((_, text)) = &mut statement {
            text.push_str(bare);
        }
        if let Some((is_public, text)) = statement.take_if(|(_, text)| text.ends_with(';'))
            && is_public == public
        {
            found.extend(expand_named(text.trim_end_matches(';')));
        }
    }
    (found, rest)
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// The lines without comments and strings, as far as the unit tests.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let opens = |line: &&str| line.contains("mod ") && line.ends_with('{');
        if line.starts_with("#[cfg(") && line.contains("test") && lines.peek().is_some_and(opens) {
            break;
        }
        let line = line.split("//").next().unwrap_or(line);
        code.extend(line.split('"').step_by(2));
        code.push('\n');
    }
    code
}

/// All paths of a tree of imports.
fn expand(tree: &str) -> Vec<String> {
    let paths = expand_named(tree).into_iter();
    paths.map(|path| path.split(" as ").next().unwrap_or(&path).trim().to_owned()).collect()
}

/// All paths of a tree of imports, with the names that they are given.
fn expand_named(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, inside)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let inside = inside.strip_suffix('}').unwrap_or(inside);
    let (mut depth, mut from, mut paths) = (0, 0, Vec::new());
    let ends = inside.char_indices().chain([(inside.len(), ',')]);
    for (at, c) in ends {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inside[from..at].trim();
                from = (at + 1).min(inside.len());
                let part = if part.is_empty() { Vec::new() } else { expand_named(part) };
                paths.extend(part.into_iter().map(|it| format!("{}{it}", before.trim())));
            }
            _ => {}
        }
    }
    paths
}

/// A path from the crate's root; none if it leads to another crate, or stays in the module.
fn whole(path: &str, module: &[String]) -> Option<Vec<String>> {
    let mut parts: Vec<_> = path.split("::").map(|part| part.trim().to_owned()).collect();
    let mut base = match parts[0].as_str() {
        "crate" => Vec::new(),
        "super" => module.to_vec(),
        _ => return None,
    };
    if parts[0] == "crate" {
        parts.remove(0);
    }
    while parts.first().is_some_and(|part| part == "super") {
        parts.remove(0);
        base.pop()?;
    }
    base.extend(parts.into_iter().filter(|part| part != "self"));
    Some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(usize, String)> {
        let module = ["a".to_owned(), "b".to_owned()];
        imports(text, &module).into_iter().map(|(line, path)| (line, path.join("::"))).collect()
    }

    #[test]
    fn trees_of_imports_are_taken_apart() {
        let text = "use std::fmt;\n\nuse super::{C, c::{D, self}};\npub use crate::{\n    x::{Y as Z, w::V},\n    q,\n};\n";
        let want =
            [(3, "a::C"), (3, "a::c::D"), (3, "a::c"), (4, "x::Y"), (4, "x::w::V"), (4, "q")];
        assert_eq!(names(text), want.map(|(line, path)| (line, path.to_owned())));
    }

    #[test]
    fn what_is_used_is_not_what_is_handed_on() {
        let text = "pub(super) use a::{\n    B,\n    c::D as X,\n};\nuse super::{e, f::G};\n\nfn h() { e::i(); j::K::l(); M::n() }\n";
        let named = [("B", "a::B"), ("X", "a::c::D")];
        assert_eq!(handed_on(text), named.map(|(name, path)| (name.to_owned(), path.to_owned())));
        assert_eq!(paths(text), ["super::e", "super::f::G", "super::e::i", "j::K::l"]);
    }

    #[test]
    fn paths_in_code_count_and_tests_comments_and_strings_do_not() {
        let text = "// crate::no\nfn f(_: crate::x::Y) { \"crate::no\" }\n#[cfg(test)]\nmod tests {\n    use crate::no;\n}\n";
        assert_eq!(names(text), [(2, "x::Y".to_owned())]);
    }
}
