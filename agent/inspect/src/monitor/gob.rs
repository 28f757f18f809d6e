//! What is said on the socket: Go's gob encoding (<https://pkg.go.dev/encoding/gob>) of
//! `struct Payload { Data []byte; CPU int; Lost uint64; Type int }`, as much of it as that needs.
//!
//! A message is its length and its body. The body is the number of a type and, if that is negative,
//! a description of the type; else a value of it: for each field that is not zero how many fields
//! it is further on, and the field; then 0.

use volvox_maps::Event;

/// Describes the type of all values that follow, under number 64. Comes first.
pub(super) const GREETING: &[u8] = b"\x37\x7f\x03\x01\x01\x07Payload\x01\xff\x80\x00\x01\x04\
    \x01\x04Data\x01\x0a\x00\x01\x03CPU\x01\x04\x00\x01\x04Lost\x01\x06\x00\x01\x04Type\x01\x04\x00\
    \x00\x00";

/// Describes `struct AgentNotify { Type uint; Text string }`, under number 64 of a stream of its own:
/// each notice is one.
const NOTIFY: &[u8] = b"\x2a\x7f\x03\x01\x01\x0bAgentNotify\x01\xff\x80\x00\x01\x02\
    \x01\x04Type\x01\x06\x00\x01\x04Text\x01\x0c\x00\x00\x00";

/// Number of the type [`GREETING`] describes.
const TYPE: u64 = 64;
/// Values of the field `Type`, the kernel's numbers: a record, and records lost.
const SAMPLE: u64 = 9;
const LOST: u64 = 2;

/// Longest message that is read, bytes: a record of a perf ring is below 64 KiB.
const MESSAGE_MAX: u64 = 128 << 10;

/// What is read is not what an agent says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what comes over the monitor's socket cannot be read: {0}")]
pub struct GobError(&'static str);

/// A record, or records lost, as a message.
pub(super) fn encode(event: &Event) -> Vec<u8> {
    let (data, cpu, lost, kind) = match event {
        Event::Sample { cpu, bytes } => (&bytes[..], *cpu, 0, SAMPLE),
        Event::Lost { cpu, count } => (&[][..], *cpu, *count, LOST),
    };
    let mut body = Vec::with_capacity(data.len() + 16);
    put_int(&mut body, TYPE);
    let mut skipped = 1;
    let mut field = |body: &mut Vec<u8>, is_zero: bool| {
        if is_zero {
            skipped += 1;
        } else {
            put_uint(body, std::mem::replace(&mut skipped, 1));
        }
        !is_zero
    };
    if field(&mut body, data.is_empty()) {
        put_uint(&mut body, data.len() as u64);
        body.extend(data);
    }
    if field(&mut body, cpu == 0) {
        put_int(&mut body, cpu.into());
    }
    if field(&mut body, lost == 0) {
        put_uint(&mut body, lost);
    }
    field(&mut body, false);
    put_int(&mut body, kind);
    body.push(0);
    let mut message = Vec::with_capacity(body.len() + 3);
    put_uint(&mut message, body.len() as u64);
    message.extend(body);
    message
}

/// A notice, as a stream of its own.
pub(super) fn agent_notify(kind: u64, text: &str) -> Vec<u8> {
    let mut body = Vec::with_capacity(text.len() + 16);
    put_int(&mut body, TYPE);
    put_uint(&mut body, 1);
    put_uint(&mut body, kind);
    put_uint(&mut body, 1);
    put_uint(&mut body, text.len() as u64);
    body.extend(text.as_bytes());
    body.push(0);
    let mut stream = NOTIFY.to_vec();
    put_uint(&mut stream, body.len() as u64);
    stream.extend(body);
    stream
}

/// The text of a notice, if the bytes are one.
pub(super) fn read_agent_notify(stream: &[u8]) -> Option<String> {
    let body = stream.strip_prefix(NOTIFY)?;
    let (_length, body) = uint(body).ok()??;
    let (_type, mut rest) = uint(body).ok()??;
    let mut field = 0_u64;
    loop {
        let (step, after) = uint(rest).ok()??;
        field = field.saturating_add(step);
        let (value, after) = if step == 0 { return None } else { uint(after).ok()?? };
        match field {
            1 => rest = after,
            2 => {
                let text = after.get(..usize::try_from(value).ok()?)?;
                return String::from_utf8(text.to_vec()).ok();
            }
            _ => return None,
        }
    }
}

/// Below 128 a byte; else how many bytes, negated, and those.
fn put_uint(to: &mut Vec<u8>, value: u64) {
    if value < 128 {
        to.push(value as u8);
        return;
    }
    let skipped = value.leading_zeros() as usize / 8;
    to.push((8 - skipped as u8).wrapping_neg());
    to.extend(&value.to_be_bytes()[skipped..]);
}

/// A signed number that is not negative: the lowest bit is the sign.
fn put_int(to: &mut Vec<u8>, value: u64) {
    put_uint(to, value << 1);
}

/// Reads messages out of bytes as they come.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    greeted: bool,
}

