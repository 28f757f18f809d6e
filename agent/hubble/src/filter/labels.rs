//! Selectors of labels as Kubernetes writes them, with sources: `k8s:app in (a, b), !reserved:host`.

/// Terms that all must hold.
#[derive(Debug, PartialEq)]
pub(super) struct Selector(Vec<Term>);

#[derive(Debug, PartialEq)]
struct Term {
    /// `source:key`, or the key alone.
    key: String,
    wants: Wants,
}

#[derive(Debug, PartialEq)]
enum Wants {
    There,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Selector {
    /// Reads a selector.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let terms = split(text)?;
        if terms.len() == 1 && terms[0].trim().is_empty() {
            return Err("selects nothing: write key=value, or key in (a, b)".to_owned());
        }
        terms.into_iter().map(term).collect::<Result<_, _>>().map(Self)
    }

    /// Whether labels, `source:key=value` each, are as wanted.
    pub(super) fn selects(&self, labels: &[String]) -> bool {
        self.0.iter().all(|term| term.holds(labels))
    }
}

impl Term {
    fn holds(&self, labels: &[String]) -> bool {
        let mut values = labels.iter().filter_map(|label| {
            let (key, value) = label.split_once('=').unwrap_or((label, ""));
            let bare = key.split_once(':').map_or(key, |(_, key)| key);
            (key == self.key || bare == self.key).then_some(value)
        });
        match &self.wants {
            Wants::There => values.next().is_some(),
            Wants::Absent => values.next().is_none(),
            Wants::In(wanted) => values.any(|value| wanted.iter().any(|it| it == value)),
            Wants::NotIn(wanted) => !values.any(|value| wanted.iter().any(|it| it == value)),
        }
    }
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_u32);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or("has a ) without a (")?,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err("has a ( without a )".to_owned());
    }
    parts.push(&text[start..]);
    Ok(parts)
}

fn term(text: &str) -> Result<Term, String> {
    let text = text.trim();
    if let Some(key) = text.strip_prefix('!') {
        return Ok(Term { key: read_key(key)?, wants: Wants::Absent });
    }
    if let Some((head, list)) = text.split_once('(') {
        let list = list.strip_suffix(')').ok_or("has something behind a )")?;
        let values: Vec<_> = list.split(',').map(|it| it.trim().to_owned()).collect();
        let (key, word) = head.trim().rsplit_once(char::is_whitespace).unwrap_or((head, ""));
        let wants = match word {
            "in" => Wants::In(values),
            "notin" => Wants::NotIn(values),
            _ => return Err("has a list without in or notin: write key in (a, b)".to_owned()),
        };
        return Ok(Term { key: read_key(key)?, wants });
    }
    let found = ["!=", "==", "="].into_iter().find_map(|it| Some((it, text.split_once(it)?)));
    let Some((operator, (key, value))) = found else {
        return Ok(Term { key: read_key(text)?, wants: Wants::There });
    };
    let value = value.trim().to_owned();
    if value.contains(['=', '!', '(', ')', ' ']) {
        return Err(format!("has no value that a label can have: {value:?}"));
    }
    let wants = match operator {
        "!=" => Wants::NotIn(vec![value]),
        _ => Wants::In(vec![value]),
    };
    Ok(Term { key: read_key(key)?, wants })
}

fn read_key(text: &str) -> Result<String, String> {
    let key = text.trim();
    let is_key = |letter: char| letter.is_alphanumeric() || "-._/:".contains(letter);
    match !key.is_empty() && key.chars().all(is_key) {
        true => Ok(key.to_owned()),
        false => Err(format!("has no key that a label can have: {key:?}")),
    }
}
