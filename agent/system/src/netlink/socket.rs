//! The netlink socket: sends a request, reads the answers, repeats a dump that was interrupted, and
//! turns what the kernel says into errors.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    ParseableParametrized,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket as RawSocket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::io::Errno;

use super::{
    NetlinkError,
    message::{Body, Messages, explanation},
};

/// The kernel fills a dump's datagrams up to 32 KiB.
const BUFFER: usize = 64 * 1024;
/// A dump that the kernel calls inconsistent is read again, this often at most.
const DUMP_ATTEMPTS: usize = 16;

/// A routing netlink socket of the network namespace in which it was opened.
pub struct Socket {
    raw: RawSocket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// What a request is called in its errors.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) op: &'static str,
    pub(super) about: String,
}

impl Call {
    pub(super) fn new(op: &'static str, about: impl Into<String>) -> Self {
        Self { op, about: about.into() }
    }

    pub(super) fn socket_error(&self, source: std::io::Error) -> NetlinkError {
        NetlinkError::Socket { op: self.op, about: self.about.clone(), source }
    }

    fn garbled(&self, cause: impl ToString) -> NetlinkError {
        NetlinkError::Garbled { op: self.op, about: self.about.clone(), cause: cause.to_string() }
    }

    fn refused(&self, code: i32, attributes: &[u8]) -> NetlinkError {
        let errno = Errno::from_raw_os_error(code.abs());
        NetlinkError::refused(self.op, self.about.clone(), errno, &explanation(attributes))
    }
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace.
    pub fn open() -> Result<Self, NetlinkError> {
        let call = Call::new("open", "routing netlink");
        let open = || {
            let mut raw = RawSocket::new(NETLINK_ROUTE)?;
            raw.bind_auto()?;
            raw.connect(&SocketAddr::new(0, 0))?;
            raw.set_cap_ack(true)?;
            raw.set_ext_ack(true)?;
            // Dumps then return only what was asked for.
            raw.set_netlink_get_strict_chk(true)?;
            Ok(raw)
        };
        let raw = open().map_err(|error| call.socket_error(error))?;
        Ok(Self { raw, sequence: 0, buffer: Vec::with_capacity(BUFFER) })
    }

    /// Asks for a change and waits for its acknowledgement.
    pub(super) fn change(
        &mut self,
        call: &Call,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), NetlinkError> {
        self.send(call, message, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        self.collect(call, &mut |_, _| {}).map(|_| ())
    }

    /// Asks for one object. `parse` makes it of the message's type and bytes.
    pub(super) fn get<T>(
        &mut self,
        call: &Call,
        message: RouteNetlinkMessage,
        parse: impl Fn(u16, &[u8]) -> Option<T>,
    ) -> Result<Option<T>, NetlinkError> {
        self.ask(call, message, NLM_F_REQUEST | NLM_F_ACK, parse)
    }

    /// Asks with these flags. `parse` makes what is answered of the message's type and bytes.
    pub(super) fn ask<T>(
        &mut self,
        call: &Call,
        message: RouteNetlinkMessage,
        flags: u16,
        parse: impl Fn(u16, &[u8]) -> Option<T>,
    ) -> Result<Option<T>, NetlinkError> {
        self.send(call, message, flags)?;
        let mut found = None;
        self.collect(call, &mut |kind, bytes| found = parse(kind, bytes))?;
        Ok(found)
    }

    /// Asks for all objects; what changes while the kernel walks them makes it start again. What
    /// `parse` makes nothing of is left out. Only what it makes is kept: a node's interfaces are a
    /// megabyte of messages.
    pub(super) fn dump<T>(
        &mut self,
        call: &Call,
        message: &RouteNetlinkMessage,
        parse: impl Fn(u16, &[u8]) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        let mut found = Vec::new();
        for _ in 0..DUMP_ATTEMPTS {
            found.clear();
            self.send(call, message.clone(), NLM_F_REQUEST | NLM_F_DUMP)?;
            if self.collect(call, &mut |kind, bytes| found.extend(parse(kind, bytes)))? {
                break;
            }
        }
        // Still interrupted after so many attempts: every object in it was true when it was read.
        Ok(found)
    }

    fn send(
        &mut self,
        call: &Call,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.raw.send(&bytes, 0).map_err(|error| call.socket_error(error))?;
        Ok(())
    }

    /// Reads answers until the last one; false if the kernel calls the dump inconsistent.
    fn collect(
        &mut self,
        call: &Call,
        each: &mut dyn FnMut(u16, &[u8]),
    ) -> Result<bool, NetlinkError> {
        let mut consistent = true;
        loop {
            self.receive().map_err(|error| call.socket_error(error))?;
            for message in Messages(&self.buffer) {
                let message = message.ok_or_else(|| call.garbled("a message is cut"))?;
                // What is left of an earlier request that failed half-way.
                if message.sequence != self.sequence {
                    continue;
                }
                consistent &= !message.interrupted;
                match message.body {
                    Body::Object(kind, bytes) => each(kind, bytes),
                    Body::End(0, _) => return Ok(consistent),
                    Body::End(code, attributes) => return Err(call.refused(code, attributes)),
                    Body::Empty => {}
                }
            }
        }
    }

    /// Joins a group of notices; they come between answers and are passed over there.
    pub(super) fn join(&mut self, call: &Call, group: u32) -> Result<(), NetlinkError> {
        self.raw.add_membership(group).map_err(|error| call.socket_error(error))
    }

    pub(super) fn raw(&self) -> &RawSocket {
        &self.raw
    }

    /// What was received last.
    pub(super) fn received(&self) -> &[u8] {
        &self.buffer
    }

    pub(super) fn receive(&mut self) -> std::io::Result<()> {
        loop {
            self.buffer.clear();
            match self.raw.recv(&mut self.buffer, 0) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                result => return result.map(|_| ()),
            }
        }
    }
}

/// The object that a message describes; `None` if it has a shape that is not understood, which
/// costs that object only.
pub(super) fn decode(kind: u16, bytes: &[u8]) -> Option<RouteNetlinkMessage> {
    RouteNetlinkMessage::parse_with_param(bytes, kind)
        .inspect_err(|error| tracing::debug!(kind, %error, "skipped a netlink message"))
        .ok()
}
