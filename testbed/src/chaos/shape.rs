//! Whether a tree has the shape that the grammar wants.

use std::time::Duration;

use super::{
    grammar::{Choice, Field, Shape},
    problem::Problem,
    suggest::remedy,
    tree::{Part, Path, Tree},
};

/// What the value of `expected: any` and of limits is called when nothing is judged.
pub(super) const ANY: &str = "any";

/// Everything that is wrong.
pub(super) fn check(shape: &Shape, tree: &Tree) -> Vec<Problem> {
    let mut checker = Checker { path: Vec::new(), problems: Vec::new() };
    checker.check(shape, tree);
    checker.problems
}

struct Checker {
    path: Path,
    problems: Vec<Problem>,
}

impl Checker {
    fn wrong(&mut self, what: impl Into<String>) {
        self.problems.push(Problem::value(&self.path, what));
    }

    fn is_not(&mut self, wanted: &str, tree: &Tree) {
        let found = match (tree, tree.text()) {
            (_, Some(text)) => format!("{text:?}"),
            _ => tree.kind().to_owned(),
        };
        self.wrong(format!("here should be {wanted}, not {found}"));
    }

    /// Checks a part of what is looked at.
    fn within(&mut self, part: Part, check: impl FnOnce(&mut Self)) {
        self.path.push(part);
        check(self);
        self.path.pop();
    }

    fn check(&mut self, shape: &Shape, tree: &Tree) {
        match shape {
            Shape::Text => match tree.text() {
                Some(text) if !text.trim().is_empty() => {}
                _ => self.is_not("a text", tree),
            },
            Shape::Pod => self.name(tree, "the name of a pod, such as web-1 or shop/web-1", 2),
            Shape::Target => self.name(tree, "a pod, or service/NAME", 3),
            Shape::Object => self.name(tree, "a pod, or KIND/NAME such as networkpolicy/web", 3),
            Shape::Whole(from, to) => match tree {
                Tree::Whole(number) if (from..=to).contains(&number) => {}
                Tree::Whole(number) => {
                    self.wrong(format!("{number} is too small or too large: take {from} to {to}"));
                }
                _ => self.is_not("a whole number", tree),
            },
            Shape::Time => {
                if let Err(what) = time(tree) {
                    self.wrong(what);
                }
            }
            Shape::Memory => {
                if let Err(what) = memory(tree) {
                    self.wrong(what);
                }
            }
            Shape::Limit => match tree {
                Tree::Whole(number) if *number >= 0 => {}
                Tree::Text(text) if text == ANY => {}
                _ => self.is_not("a number that is not negative, or any", tree),
            },
            Shape::Labels => self.labels(tree),
            Shape::Pods => self.pods(tree),
            Shape::Manifest => self.manifest(tree),
            Shape::Choice(choices) => self.choice(choices, tree),
            Shape::List(item) => match tree {
                Tree::List(items) => self.items(item, items),
                _ => self.is_not("a list: a line with - for each", tree),
            },
            Shape::Many(item) => match tree {
                Tree::List(items) => self.items(item, items),
                _ => self.check(item, tree),
            },
            Shape::Fields(fields) => self.fields(fields, tree),
            Shape::Word(words) => self.one_word(words, tree),
            Shape::Alone => match tree {
                Tree::Empty => {}
                _ => self.wrong("this word stands alone: take away what is behind it"),
            },
            Shape::MayBeAlone(shape) => match tree {
                Tree::Empty => {}
                _ => self.check(shape, tree),
            },
            Shape::Either(value, fields) => match tree {
                Tree::Map(_) => self.check(fields, tree),
                _ => self.check(value, tree),
            },
        }
    }

    fn items(&mut self, item: &Shape, items: &[Tree]) {
        for (number, tree) in items.iter().enumerate() {
            self.within(Part::Item(number), |it| it.check(item, tree));
        }
    }

    fn name(&mut self, tree: &Tree, wanted: &str, parts_max: usize) {
        let is_part = |part: &str| {
            !part.is_empty()
                && part.chars().all(|it| it.is_ascii_alphanumeric() || "-.".contains(it))
        };
        let is_name =
            |text: &str| text.split('/').count() <= parts_max && text.split('/').all(is_part);
        match tree.text() {
            Some(text) if is_name(&text) => {}
            _ => self.is_not(wanted, tree),
        }
    }

    fn labels(&mut self, tree: &Tree) {
        let Tree::Map(members) = tree else { return self.is_not("names with values", tree) };
        for (key, value) in members {
            self.within(Part::Key(key.clone()), |it| match value.text() {
                Some(_) => {}
                None => it.is_not("one value", value),
            });
        }
    }

