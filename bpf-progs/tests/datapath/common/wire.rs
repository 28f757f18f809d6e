//! Whole frames, as they stand on a wire.

use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// An interface of the thread's namespace, to send and hear whole frames by.
pub struct Wire {
    socket: OwnedFd,
}

impl Wire {
    pub fn at(ifindex: u32) -> Self {
        let every = i32::from((libc::ETH_P_ALL as u16).to_be());
        // SAFETY: takes no pointers.
        let fd =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, every) };
        assert!(fd >= 0, "{}", Error::last_os_error());
        // SAFETY: it has just been opened, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: zero is a value of all its fields.
        let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        at.sll_family = libc::AF_PACKET as u16;
        at.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        at.sll_ifindex = ifindex as i32;
        let length = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the pointer is to an address of that length.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const at).cast(), length) };
        assert_eq!(bound, 0, "{}", Error::last_os_error());
        Self { socket }
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the pointer is to that many bytes.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", Error::last_os_error());
    }

    /// Whether a frame with these bytes comes in within so long.
    pub fn hears(&self, bytes: &[u8], within: Duration) -> bool {
        let start = std::time::Instant::now();
        let mut buffer = [0; 2048];
        while start.elapsed() < within {
            let flags = libc::MSG_DONTWAIT;
            // SAFETY: the pointer is to that many bytes.
            let got = unsafe {
                libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags)
            };
            match usize::try_from(got) {
                Ok(got) if buffer[..got].windows(bytes.len()).any(|it| it == bytes) => return true,
                Ok(_) => {}
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        false
    }
}