impl Decoder {
    /// Adds bytes that came.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Whether the agent has said that it hands on records.
    pub fn is_greeted(&self) -> bool {
        self.greeted
    }

    /// Takes all events that have come whole.
    pub fn events(&mut self) -> Result<Vec<Event>, GobError> {
        let (mut events, mut at) = (Vec::new(), 0);
        while let Some((length, rest)) = uint(&self.bytes[at..])? {
            if length > MESSAGE_MAX {
                return Err(GobError("a message is too long"));
            }
            let Some(body) = rest.get(..length as usize) else { break };
            at = self.bytes.len() - rest.len() + body.len();
            match message(body)? {
                Message::Type => self.greeted = true,
                Message::Event(event) => events.push(event),
                Message::Other => {}
            }
        }
        self.bytes.drain(..at);
        Ok(events)
    }
}

enum Message {
    Type,
    Event(Event),
    /// Of a kind that is not known here.
    Other,
}

fn message(body: &[u8]) -> Result<Message, GobError> {
    let (number, mut rest) = whole(body)?;
    if number & 1 == 1 {
        return Ok(Message::Type);
    }
    let (mut data, mut numbers, mut field) = (&[][..], [0; 4], 0);
    loop {
        let (step, after) = whole(rest)?;
        if step == 0 {
            break;
        }
        let (value, after) = whole(after)?;
        field = usize::try_from(step).map_or(usize::MAX, |step| step.saturating_add(field));
        rest = after;
        match field {
            1 => {
                let length = usize::try_from(value).map_err(|_| GobError("a record is cut off"))?;
                data = rest.get(..length).ok_or(GobError("a record is cut off"))?;
                rest = &rest[length..];
            }
            2..=4 => numbers[field - 1] = value,
            _ => return Err(GobError("a message has more fields than known")),
        }
    }
    let [_, cpu, lost, kind] = numbers;
    // Signed, and never negative.
    let cpu = u32::try_from(cpu >> 1).map_err(|_| GobError("there is no such CPU"))?;
    Ok(match kind >> 1 {
        SAMPLE => Message::Event(Event::Sample { cpu, bytes: data.to_vec() }),
        LOST => Message::Event(Event::Lost { cpu, count: lost }),
        _ => Message::Other,
    })
}

/// A number and what is behind it; `None` if there is not all of it yet.
fn uint(bytes: &[u8]) -> Result<Option<(u64, &[u8])>, GobError> {
    let Some((&first, rest)) = bytes.split_first() else { return Ok(None) };
    if first < 128 {
        return Ok(Some((first.into(), rest)));
    }
    let length = usize::from(first.wrapping_neg());
    if length > size_of::<u64>() {
        return Err(GobError("a number is too long"));
    }
    let Some(digits) = rest.get(..length) else { return Ok(None) };
    let value = digits.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Ok(Some((value, &rest[length..])))
}

/// The same within a message, which is there to its end.
fn whole(bytes: &[u8]) -> Result<(u64, &[u8]), GobError> {
    uint(bytes)?.ok_or(GobError("a message is cut off"))
}