    fn pods(&mut self, tree: &Tree) {
        let Tree::Map(members) = tree else {
            return self.is_not("pods with their labels, such as web-1: {app: web}", tree);
        };
        for (name, labels) in members {
            self.within(Part::Key(name.clone()), |it| {
                it.name(&Tree::Text(name.clone()), "the name of a pod", 2);
                match labels {
                    Tree::Empty => {}
                    _ => it.labels(labels),
                }
            });
        }
    }

    fn manifest(&mut self, tree: &Tree) {
        let Tree::Map(_) = tree else { return self.is_not("a manifest as kubectl takes it", tree) };
        for word in ["apiVersion", "kind", "metadata"] {
            if tree.get(word).is_none() {
                self.wrong(format!("the manifest has no {word}"));
            }
        }
        if let Some(metadata) = tree.get("metadata")
            && metadata.get("name").and_then(Tree::text).is_none()
        {
            self.wrong("the manifest has no metadata.name");
        }
    }

    fn choice(&mut self, choices: &[Choice], tree: &Tree) {
        let names = choices.iter().map(|choice| choice.0);
        match tree.text() {
            Some(text) if names.clone().any(|name| name == text) => {}
            Some(text) => {
                self.wrong(format!("{text:?} is not known here: {}", remedy(&text, names)))
            }
            None => self.is_not("a word", tree),
        }
    }

    fn fields(&mut self, fields: &[Field], tree: &Tree) {
        let Tree::Map(members) = tree else {
            let names: Vec<_> = fields.iter().map(|field| field.name).collect();
            return self.is_not(&format!("words with values ({})", names.join(", ")), tree);
        };
        for (word, value) in members {
            let known = fields.iter().find(|field| field.name == word);
            self.within(Part::Key(word.clone()), |it| match known {
                Some(field) => it.check(&field.shape, value),
                None => it.unknown(word, fields),
            });
        }
        let missing = fields.iter().filter(|field| field.must && tree.get(field.name).is_none());
        for Field { name, about, .. } in missing {
            self.wrong(format!("{name} is missing: {about}"));
        }
    }

    fn one_word(&mut self, words: &[Field], tree: &Tree) {
        match tree {
            Tree::Text(word) => match words.iter().find(|field| field.name == word) {
                None => self.unknown_value(word, words),
                Some(Field { shape: Shape::Alone | Shape::MayBeAlone(_), .. }) => {}
                Some(Field { about, .. }) => self
                    .wrong(format!("{word} wants to know more, behind a colon ({word}: {about})")),
            },
            Tree::Map(members) if members.len() == 1 => self.fields(words, tree),
            Tree::Map(members) if members.is_empty() => self.wrong("a word is missing here"),
            Tree::Map(members) => {
                let names: Vec<_> = members.iter().map(|(word, _)| word.as_str()).collect();
                self.wrong(format!(
                    "here is one word at a time, not {}: put each behind a - of its own, and what \
                     belongs to it further to the right",
                    names.join(" and ")
                ));
            }
            _ => self.is_not("one of the words", tree),
        }
    }

    fn unknown(&mut self, word: &str, fields: &[Field]) {
        let names = fields.iter().map(|field| field.name);
        let what = match word {
            "nodes" => "histories over several nodes are not possible yet: write node".to_owned(),
            _ => format!("{word:?} is not a word here: {}", remedy(word, names)),
        };
        self.problems.push(Problem::word(&self.path, what));
    }

    fn unknown_value(&mut self, word: &str, words: &[Field]) {
        let names = words.iter().map(|field| field.name);
        self.wrong(format!("{word:?} is not a word here: {}", remedy(word, names)));
    }
}

/// Reads a time.
pub(super) fn time(tree: &Tree) -> Result<Duration, String> {
    let text = tree.text().ok_or("here should be a time such as 200ms, 2s or 1m")?;
    if text.starts_with('-') {
        return Err(format!("{text:?} is negative: no time passes backwards"));
    }
    let unit = text.find(|it: char| it.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let factor = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{text:?} is no time: write a number with ms, s, m or h")),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if (0.0..=1e6).contains(&number) => Ok(Duration::from_secs_f64(number * factor)),
        _ => Err(format!("{text:?} is no time: write a number with ms, s, m or h")),
    }
}

/// Reads how much memory there is, bytes; none if it is as much as one likes.
pub(super) fn memory(tree: &Tree) -> Result<Option<u64>, String> {
    let text = tree.text().unwrap_or_default();
    if text == "well" {
        return Ok(None);
    }
    let wrong = || format!("{text:?} is no memory: write a number with kB or MB, or well");
    let unit = text.find(|it: char| it.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let shift = match unit {
        "kB" => 10,
        "MB" => 20,
        _ => return Err(wrong()),
    };
    match number.trim().parse::<u64>() {
        Ok(number @ 1..=1_000_000) => Ok(Some(number << shift)),
        _ => Err(wrong()),
    }
}
