//! Reads a typed object out of JSON, and of that only the fields that somebody reads: the others take no memory,
//! and may have any form. Of what cannot be read it says where that stands.

use std::{
    borrow::Cow,
    cell::Cell,
    fmt::{self, Formatter},
};

use serde::{
    Deserialize, Deserializer, de,
    de::{DeserializeSeed, EnumAccess, IgnoredAny, MapAccess, SeqAccess, Visitor, value},
    forward_to_deserialize_any,
};

/// What is read of a value.
pub(super) enum Wanted {
    /// All of it.
    All,
    /// Nothing; it may be there.
    Nothing,
    /// Of a mapping, or of each mapping of a list, these fields.
    Fields(&'static [(&'static str, Wanted)]),
    /// The same, and there may be no others: who wrote them meant something by them.
    Only(&'static [(&'static str, Wanted)]),
    /// Of a mapping, what has a name that begins like one of these.
    Named(&'static [&'static str]),
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathStep {
    Key(String),
    Index(usize),
}

/// Where reading failed, the innermost step first, and why, if not the reader of a value says so.
#[derive(Default)]
pub(super) struct Trail {
    steps: Cell<Vec<PathStep>>,
    /// The fields that there may be where there is another one.
    known: Cell<Option<String>>,
}

impl Trail {
    /// The step that leads to where reading failed.
    fn note(&self, step: PathStep) {
        let mut steps = self.steps.take();
        steps.push(step);
        self.steps.set(steps);
    }

    /// From the root to where it failed, and the fields that there may be.
    pub(super) fn end(self) -> (impl Iterator<Item = PathStep>, Option<String>) {
        (self.steps.into_inner().into_iter().rev(), self.known.into_inner())
    }
}

/// What is read, and where it is noted what failed.
#[derive(Clone, Copy)]
struct Part<'t> {
    wanted: &'static Wanted,
    trail: &'t Trail,
}

/// Something of which only a part is looked at: a deserializer, a visitor or a seed.
struct Parted<'t, T> {
    inner: T,
    part: Part<'t>,
}

/// Reads of an object what is wanted.
pub(super) fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
    wanted: &'static Wanted,
    trail: &Trail,
) -> Result<T, D::Error> {
    T::deserialize(Parted { inner: from, part: Part { wanted, trail } })
}

impl Part<'_> {
    /// What is read of the field of that name; `None` if there may be no such field.
    fn field(&self, name: &str) -> Option<&'static Wanted> {
        match self.wanted {
            Wanted::All => Some(&Wanted::All),
            Wanted::Nothing => Some(&Wanted::Nothing),
            Wanted::Fields(fields) => Some(find(fields, name).unwrap_or(&Wanted::Nothing)),
            Wanted::Only(fields) => find(fields, name),
            Wanted::Named(starts) => match starts.iter().any(|start| name.starts_with(start)) {
                true => Some(&Wanted::All),
                false => Some(&Wanted::Nothing),
            },
        }
    }

    /// Complains of a field that may not be there.
    fn unknown<E: de::Error>(&self, name: &str) -> E {
        if let Wanted::Only(fields) = self.wanted {
            let known: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
            self.trail.known.set(Some(known.join(", ")));
        }
        self.trail.note(PathStep::Key(name.to_owned()));
        E::custom(format_args!("unknown field {name:?}"))
    }
}

fn find(fields: &'static [(&'static str, Wanted)], name: &str) -> Option<&'static Wanted> {
    fields.iter().find(|(field, _)| *field == name).map(|(_, wanted)| wanted)
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Parted<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(Parted { inner: visitor, part: self.part })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(Parted { inner: visitor, part: self.part })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_newtype_struct(name, Parted { inner: visitor, part: self.part })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_ignored_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Parted<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_bool<E: de::Error>(self, it: bool) -> Result<V::Value, E> {
        self.inner.visit_bool(it)
    }

    fn visit_i64<E: de::Error>(self, it: i64) -> Result<V::Value, E> {
        self.inner.visit_i64(it)
    }

    fn visit_u64<E: de::Error>(self, it: u64) -> Result<V::Value, E> {
        self.inner.visit_u64(it)
    }

    fn visit_f64<E: de::Error>(self, it: f64) -> Result<V::Value, E> {
        self.inner.visit_f64(it)
    }

    fn visit_str<E: de::Error>(self, it: &str) -> Result<V::Value, E> {
        self.inner.visit_str(it)
    }

    fn visit_borrowed_str<E: de::Error>(self, it: &'de str) -> Result<V::Value, E> {
        self.inner.visit_borrowed_str(it)
    }

    fn visit_string<E: de::Error>(self, it: String) -> Result<V::Value, E> {
        self.inner.visit_string(it)
    }

    fn visit_none<E: de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Parted { inner: from, part: self.part })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Parted { inner: from, part: self.part })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(PartedList { list, part: self.part, next: 0 })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(PartedMap { map, part: self.part, field: None })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, of: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(of)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Parted<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Parted { inner: from, part: self.part })
    }
}

/// A list, of each member of which the same is read.
struct PartedList<'t, A> {
    list: A,
    part: Part<'t>,
    next: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for PartedList<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let read = self.list.next_element_seed(Parted { inner: seed, part: self.part });
        if read.is_err() {
            self.part.trail.note(PathStep::Index(self.next));
        }
        self.next += 1;
        read
    }

    fn size_hint(&self) -> Option<usize> {
        self.list.size_hint()
    }
}

/// A mapping, of which those fields are handed on that are wanted.
struct PartedMap<'de, 't, A> {
    map: A,
    part: Part<'t>,
    /// The field whose value comes next.
    field: Option<(Cow<'de, str>, &'static Wanted)>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for PartedMap<'de, '_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        loop {
            let Some(name) = self.map.next_key_seed(FieldName)? else { return Ok(None) };
            match self.part.field(&name) {
                None => return Err(self.part.unknown(&name)),
                Some(Wanted::Nothing) => drop(self.map.next_value::<IgnoredAny>()?),
                Some(wanted) => {
                    let key = match &name {
                        Cow::Borrowed(name) => {
                            seed.deserialize(value::BorrowedStrDeserializer::new(name))
                        }
                        Cow::Owned(name) => seed.deserialize(value::StrDeserializer::new(name)),
                    };
                    self.field = Some((name, wanted));
                    return key.map(Some);
                }
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let Some((name, wanted)) = self.field.take() else {
            return self.map.next_value_seed(seed);
        };
        let part = Part { wanted, trail: self.part.trail };
        self.map.next_value_seed(Parted { inner: seed, part }).inspect_err(|_| {
            self.part.trail.note(PathStep::Key(name.into_owned()));
        })
    }
}

/// Reads the name of a field, without a copy where there is none to be made.
struct FieldName;

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for FieldName {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_borrowed_str<E: de::Error>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}
