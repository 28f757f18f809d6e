//! The frames in which netlink messages arrive.

use netlink_packet_core::{NLM_F_DUMP_INTR, NLM_F_REPLACE, NlasIterator};

/// `NLMSG_NOOP`, `NLMSG_ERROR`, `NLMSG_DONE`: messages that every netlink family has.
const NOOP: u16 = 1;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Length of a message's header.
const HEADER: usize = 16;
/// Attribute of a refusal: the kernel's explanation (`NLMSGERR_ATTR_MSG`).
const EXPLANATION: u16 = 1;

/// One message of a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    /// Number of the request that it answers.
    pub(super) sequence: u32,
    /// Whether the kernel saw changes while it walked a dump.
    pub(super) interrupted: bool,
    /// Whether a notice is of something that took another one's place.
    pub(super) replaces: bool,
    /// What it says.
    pub(super) body: Body<'a>,
}

/// What a message says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'a> {
    /// An object: its message type and its bytes.
    Object(u16, &'a [u8]),
    /// The last word: an error number, 0 for success, and attributes that explain it.
    End(i32, &'a [u8]),
    /// Nothing.
    Empty,
}

/// The messages of a datagram; `None` stands for bytes that are no message.
pub(super) struct Messages<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Option<Message<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let parsed = parse(self.0);
        let length = parsed.map_or(self.0.len(), |(length, _)| length.next_multiple_of(4));
        self.0 = self.0.get(length..).unwrap_or_default();
        Some(parsed.map(|(_, message)| message))
    }
}

fn parse(bytes: &[u8]) -> Option<(usize, Message<'_>)> {
    let length = usize::try_from(u32::from_ne_bytes(array(bytes, 0)?)).ok()?;
    let kind = u16::from_ne_bytes(array(bytes, 4)?);
    let flags = u16::from_ne_bytes(array(bytes, 6)?);
    let sequence = u32::from_ne_bytes(array(bytes, 8)?);
    let payload = bytes.get(HEADER..length)?;
    let body = match kind {
        NOOP => Body::Empty,
        DONE => Body::End(i32::from_ne_bytes(array(payload, 0)?), payload.get(4..)?),
        // Between the two stands the header of the request.
        ERROR => {
            let attributes = payload.get(4 + HEADER..).unwrap_or_default();
            Body::End(i32::from_ne_bytes(array(payload, 0)?), attributes)
        }
        _ => Body::Object(kind, payload),
    };
    let (interrupted, replaces) = (flags & NLM_F_DUMP_INTR != 0, flags & NLM_F_REPLACE != 0);
    Some((length, Message { sequence, interrupted, replaces, body }))
}

/// `N` bytes at an offset.
pub(super) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// The kernel's words among the attributes of a refusal; empty if it has none.
pub(super) fn explanation(attributes: &[u8]) -> String {
    NlasIterator::new(attributes)
        .map_while(Result::ok)
        .find(|nla| nla.kind() == EXPLANATION)
        .map(|nla| text(nla.value()))
        .unwrap_or_default()
}

/// A text of C, without what ends it.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + payload.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(NLM_F_DUMP_INTR.to_ne_bytes());
        bytes.extend(7_u32.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_datagram_holds_several_messages() {
        let bytes = [frame(16, b"abc"), frame(NOOP, b""), frame(DONE, &[0; 4])].concat();
        let messages: Vec<_> = Messages(&bytes).map(Option::unwrap).collect();
        assert!(messages.iter().all(|message| message.sequence == 7 && message.interrupted));
        assert!(matches!(messages[0].body, Body::Object(16, b"abc")));
        assert!(matches!(messages[1].body, Body::Empty));
        assert!(matches!(messages[2].body, Body::End(0, b"")));
    }

    #[test]
    fn a_cut_message_ends_the_datagram() {
        let whole = frame(16, b"abcd");
        for length in 1..whole.len() {
            let messages: Vec<_> = Messages(&whole[..length]).collect();
            assert!(matches!(messages[..], [None]), "{length}");
        }
    }

    proptest! {
        #[test]
        fn no_datagram_makes_it_panic_or_run_on(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Messages(&bytes).count() <= bytes.len());
            explanation(&bytes);
        }
    }
}
