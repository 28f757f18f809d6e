//! Waits until an interface can carry packets, by the notices of the kernel.

use std::time::{Duration, Instant};

use netlink_packet_core::NlasIterator;
use netlink_packet_route::{RouteNetlinkMessage, link::LinkMessage};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{NetlinkError, Socket, link::without_statistics, message::array, socket::Call};

/// `IF_OPER_UP`: up, with a carrier, and with the queue that sends.
const OPERATIONAL: u8 = 6;

impl Socket {
    /// Waits until an interface of this socket's namespace carries packets; false if it does not
    /// after so long.
    ///
    /// After both sides of a pair are up it takes the kernel a moment, and on a busy node more than
    /// that, until a worker of its own has given them their queues. What is sent before is lost
    /// without a word.
    pub fn wait_for_carrier(
        &mut self,
        ifindex: u32,
        longest: Duration,
    ) -> Result<bool, NetlinkError> {
        let call = Call::new("wait for the carrier of", format!("interface {ifindex}"));
        let deadline = Instant::now() + longest;
        if self.has_carrier(&call, ifindex)? {
            return Ok(true);
        }
        // From now on every change of an interface is told, of all others too.
        self.join(&call, libc::RTNLGRP_LINK)?;
        loop {
            if self.has_carrier(&call, ifindex)? {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.hear(&call, left)? {
                return Ok(false);
            }
        }
    }

    fn has_carrier(&mut self, call: &Call, ifindex: u32) -> Result<bool, NetlinkError> {
        let mut request = LinkMessage::default();
        request.header.index = ifindex;
        request.attributes.push(without_statistics());
        let message = RouteNetlinkMessage::GetLink(request);
        Ok(self.get(call, message, operational)?.unwrap_or(false))
    }

    /// Waits until something is told, and takes it; false when the time is over before.
    pub(super) fn hear(&mut self, call: &Call, longest: Duration) -> Result<bool, NetlinkError> {
        let failed = |error: Errno| call.socket_error(error.into());
        let longest = Timespec::try_from(longest).map_err(|_| failed(Errno::INVAL))?;
        match poll(&mut [PollFd::new(self.raw(), PollFlags::IN)], Some(&longest)) {
            Ok(0) => Ok(false),
            Ok(_) => self.receive().map(|()| true).map_err(|error| call.socket_error(error)),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Whether the interface of a link message is operational.
fn operational(kind: u16, bytes: &[u8]) -> Option<bool> {
    if kind != libc::RTM_NEWLINK {
        return None;
    }
    let state = NlasIterator::new(bytes.get(16..)?)
        .map_while(Result::ok)
        .find(|nla| nla.kind() == libc::IFLA_OPERSTATE)?;
    Some(array(state.value(), 0) == Some([OPERATIONAL]))
}
