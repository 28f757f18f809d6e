//! Fields of documents that people and clusters write, with the path that leads to each.

use std::{fmt::Write, rc::Rc};

use serde_json::{Map, Value};

pub(crate) use super::fault::Fault;
use super::place::Place;

/// A value of a document and the path that leads to it. Null counts as absent.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    /// In what it is, and where in that. Few paths are ever told, so none is written out before.
    place: FieldPlace<'a>,
    pub(crate) value: &'a Value,
}

#[derive(Clone, Debug)]
struct FieldPlace<'a> {
    parent: Option<Rc<Self>>,
    step: Step<'a>,
}

#[derive(Clone, Debug)]
enum Step<'a> {
    Root,
    /// Where a whole object stands.
    Written(Rc<str>),
    Key(&'a str),
    Index(usize),
}

impl FieldPlace<'_> {
    /// From the root, as in `spec.ports[0].port`.
    fn write(&self, path: &mut String) {
        if let Some(parent) = &self.parent {
            parent.write(path);
        }
        match &self.step {
            Step::Root => {}
            Step::Written(whole) => path.push_str(whole),
            Step::Key(key) => {
                let dot = if path.is_empty() { "" } else { "." };
                path.push_str(dot);
                path.push_str(key);
            }
            Step::Index(index) => drop(write!(path, "[{index}]")),
        }
    }
}

impl<'a> Field<'a> {
    /// The whole document.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { place: FieldPlace { parent: None, step: Step::Root }, value }
    }

    /// The whole of an object that is a member of a list, so that its fields are told from others'.
    pub(crate) fn listed(place: &Place<'_>, value: &'a Value) -> Self {
        let path = place.path();
        let parent = (!path.is_empty())
            .then(|| Rc::new(FieldPlace { parent: None, step: Step::Written(path.into()) }));
        Self { place: FieldPlace { parent, step: Step::Root }, value }
    }

    /// The field of that name, which need not be there.
    pub(crate) fn inside(&self, key: &'a str) -> Self {
        self.child(Step::Key(key), self.value.get(key))
    }

    /// The member of the list at that place, which need not be there.
    pub(crate) fn member(&self, index: usize) -> Self {
        self.child(Step::Index(index), self.value.get(index))
    }

    fn child(&self, step: Step<'a>, value: Option<&'a Value>) -> Self {
        let parent = Some(Rc::new(self.place.clone()));
        Self { place: FieldPlace { parent, step }, value: value.unwrap_or(&Value::Null) }
    }

    /// Its path.
    pub(crate) fn path(&self) -> String {
        let mut path = String::new();
        self.place.write(&mut path);
        path
    }

    /// A fault of this field.
    pub(crate) fn fault(&self, problem: impl Into<String>, remedy: impl Into<String>) -> Fault {
        Fault { path: self.path(), problem: problem.into(), remedy: remedy.into() }
    }

    /// The mapping, with no keys but these.
    pub(crate) fn mapping(&self, known: &[&str]) -> Result<Mapping<'a>, Fault> {
        let mapping = self.any_mapping()?;
        match mapping.map.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(mapping),
            Some(key) => {
                let known = known.join(", ");
                Err(mapping.at(Step::Key(key), &Value::Null).fault(
                    format!("unknown field {key:?}"),
                    format!("remove it or correct its name; known here: {known}"),
                ))
            }
        }
    }

    /// The mapping, whatever its keys.
    pub(crate) fn any_mapping(&self) -> Result<Mapping<'a>, Fault> {
        match self.value {
            Value::Object(map) => Ok(Mapping { place: Rc::new(self.place.clone()), map }),
            _ => Err(self.wants("a mapping")),
        }
    }

    /// Each element of the list.
    pub(crate) fn elements(&self) -> Result<Vec<Field<'a>>, Fault> {
        let Value::Array(list) = self.value else { return Err(self.wants("a list")) };
        let parent = Rc::new(self.place.clone());
        let place =
            |index| FieldPlace { parent: Some(Rc::clone(&parent)), step: Step::Index(index) };
        let at = |(index, value)| Field { place: place(index), value };
        Ok(list.iter().enumerate().map(at).collect())
    }

    /// The text.
    pub(crate) fn text(&self) -> Result<&'a str, Fault> {
        match self.value {
            Value::String(text) => Ok(text),
            Value::Number(_) | Value::Bool(_) => Err(self.fault(
                format!("{} is no text", self.value),
                format!("put it in quotes: \"{}\"", self.value),
            )),
            _ => Err(self.wants("text")),
        }
    }

    /// The truth value.
    pub(crate) fn truth(&self) -> Result<bool, Fault> {
        self.value.as_bool().ok_or_else(|| self.wants("true or false"))
    }

    /// A fault that says which shape is desired.
    pub(crate) fn wants(&self, shape: &str) -> Fault {
        let found = match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "text",
            Value::Array(_) => "a list",
            Value::Object(_) => "a mapping",
        };
        self.fault(format!("{found} where {shape} is expected"), format!("write {shape}"))
    }
}

/// A mapping of a document.
#[derive(Clone, Debug)]
pub(crate) struct Mapping<'a> {
    place: Rc<FieldPlace<'a>>,
    map: &'a Map<String, Value>,
}

impl<'a> Mapping<'a> {
    /// The field of that name.
    pub(crate) fn get(&self, key: &str) -> Option<Field<'a>> {
        let (key, value) = self.map.get_key_value(key).filter(|(_, value)| !value.is_null())?;
        Some(self.at(Step::Key(key), value))
    }

    /// The field of that name, which must be there.
    pub(crate) fn need(&self, key: &str) -> Result<Field<'a>, Fault> {
        self.get(key).ok_or_else(|| {
            let missing = FieldPlace { parent: Some(Rc::clone(&self.place)), step: Step::Key(key) };
            Field { place: missing, value: &Value::Null }
                .fault(format!("field {key:?} is missing"), format!("add {key:?}"))
        })
    }

    /// Elements of the list of that name; `None` if there is no such field.
    pub(crate) fn list(&self, key: &str) -> Result<Option<Vec<Field<'a>>>, Fault> {
        self.get(key).map(|field| field.elements()).transpose()
    }

    /// Each field that is there, by name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, Field<'a>)> {
        let present = self.map.iter().filter(|(_, value)| !value.is_null());
        present.map(|(key, value)| (key.as_str(), self.at(Step::Key(key), value)))
    }

    fn at(&self, step: Step<'a>, value: &'a Value) -> Field<'a> {
        Field { place: FieldPlace { parent: Some(Rc::clone(&self.place)), step }, value }
    }
}
