//! What makes a frame odd: options, headers of extension, fragments, lengths, hops, and single bytes.

use super::super::*;
use super::random::Random;

const HOPS: [u8; 5] = [0, 1, 2, 64, 255];
/// Few, so that fragments meet.
const IDS: [u16; 3] = [1, 2, 3];

fn is_v4(frame: &[u8]) -> bool {
    frame[12..14] == [8, 0]
}

/// Does one thing to an IP packet.
pub fn decorate(frame: &mut Vec<u8>, dice: &mut Random) {
    match (dice.below(4), is_v4(frame)) {
        (0, true) => options(frame, dice),
        (0, false) => extension(frame, dice),
        (1, true) => fragment4(frame, dice),
        (1, false) => fragment6(frame, dice),
        (2, v4) => frame[if v4 { 22 } else { 21 }] = dice.of(&HOPS),
        (_, v4) => {
            let at = if v4 { 16 } else { 18 };
            let any = dice.word() % 200;
            let length = dice.of(&[0, 8, 20, 28, 40, 0xffff, any]);
            frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
        }
    }
}

/// Changes bytes, or the length.
pub fn damage(frame: &mut Vec<u8>, dice: &mut Random) {
    match dice.below(4) {
        0 => frame.truncate(14 + dice.below(frame.len() - 13)),
        1 => frame.extend((0..dice.below(40)).map(|_| 0x5a)),
        _ => {
            for _ in 0..=dice.below(3) {
                let at = 12 + dice.below(frame.len() - 12);
                frame[at] =
                    if dice.one_in(2) { dice.byte() } else { frame[at] ^ 1 << dice.below(8) };
            }
        }
    }
}

fn options(frame: &mut Vec<u8>, dice: &mut Random) {
    let header = usize::from(frame[14] & 0xf) * 4;
    if header > 40 {
        return;
    }
    let all: [&[u8]; 6] = [
        &[1, 1, 1, 1],
        &[131, 7, 4, 10, 1, 0, 2, 0],
        &[137, 7, 4, 192, 0, 2, 77, 0],
        &[148, 4, 0, 0],
        &[0x9a, 8, 0x27, 0x16, 192, 0, 2, 77],
        &[7, 3, 4, 131],
    ];
    let option = dice.of(&all);
    frame.splice(34..34, option.iter().copied());
    frame[14] += option.len() as u8 / 4;
    let length = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
}

fn extension(frame: &mut Vec<u8>, dice: &mut Random) {
    let next = frame[20];
    let (kind, mut header) = match dice.below(5) {
        0 => (0, vec![next, 0, 1, 4, 0, 0, 0, 0]),
        1 => (60, vec![next, 0, 1, 4, 0, 0, 0, 0]),
        2 => (51, vec![next, 0, 0, 0, 0, 0, 0, 0]),
        3 => (60, vec![next, 2, 0x1b, 18, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0]),
        _ => (43, vec![next, 2, dice.of(&[0, 2, 3, 4]), dice.of(&[0, 1, 2]), 0, 0, 0, 0]),
    };
    let length = if kind == 51 { 8 } else { (usize::from(header[1]) + 1) * 8 };
    header.resize(length, 0);
    wrap(frame, kind, &header);
}

/// Puts a header before what an IPv6 packet carries.
fn wrap(frame: &mut Vec<u8>, kind: u8, header: &[u8]) {
    frame[20] = kind;
    frame.splice(54..54, header.iter().copied());
    let length = (frame.len() - 54) as u16;
    frame[18..20].copy_from_slice(&length.to_be_bytes());
}

/// Units of eight bytes, and whether more follows.
fn place(dice: &mut Random) -> (u16, bool) {
    (dice.of(&[0, 0, 0, 1, 2, 3, 100]), dice.one_in(2))
}

fn fragment4(frame: &mut [u8], dice: &mut Random) {
    let (offset, more) = place(dice);
    frame[18..20].copy_from_slice(&dice.of(&IDS).to_be_bytes());
    frame[20..22].copy_from_slice(&(offset | u16::from(more) << 13).to_be_bytes());
}

fn fragment6(frame: &mut Vec<u8>, dice: &mut Random) {
    let (offset, more) = place(dice);
    let mut header = vec![frame[20], 0];
    header.extend((offset << 3 | u16::from(more)).to_be_bytes());
    header.extend([0, 0]);
    header.extend(dice.of(&IDS).to_be_bytes());
    wrap(frame, 44, &header);
}
