//! The bytes of a message, member by member, whatever message it is.

/// What a member holds, as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire<'a> {
    /// A number of any length.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Bytes of a length.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

/// A member of a message: its number, what it holds, and its bytes with the number.
pub(crate) type Member<'a> = (u32, Wire<'a>, &'a [u8]);

/// The members of a message in their order; ends early where the bytes are no message.
pub(crate) fn members(mut bytes: &[u8]) -> impl Iterator<Item = Member<'_>> {
    std::iter::from_fn(move || {
        let whole = bytes;
        let (key, mut rest) = varint(bytes)?;
        let number = u32::try_from(key >> 3).ok()?;
        let value = match key & 7 {
            0 => {
                let (value, after) = varint(rest)?;
                rest = after;
                Wire::Varint(value)
            }
            1 => {
                let (value, after) = rest.split_first_chunk::<8>()?;
                rest = after;
                Wire::Fixed64(u64::from_le_bytes(*value))
            }
            2 => {
                let (length, after) = varint(rest)?;
                let (value, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
                rest = after;
                Wire::Bytes(value)
            }
            5 => {
                let (value, after) = rest.split_first_chunk::<4>()?;
                rest = after;
                Wire::Fixed32(u32::from_le_bytes(*value))
            }
            _ => return None,
        };
        bytes = rest;
        Some((number, value, &whole[..whole.len() - rest.len()]))
    })
}

/// Numbers one after the other, as lists of them are packed.
pub(crate) fn varints(mut bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    std::iter::from_fn(move || {
        let (value, rest) = varint(bytes)?;
        bytes = rest;
        Some(value)
    })
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// Writes a number.
pub(crate) fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Writes a member that is a number.
pub(crate) fn put_number(to: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(to, u64::from(number) << 3);
    put_varint(to, value);
}

/// Writes a member that has a length.
pub(crate) fn put_bytes(to: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_varint(to, u64::from(number) << 3 | 2);
    put_varint(to, value.len() as u64);
    to.extend(value);
}
