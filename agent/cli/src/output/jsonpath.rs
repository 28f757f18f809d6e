//! Templates as kubectl's `-o jsonpath` has them: text, `{.path}`, `{"\n"}`, `{range .path}…{end}`. Paths
//! are put into the form of RFC 9535, in which they are looked up.

use jsonpath_rust::{parser::parse_json_path, query::js_path_vals};
use serde_json::{Value, json};

/// What a path may have, for whom it has something else.
const KNOWN: &str = "known are .member, ['member'], [0], [-1], [1:3], [*], ..member, [?(@.member==\"text\")], \
                     {range}…{end} and {\"\\n\"}";
/// Signs that end a member's name.
const ENDS: &str = ".[]()=<>!&|,{}'\" ";
/// The list itself, where it is asked for as the member of a list of kubectl's.
const ITEMS: &str = "$['items']";

/// A template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// What a path leads to.
    Path(String),
    /// The same for each thing that a path leads to.
    Range(String, Vec<Piece>),
}

/// What stands between braces.
enum Braced {
    Piece(Piece),
    Range(String),
    End,
}

impl Template {
    /// Reads one; an error says what is not known.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if !text.contains('{') {
            return Err(format!(
                "{text:?} has no path in braces: write jsonpath='{{{}}}'",
                dotted(text)
            ));
        }
        let mut open: Vec<(String, Vec<Piece>)> = Vec::new();
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            if at > 0 {
                pieces.push(Piece::Text(rest[..at].to_owned()));
            }
            let inside = &rest[at + 1..];
            let end =
                closing(inside).ok_or_else(|| format!("{:?} has no closing brace", &rest[at..]))?;
            match braced(inside[..end].trim())? {
                Braced::Piece(piece) => pieces.push(piece),
                Braced::Range(path) => open.push((path, std::mem::take(&mut pieces))),
                Braced::End => {
                    let (path, before) =
                        open.pop().ok_or_else(|| "{end} stands without {range}".to_owned())?;
                    let inner = std::mem::replace(&mut pieces, before);
                    pieces.push(Piece::Range(path, inner));
                }
            }
            rest = &inside[end + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        match open.is_empty() {
            true => Ok(Self(pieces)),
            false => Err("{range} has no {end}".to_owned()),
        }
    }

    /// What it makes of a value. A member that is not there is nothing.
    pub(crate) fn apply(&self, value: &Value) -> Result<String, String> {
        let list = value.is_array().then(|| json!({ "items": value }));
        let mut text = String::new();
        write(&self.0, value, list.as_ref(), &mut text)?;
        Ok(text)
    }
}

fn write(
    pieces: &[Piece],
    value: &Value,
    list: Option<&Value>,
    text: &mut String,
) -> Result<(), String> {
    let found = |path: &str| {
        let root = list.filter(|_| path.starts_with(ITEMS)).unwrap_or(value);
        js_path_vals(path, root).map_err(|error| error.to_string())
    };
    for piece in pieces {
        match piece {
            Piece::Text(it) => text.push_str(it),
            Piece::Path(path) => {
                let all: Vec<_> = found(path)?.into_iter().map(plain).collect();
                text.push_str(&all.join(" "));
            }
            Piece::Range(path, inner) => {
                for each in found(path)? {
                    write(inner, each, None, text)?;
                }
            }
        }
    }
    Ok(())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn dotted(text: &str) -> String {
    if text.starts_with(['.', '[']) { text.to_owned() } else { format!(".{text}") }
}

/// Where the brace closes, outside of quotes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, sign) in text.char_indices() {
        match (quote, sign) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), sign) if sign == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(sign),
            (None, '}') => return Some(at),
            (None, _) => {}
        }
    }
    None
}

fn braced(text: &str) -> Result<Braced, String> {
    if text == "end" {
        return Ok(Braced::End);
    }
    if let Some(path) = text.strip_prefix("range ") {
        return Ok(Braced::Range(checked(path.trim())?));
    }
    match text.chars().next() {
        Some(quote @ ('"' | '\'')) => Ok(Braced::Piece(Piece::Text(unquoted(text, quote)?))),
        _ => Ok(Braced::Piece(Piece::Path(checked(text)?))),
    }
}

fn unquoted(text: &str, quote: char) -> Result<String, String> {
    let inside = text[1..].strip_suffix(quote).filter(|_| text.len() > 1);
    let inside = inside.ok_or_else(|| format!("{text} is no text in quotes"))?;
    let mut plain = String::new();
    let mut signs = inside.chars();
    while let Some(sign) = signs.next() {
        plain.push(match sign {
            '\\' => match signs.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            sign => sign,
        });
    }
    Ok(plain)
}

