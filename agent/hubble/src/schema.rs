//! The members of each message by name, number and kind: what field masks and JSON go by, on the bytes
//! of a message itself.

mod enums;
mod flow;
mod observer;

pub(crate) use self::enums::{LOST_SOURCES, VERDICTS};
pub use self::{
    enums::{DROP_REASONS, name_of, number_of},
    flow::{FLOW, FLOW_FILTER},
    observer::{AGENT_EVENTS_RESPONSE, FLOWS_RESPONSE, PEER_CHANGE, SERVER_STATUS},
};

/// Names of an enumeration's numbers.
pub type Names = [(i32, &'static str)];

/// What a member holds.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Whether.
    Bool,
    /// An unsigned number of 32 bits.
    U32,
    /// The same of 64 bits; text in JSON.
    U64,
    /// A signed number of 32 bits.
    I32,
    /// The same of 64 bits; text in JSON.
    I64,
    /// A number with a fraction.
    Double,
    /// Text.
    Text,
    /// A number that has a name.
    Enum(&'static Names),
    /// Another message.
    Message(&'static Schema),
    /// A moment.
    Timestamp,
    /// A value in a message of its own, so that 0 differs from nothing.
    Wrapped(&'static Kind),
}

/// A member of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it may be there many times.
    pub many: bool,
}

/// A message.
#[derive(Debug)]
pub struct Schema {
    /// Its members.
    pub fields: &'static [Field],
}

impl Schema {
    /// The member of that number.
    pub fn numbered(&self, number: u32) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.number == number)
    }

    /// The member of that name.
    pub fn named(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

const fn one(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, many: false }
}

const fn many(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, many: true }
}

const fn schema(fields: &'static [Field]) -> Schema {
    Schema { fields }
}
