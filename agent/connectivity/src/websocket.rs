//! The client's half of the WebSocket protocol (RFC 6455), as much of it as commands in pods need.
//!
//! The API server speaks it over connections that are kube's; a crate for it would be a further
//! dependency for what is a page.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest message.
const LONGEST: usize = 4 << 20;
/// What a frame carries.
const CONTINUED: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A connection of messages.
pub(crate) struct WebSocket<S>(S);

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// Speaks over a connection that was upgraded.
    pub(crate) fn new(stream: S) -> Self {
        Self(stream)
    }

    /// The next message; `None` when the other side is done.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut message = Vec::new();
        loop {
            let Some((last, kind, bytes)) = self.frame(LONGEST - message.len()).await? else {
                return Ok(None);
            };
            match kind {
                CONTINUED | TEXT | BINARY => {
                    message.extend(bytes);
                    if last {
                        return Ok(Some(message));
                    }
                }
                PING => self.send_frame(PONG, &bytes).await?,
                PONG => {}
                CLOSE => {
                    // Nobody may read it any more.
                    let _ = self.send_frame(CLOSE, bytes.get(..2).unwrap_or_default()).await;
                    return Ok(None);
                }
                kind => return Err(wrong(&format!("a frame of kind {kind}"))),
            }
        }
    }

    /// Sends a message.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send_frame(BINARY, bytes).await
    }

    async fn frame(&mut self, room: usize) -> io::Result<Option<(bool, u8, Vec<u8>)>> {
        let mut head = [0; 2];
        match self.0.read_exact(&mut head).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        };
        let [first, second] = head;
        if second & 0x80 != 0 {
            return Err(wrong("a masked frame"));
        }
        let length = match second {
            126 => u64::from(self.0.read_u16().await?),
            127 => self.0.read_u64().await?,
            short => u64::from(short),
        };
        let length = usize::try_from(length).ok().filter(|it| *it <= room);
        let mut bytes = vec![0; length.ok_or_else(|| wrong("a message that is too long"))?];
        self.0.read_exact(&mut bytes).await?;
        Ok(Some((first & 0x80 != 0, first & 0x0f, bytes)))
    }

    async fn send_frame(&mut self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        let mut frame = vec![0x80 | kind];
        let length = bytes.len();
        match (u8::try_from(length), u16::try_from(length)) {
            (Ok(short), _) if short < 126 => frame.push(0x80 | short),
            (_, Ok(middle)) => {
                frame.push(0x80 | 126);
                frame.extend(middle.to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        let [a, b, c, d, ..] = random();
        let mask = [a, b, c, d];
        frame.extend(mask);
        frame.extend(bytes.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.0.write_all(&frame).await?;
        self.0.flush().await
    }
}

/// Bytes that nobody foresees: they need not be secret.
pub(crate) fn random() -> [u8; 8] {
    RandomState::new().build_hasher().finish().to_be_bytes()
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the API server sent {what}"))
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn messages_are_put_together_and_pings_are_answered() {
        let (mut server, client) = duplex(1 << 20);
        let mut client = WebSocket::new(client);
        // Two parts with a ping between them, then one with a length of two bytes, then the end.
        server.write_all(&[0x02, 2, 1, b'a', 0x89, 1, b'!', 0x80, 1, b'b']).await.unwrap();
        let long = vec![7; 300];
        server
            .write_all(&[&[0x82, 126, 1, 44], long.as_slice(), &[0x88, 2, 3, 232]].concat())
            .await
            .unwrap();
        assert_eq!(client.next().await.unwrap().unwrap(), b"\x01ab");
        assert_eq!(client.next().await.unwrap().unwrap(), long);
        assert_eq!(client.next().await.unwrap(), None);
        let mut pong = [0; 7];
        server.read_exact(&mut pong).await.unwrap();
        assert_eq!((pong[0], pong[1], pong[6] ^ pong[2]), (0x8a, 0x81, b'!'));
    }

    #[tokio::test]
    async fn what_is_sent_is_masked_and_whole() {
        for length in [0, 1, 125, 126, 65535, 65536] {
            let (mut server, client) = duplex(1 << 20);
            let sent: Vec<u8> = (0..length).map(|it: usize| (it % 256) as u8).collect();
            WebSocket::new(client).send(&sent).await.unwrap();
            let mut frame = Vec::new();
            server.read_to_end(&mut frame).await.unwrap();
            let head = match length {
                0..126 => 2,
                126..65536 => 4,
                _ => 10,
            };
            assert_eq!(frame.len(), head + 4 + length);
            let mask = &frame[head..head + 4];
            let got: Vec<u8> =
                frame[head + 4..].iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b).collect();
            assert_eq!(got, sent);
        }
    }

    #[tokio::test]
    async fn what_is_no_frame_is_an_error_or_the_end() {
        for (bytes, ends) in [
            (&[][..], true),
            (&[0x82][..], true),
            (&[0x82, 5, 1][..], false),
            (&[0x82, 0x81, 0, 0, 0, 0, 1][..], false),
            (&[0x83, 0][..], false),
            (&[0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255][..], false),
        ] {
            let (mut server, client) = duplex(64);
            server.write_all(bytes).await.unwrap();
            drop(server);
            let next = WebSocket::new(client).next().await;
            assert_eq!(matches!(next, Ok(None)), ends, "{bytes:?}: {next:?}");
        }
    }
}
