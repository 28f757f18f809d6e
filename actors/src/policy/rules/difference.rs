//! Which rows to write and which to delete, to get from one policy map to another.

use crate::model::{PolicyEntry, PolicyKey, PolicyRows};

/// The row writes that lead from one policy to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Rows that are new or another one, by key.
    pub puts: Vec<(PolicyKey, PolicyEntry)>,
    /// Rows that are no more, by key.
    pub deletes: Vec<PolicyKey>,
}

impl Difference {
    /// Of more rows nobody asks which they are: a map is then built aside.
    const ROWS_MAX: usize = 64;

    /// What is different in `desired`; none if that is too much.
    pub fn of(had: &PolicyRows, desired: &PolicyRows) -> Option<Self> {
        let mut difference = Self::default();
        let (mut old, mut new) = (had.iter().peekable(), desired.iter().peekable());
        while difference.puts.len() + difference.deletes.len() <= Self::ROWS_MAX {
            // Both are sorted: the lower key of the two has not got its match on the other side.
            let gone = old.next_if(|(key, _)| new.peek().is_none_or(|(other, _)| key < other));
            if let Some((key, _)) = gone {
                difference.deletes.push(*key);
            } else if let Some((key, entry)) = new.next() {
                let before = old.next_if(|(other, _)| *other == key);
                if before.is_none_or(|(_, before)| before != entry) {
                    difference.puts.push((*key, *entry));
                }
            } else {
                return Some(difference);
            }
        }
        None
    }

    /// The keys of all these rows.
    pub fn keys(&self) -> impl Iterator<Item = &PolicyKey> {
        self.puts.iter().map(|(key, _)| key).chain(&self.deletes)
    }
}
