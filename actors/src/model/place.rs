//! Where in a typed object something stands, so that an error can name it. A place lies on the stack, and its
//! path is written out only if somebody asks.

use std::{fmt::Write, net::IpAddr};

use super::fault::Fault;

/// A place in an object, and what it is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: PlaceStep<'a>,
}

#[derive(Clone, Copy, Debug)]
enum PlaceStep<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> Place<'a> {
    /// The whole object.
    pub(crate) const ROOT: Self = Self { parent: None, step: PlaceStep::Root };

    /// A field of it.
    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), step: PlaceStep::Key(key) }
    }

    /// A member of the list.
    pub(crate) fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), step: PlaceStep::Index(index) }
    }

    /// Each member of a list, and where it stands; of one that is not there, none.
    pub(crate) fn each<'b, T>(
        &'b self,
        list: Option<&'b Vec<T>>,
    ) -> impl Iterator<Item = (Place<'b>, &'b T)> {
        list.into_iter().flatten().enumerate().map(|(index, it)| (self.index(index), it))
    }

    /// From the root, as in `spec.ports[0].port`.
    pub(crate) fn path(&self) -> String {
        let mut path = self.parent.map(Place::path).unwrap_or_default();
        match self.step {
            PlaceStep::Root => {}
            PlaceStep::Key(key) => {
                let dot = if path.is_empty() { "" } else { "." };
                // Writing to a text never fails.
                let _ = write!(path, "{dot}{key}");
            }
            PlaceStep::Index(index) => drop(write!(path, "[{index}]")),
        }
        path
    }

    /// A fault of what stands here.
    pub(crate) fn fault(&self, problem: impl Into<String>, remedy: impl Into<String>) -> Fault {
        Fault { path: self.path(), problem: problem.into(), remedy: remedy.into() }
    }

    /// The field is not there that has to be.
    pub(crate) fn missing(&self, key: &str) -> Fault {
        let remedy = format!("add {key:?}");
        self.key(key).fault(format!("field {key:?} is missing"), remedy)
    }

    /// The text of a field that must be there. One that is empty is not.
    pub(crate) fn need<'b>(&self, key: &str, text: &'b str) -> Result<&'b str, Fault> {
        if text.is_empty() { Err(self.missing(key)) } else { Ok(text) }
    }

    /// The address that a text is.
    pub(crate) fn address(&self, text: &str) -> Result<IpAddr, Fault> {
        text.parse().map_err(|_| {
            self.fault(
                format!("{text:?} is no address"),
                "write an address, as in 192.0.2.7 or fd00::7",
            )
        })
    }
}
