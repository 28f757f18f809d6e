//! YAML as a tree, and where each part of it stands in the text.
//!
//! What is wrong is found in the tree, by a path. Only then the text is read once more, for line and column:
//! the parser tells them of errors alone, so the reader fails on purpose where the path ends.

use std::{collections::BTreeSet, fmt};

use serde::{
    Serialize, Serializer,
    de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// A part of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Empty,
    Flag(bool),
    Whole(i64),
    Fraction(f64),
    Text(String),
    List(Vec<Tree>),
    /// In the order of the text.
    Map(Vec<(String, Tree)>),
}

/// One step from a part of a document to a part of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Key(String),
    Item(usize),
}

/// Where something stands.
pub(super) type Path = Vec<Part>;

/// Line and column, from 1 on.
pub(super) type Place = (usize, usize);

impl Tree {
    /// Reads one document.
    pub(super) fn read(text: &str) -> Result<Self, (Place, String)> {
        serde_norway::from_str(text).map_err(|error| {
            let place = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            let what = error.to_string();
            // The place stands in front.
            let what = what.split_once(" at line ").map_or(what.as_str(), |(what, _)| what);
            (place, what.to_owned())
        })
    }

    /// What it is, as errors say it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Empty => "nothing",
            Self::Flag(_) => "true or false",
            Self::Whole(_) | Self::Fraction(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "words with values",
        }
    }

    /// A text, or what may stand for one: numbers and flags that are not in quotes.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Whole(number) => Some(number.to_string()),
            Self::Fraction(number) => Some(number.to_string()),
            Self::Flag(flag) => Some(flag.to_string()),
            _ => None,
        }
    }

    /// The value of a word.
    pub(super) fn get(&self, word: &str) -> Option<&Self> {
        let Self::Map(members) = self else { return None };
        members.iter().find(|(key, _)| key == word).map(|(_, value)| value)
    }

    /// The value of a word, to be changed; the word is added at the end if it is not there.
    pub(super) fn entry(&mut self, word: &str) -> &mut Self {
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(Vec::new());
        }
        let Self::Map(members) = self else { unreachable!("it was made one") };
        let place = members.iter().position(|(key, _)| key == word);
        let place = place.unwrap_or_else(|| {
            members.push((word.to_owned(), Self::Empty));
            members.len() - 1
        });
        &mut members[place].1
    }

    /// As the text of a file.
    pub(super) fn write(&self) -> String {
        serde_norway::to_string(self).expect("every tree is YAML")
    }

    pub(super) fn items(&self) -> &[Self] {
        if let Self::List(items) = self { items } else { &[] }
    }

    pub(super) fn members(&self) -> &[(String, Self)] {
        if let Self::Map(members) = self { members } else { &[] }
    }

    /// The same as JSON.
    pub(super) fn json(&self) -> Value {
        match self {
            Self::Empty => Value::Null,
            Self::Flag(flag) => (*flag).into(),
            Self::Whole(number) => (*number).into(),
            Self::Fraction(number) => (*number).into(),
            Self::Text(text) => text.clone().into(),
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Map(members) => {
                Value::Object(members.iter().map(|(key, it)| (key.clone(), it.json())).collect())
            }
        }
    }
}

/// As YAML, words in the order of the text.
impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Empty => serializer.serialize_unit(),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Whole(number) => serializer.serialize_i64(*number),
            Self::Fraction(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(members) => {
                serializer.collect_map(members.iter().map(|(key, value)| (key, value)))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Grower)
    }
}

struct Grower;

