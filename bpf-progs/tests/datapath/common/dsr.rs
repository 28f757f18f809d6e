//! Direct server return, as it is on the wire.

use super::{Node, checksum};
use aya::maps::lpm_trie::{Key, LpmTrie};
use std::net::{IpAddr, SocketAddr};
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;
use zerocopy::IntoBytes;

/// Programs that let backends answer clients themselves.
pub fn dsr() -> Features {
    Features { dsr: true, ..Features::default() }
}

/// The frame with the option that tells what its sender has asked.
pub fn reported(mut frame: Vec<u8>, asked: SocketAddr) -> Vec<u8> {
    let port = asked.port().to_be_bytes();
    let grow = |frame: &mut Vec<u8>, at: usize, by: u16| {
        let length = u16::from_be_bytes([frame[at], frame[at + 1]]) + by;
        frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
    };
    match asked.ip() {
        IpAddr::V4(address) => {
            let option = [&[0x9a, 8][..], &port, &address.octets()].concat();
            grow(&mut frame, 16, 8);
            frame[14] = 0x47;
            frame.splice(34..34, option);
            frame[24..26].fill(0);
            let sum = checksum(&frame[14..42]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        IpAddr::V6(address) => {
            let next = std::mem::replace(&mut frame[20], 60);
            let option = [&[next, 2, 0x1b, 20][..], &address.octets(), &port, &[0, 0]].concat();
            grow(&mut frame, 18, 24);
            frame.splice(54..54, option);
        }
    }
    frame
}

/// Whether a frame has an option, or what was one.
pub fn is_told(frame: &[u8]) -> bool {
    frame[14] == 0x47 || frame[12..14] == [0x86, 0xdd] && frame[20] == 60
}

/// The frame with the option made nothing, as it goes back to the node that wrote it.
pub fn blanked(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[14] == 0x47 {
        frame[34..42].fill(1);
        frame[24..26].fill(0);
        let sum = checksum(&frame[14..42]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame[56] = 0x1e;
        frame[58..78].fill(0);
    }
    frame
}

impl Node {
    /// A row of the ipcache of what is behind another node, reached beside the overlay unless it leads
    /// there.
    pub fn behind(&mut self, address: IpAddr, identity: u32, node: [u8; 4], overlay: bool) {
        let beside = if overlay { 0 } else { IpcacheFlags::SKIP_TUNNEL };
        let key = IpcacheKey::new(address, if address.is_ipv4() { 32 } else { 128 });
        let flags = IpcacheFlags::HAS_TUNNEL_ENDPOINT | beside;
        let mut row = IpcacheRow { identity, flags, ..IpcacheRow::default() };
        row.tunnel_endpoint[..4].copy_from_slice(&node);
        self.map::<LpmTrie<_, [u8; 20], IpcacheRow>>("cilium_ipcache_v2", |mut map| {
            let data = key.as_bytes()[4..].try_into().unwrap();
            map.insert(&Key::new(key.prefix_len, data), row, 0).unwrap();
        });
    }
}
