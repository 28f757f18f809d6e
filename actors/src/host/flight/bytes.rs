use std::fmt::{self, Write as _};

/// Longest text in a record, bytes; more is cut off.
pub(super) const TEXT_MAX: usize = 512;
/// A record's content: two texts and a dozen numbers at most.
pub(super) const BODY_MAX: usize = 2 * (TEXT_MAX + 2) + 16 * VARINT_MAX;
/// Longest text of a value, bytes.
const SHORT_MAX: usize = 64;
/// Bytes of the longest number.
pub(super) const VARINT_MAX: usize = 10;

/// Writes numbers, seven bits a byte, and texts.
pub(super) struct Bytes {
    /// A word more than the content, which is padded to whole words.
    buffer: [u8; BODY_MAX + 8],
    len: usize,
}

impl Bytes {
    pub(super) fn new() -> Self {
        Self { buffer: [0; BODY_MAX + 8], len: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn content(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The content in words, the last filled up with zeros.
    pub(super) fn padded(&mut self) -> &[u8] {
        self.buffer[self.len..self.len + 8].fill(0);
        &self.buffer[..self.len.next_multiple_of(8)]
    }

    pub(super) fn byte(&mut self, byte: u8) {
        if self.len < BODY_MAX {
            self.buffer[self.len] = byte;
            self.len += 1;
        }
    }

    pub(super) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// A difference, small ones of either sign short.
    pub(super) fn difference(&mut self, value: u64, from: u64) {
        let difference = value.wrapping_sub(from) as i64;
        self.number(((difference << 1) ^ (difference >> 63)) as u64);
    }

    pub(super) fn text(&mut self, text: &str) {
        let mut end = text.len().min(TEXT_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.number(end as u64);
        self.raw(&text.as_bytes()[..end]);
    }

    /// The text of a value, which has a short one.
    pub(super) fn shown(&mut self, value: &dyn fmt::Display) {
        let mut short = Short { bytes: [0; SHORT_MAX], len: 0 };
        // What does not fit is cut off.
        let _ = write!(short, "{value}");
        self.number(short.len as u64);
        self.raw(&short.bytes[..short.len]);
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        let len = bytes.len().min(BODY_MAX - self.len);
        self.buffer[self.len..self.len + len].copy_from_slice(&bytes[..len]);
        self.len += len;
    }
}

struct Short {
    bytes: [u8; SHORT_MAX],
    len: usize,
}

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let place = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// Reads what [`Bytes`] wrote; `None` where it did not write that.
pub(super) struct Content<'a>(pub(super) &'a [u8]);

impl<'a> Content<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for at in 0..VARINT_MAX {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn difference(&mut self, from: u64) -> Option<u64> {
        let number = self.number()?;
        let difference = (number >> 1) as i64 ^ -((number & 1) as i64);
        Some(from.wrapping_add(difference as u64))
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let len = usize::try_from(self.number()?).ok()?;
        let bytes = self.0.get(..len)?;
        self.0 = &self.0[len..];
        str::from_utf8(bytes).ok()
    }
}
