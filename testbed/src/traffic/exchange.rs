//! Numbered packets out, numbered packets back: what UDP and ping have in common.

use std::{net::UdpSocket, sync::atomic::Ordering, thread};

use anyhow::Result;

use super::{Plan, Report, pace::Pace, stream::Shared, tally::Tally};

/// Bytes of a packet after its header; the first eight are its number.
const BODY: usize = 56;

/// Largest packet that is read.
pub(super) const LARGEST: usize = 2048;

/// Sends packets that begin with `header`, and counts the answers, whose header is as long.
pub(super) fn exchange(
    socket: &UdpSocket,
    header: &[u8],
    plan: &Plan,
    shared: &Shared,
) -> Result<Report> {
    let mut report = Report::new(plan.kind, plan.target.ip());
    thread::scope(|scope| {
        let receiver = scope.spawn(|| collect(socket, header.len(), shared));
        let mut pace = Pace::new(plan.rate, &shared.stop);
        while pace.tick() {
            match socket.send(&packet(header, report.sent)) {
                Ok(_) => report.sent += 1,
                // A full queue, or the ICMP error that an earlier packet caused: not sent.
                Err(_) => report.failures += 1,
            }
        }
        shared.drain(report.sent);
        shared.close.store(true, Ordering::Relaxed);
        let tally = receiver.join().expect("the receiver does not panic");
        report.lost = report.sent.saturating_sub(tally.unique);
        report.reordered = tally.reordered;
        report.duplicates = tally.duplicates;
        tally.gap.tell(&mut report);
        Ok(report)
    })
}

fn collect(socket: &UdpSocket, header: usize, shared: &Shared) -> Tally {
    let mut tally = Tally::default();
    let mut buffer = [0; LARGEST];
    while !shared.close.load(Ordering::Relaxed) {
        // An error is a time-out, or an ICMP error for a packet that then counts as lost.
        let Ok(length) = socket.recv(&mut buffer) else { continue };
        if let Some(number) = buffer[..length].get(header..).and_then(number)
            && tally.arrived(number)
        {
            shared.answers.fetch_add(1, Ordering::Relaxed);
        }
    }
    tally
}

fn packet(header: &[u8], number: u64) -> Vec<u8> {
    let mut packet = header.to_vec();
    packet.extend(number.to_be_bytes());
    packet.resize(header.len() + BODY, 0);
    packet
}

/// The number at the head of `bytes`.
pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|number| u64::from_be_bytes(*number))
}
