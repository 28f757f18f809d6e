//! What the kernel knows of a TCP connection (`TCP_INFO`, in `linux/tcp.h`).

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// Length of what is read of `struct tcp_info`, bytes: up to and with `tcpi_dsack_dups`.
const LENGTH: usize = 220;
/// Where `tcpi_total_retrans` is.
const TOTAL_RETRANS: usize = 100;
/// Where `tcpi_dsack_dups` is, since Linux 4.19.
const DSACK_DUPS: usize = 216;

/// How many segments of a connection were lost and sent again, its first included. Those that had arrived
/// already, as the peer said (D-SACK), do not count.
///
/// # Errors
/// The system's, if it is no TCP socket.
pub fn lost_segments(socket: impl AsFd) -> io::Result<u32> {
    let mut info = [0_u8; LENGTH];
    let mut length = LENGTH as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes into `info`, and says how many.
    let outcome = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    // What an older kernel does not know stays 0.
    let number = |at: usize| info[at..].first_chunk().map_or(0, |it| u32::from_ne_bytes(*it));
    Ok(number(TOTAL_RETRANS).saturating_sub(number(DSACK_DUPS)))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn a_connection_that_lost_nothing_says_so() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        assert_eq!(lost_segments(&client).unwrap(), 0);
        assert!(lost_segments(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