/// A path in the form of RFC 9535, if it is one.
fn checked(path: &str) -> Result<String, String> {
    let standard = standard(path).ok_or_else(|| unknown(path))?;
    match parse_json_path(&standard) {
        Ok(_) => Ok(standard),
        Err(_) => Err(unknown(path)),
    }
}

fn unknown(path: &str) -> String {
    format!("{path:?} is not understood as a path: {KNOWN}")
}

/// Each member's name gets quotes: kubectl takes signs that the RFC does not take without them.
fn standard(path: &str) -> Option<String> {
    let rest = path.strip_prefix(['$', '@']).unwrap_or(path);
    if !rest.is_empty() && !rest.starts_with(['.', '[']) {
        return None;
    }
    let mut out = "$".to_owned();
    let mut signs = rest.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '"' | '\'' => {
                out.push(sign);
                let mut escaped = false;
                for inside in signs.by_ref() {
                    out.push(inside);
                    if inside == sign && !escaped {
                        break;
                    }
                    escaped = inside == '\\' && !escaped;
                }
            }
            '.' if out.ends_with(|it: char| it.is_ascii_digit())
                && signs.peek().is_some_and(char::is_ascii_digit) =>
            {
                out.push('.');
            }
            '.' => {
                if signs.next_if_eq(&'.').is_some() {
                    out.push_str("..");
                } else if signs.peek() == Some(&'*') {
                    out.push('.');
                }
                let mut name = String::new();
                while let Some(next) = signs.next_if(|it| !ENDS.contains(*it) && *it != '*') {
                    // A dot of the name itself.
                    let sign = if next == '\\' { signs.next()? } else { next };
                    if ['\'', '\\'].contains(&sign) {
                        name.push('\\');
                    }
                    name.push(sign);
                }
                if !name.is_empty() {
                    out.push_str(&format!("['{name}']"));
                }
            }
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(template: &str, value: &Value) -> String {
        Template::parse(template).unwrap().apply(value).unwrap()
    }

    fn pods() -> Value {
        json!([
            {"id": 7, "pod-name": "web", "labels": {"app.kubernetes.io/name": "web"}, "up": true},
            {"id": 8, "pod-name": "db", "labels": {}, "ports": [{"name": "x", "port": 5432}]},
        ])
    }

    #[test]
    fn what_people_type_for_kubectl_works() {
        let all = pods();
        for (template, expected) in [
            ("{[*].id}", "7 8"),
            ("{.items[*].id}", "7 8"),
            ("{.items[0].pod-name}", "web"),
            ("{.items[-1:].pod-name}", "db"),
            ("{$.items[1]['pod-name']}", "db"),
            ("{.items[?(@.pod-name==\"db\")].id}", "8"),
            ("{.items[?(@.id>7)].pod-name}", "db"),
            ("{.items[?(@.up)].id}", "7"),
            ("{.items[0].labels.app\\.kubernetes\\.io/name}", "web"),
            ("{..port}", "5432"),
            ("{.items[1].ports[0]}", "{\"name\":\"x\",\"port\":5432}"),
            ("{.items[*].nothing}", ""),
            ("ids: {.items[*].id}.", "ids: 7 8."),
            ("{range .items[*]}{.id}{\"\\t\"}{.pod-name}{\"\\n\"}{end}", "7\tweb\n8\tdb\n"),
            ("{range [*]}{@.id};{end}", "7;8;"),
        ] {
            assert_eq!(made(template, &all), expected, "{template}");
        }
        assert_eq!(made("{.items[0]}-{@}", &json!({"items": [1]})), "1-{\"items\":[1]}");
        let nested = json!({"a": [{"b": [1, 2]}, {"b": [3]}]});
        assert_eq!(made("{range .a[*]}{range .b[*]}<{@}>{end};{end}", &nested), "<1><2>;<3>;");
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (template, part) in [
            ("items[*].id", "write jsonpath='{.items[*].id}'"),
            ("{.items[*].id", "no closing brace"),
            ("{range .items[*]}{.id}", "no {end}"),
            ("{end}", "without {range}"),
            ("{items}", "not understood"),
            ("{.items[?(@.id=~/x/)]}", "known are"),
            ("{.items[x]}", "known are"),
            ("{\"x}", "no closing brace"),
        ] {
            let error = Template::parse(template).unwrap_err();
            assert!(error.contains(part), "{template}: {error}");
        }
    }
}