impl<'de> Visitor<'de> for Grower {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain YAML")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Empty)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Tree, E> {
        Ok(Tree::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Whole(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(i64::try_from(number).map_or(Tree::Fraction(number as f64), Tree::Whole))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Fraction(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let (mut members, mut seen) = (Vec::new(), BTreeSet::new());
        while let Some(key) = map.next_key_seed(Key { seen: &seen, stop: None })? {
            seen.insert(key.clone());
            members.push((key, map.next_value()?));
        }
        Ok(Tree::Map(members))
    }
}

/// A word in front of a value, which no other one may equal.
struct Key<'a> {
    seen: &'a BTreeSet<String>,
    /// Fails at this one.
    stop: Option<&'a str>,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        if self.seen.contains(text) {
            return Err(E::custom(format!("{text:?} is there twice: take one of them away")));
        }
        if self.stop == Some(text) {
            return Err(E::custom("here"));
        }
        Ok(text.to_owned())
    }
}

/// Where the part of that path stands; `at_word` means the word in front of it. The path leads to a part of
/// the text, or to one that is missing: then where it should be in.
pub(super) fn locate(text: &str, path: &[Part], at_word: bool) -> Place {
    let walker = Walker { path, at_word };
    let outcome = walker.deserialize(serde_norway::Deserializer::from_str(text));
    match outcome.err().and_then(|error| error.location()) {
        Some(place) => (place.line(), place.column()),
        None => match path.split_last() {
            Some((_, within)) => locate(text, within, at_word),
            None => (1, 1),
        },
    }
}

/// Goes to the end of a path, and fails there.
#[derive(Clone, Copy)]
struct Walker<'a> {
    path: &'a [Part],
    at_word: bool,
}

impl<'de> DeserializeSeed<'de> for Walker<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Walker<'_> {
    fn end<E: de::Error>(self) -> Result<(), E> {
        if self.path.is_empty() { Err(E::custom("here")) } else { Ok(()) }
    }
}

impl<'de> Visitor<'de> for Walker<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what was read before")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.end()
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        self.end()
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        self.end()
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        self.end()
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        self.end()
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        self.end()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.path.split_first() else { return self.end() };
        let mut number = 0;
        loop {
            let more = if *first == Part::Item(number) {
                seq.next_element_seed(Self { path: rest, ..self })?
            } else {
                seq.next_element::<Tree>()?.map(drop)
            };
            if more.is_none() {
                return Ok(());
            }
            number += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.path.split_first() else { return self.end() };
        let wanted = if let Part::Key(word) = first { word.as_str() } else { "" };
        let stop = (self.at_word && rest.is_empty()).then_some(wanted);
        let seen = BTreeSet::new();
        while let Some(key) = map.next_key_seed(Key { seen: &seen, stop })? {
            if key == wanted {
                map.next_value_seed(Self { path: rest, ..self })?;
            } else {
                map.next_value::<Tree>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "about: x\nsteps:\n- kill\n- label: {pod: a,\n    labels: {app: b}}\n";

    fn path(words: &[&str]) -> Path {
        words
            .iter()
            .map(|word| match word.parse() {
                Ok(number) => Part::Item(number),
                Err(_) => Part::Key((*word).to_owned()),
            })
            .collect()
    }

    #[test]
    fn finds_values_and_words() {
        Tree::read(TEXT).unwrap();
        assert_eq!(locate(TEXT, &path(&["steps", "1", "label", "pod"]), false), (4, 16));
        assert_eq!(locate(TEXT, &path(&["steps", "1", "label", "labels"]), true), (5, 5));
        assert_eq!(locate(TEXT, &path(&["steps", "0"]), false), (3, 3));
        // What is missing should be within this.
        assert_eq!(locate(TEXT, &path(&["steps", "1", "label", "nope"]), true), (4, 3));
    }

    #[test]
    fn a_word_that_comes_twice_is_found() {
        let (place, what) = Tree::read("pods:\n  a: {}\n  b: {}\n  a: {}\n").unwrap_err();
        assert_eq!(place, (4, 3));
        assert!(what.contains("\"a\" is there twice"), "{what}");
    }

    #[test]
    fn rubbish_has_a_place() {
        let (place, _) = Tree::read("a: [1,\nb: {").unwrap_err();
        assert!(place.0 >= 1);
        assert!(Tree::read("a: 1\n---\nb: 2\n").is_err());
    }
}
