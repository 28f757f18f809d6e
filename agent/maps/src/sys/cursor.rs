//! Where reading a map by batches is to go on.

/// Where a batch of lookups stands.
#[derive(Default)]
pub struct Cursor(pub Option<Vec<u8>>);

impl Cursor {
    /// From where an earlier one ended.
    pub fn at(place: &[u8]) -> Self {
        Self(Some(place.to_owned()))
    }

    /// Where it is; none at the beginning.
    pub fn place(self) -> Option<Box<[u8]>> {
        self.0.map(Vec::into_boxed_slice)
    }
}
