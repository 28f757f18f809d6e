//! Checksums of layer 4.

use super::{Endpoint, ICMP, ICMPV6, TCP, UDP, checksum};

/// Where a packet's parts are: sum of the pseudo header's words, start of layer 4, protocol.
fn parts(frame: &[u8]) -> (Vec<u8>, usize, u8) {
    let (addresses, start, protocol) = match frame[12..14] {
        [8, 0] => (&frame[26..34], 34, frame[23]),
        _ => (&frame[22..54], 54, frame[20]),
    };
    let length = (frame.len() - start) as u16;
    let mut pseudo = addresses.to_vec();
    pseudo.extend([0, protocol]);
    pseudo.extend(length.to_be_bytes());
    if protocol == ICMP {
        pseudo.clear();
    }
    (pseudo, start, protocol)
}

fn place(protocol: u8) -> Option<usize> {
    match protocol {
        TCP => Some(16),
        UDP => Some(6),
        ICMP | ICMPV6 => Some(2),
        _ => None,
    }
}

/// The frame with the right checksum of its layer 4; without options or fragments.
pub fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    let (pseudo, start, protocol) = parts(&frame);
    if let Some(place) = place(protocol) {
        frame[start + place..][..2].fill(0);
        let sum = checksum(&[&pseudo, &frame[start..]].concat());
        frame[start + place..][..2].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// Whether the checksums of a frame are right.
pub fn is_sealed(frame: &[u8]) -> bool {
    let (pseudo, start, _) = parts(frame);
    let header = frame[12] != 8 || checksum(&frame[14..34]) == 0;
    header && checksum(&[&pseudo, &frame[start..]].concat()) == 0
}

/// The frame as it is handed over to a local endpoint.
pub fn delivered(mut frame: Vec<u8>, to: &Endpoint) -> Vec<u8> {
    frame[..6].copy_from_slice(&to.mac);
    frame[6..12].copy_from_slice(&to.node_mac);
    forwarded(frame)
}

/// The frame after one hop.
pub fn forwarded(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[12..14] == [8, 0] {
        frame[22] -= 1;
        frame[24..26].fill(0);
        let end = 14 + 4 * usize::from(frame[14] & 0xf);
        let sum = checksum(&frame[14..end]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame[21] -= 1;
    }
    frame
}
