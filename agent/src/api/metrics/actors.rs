//! Metrics of the actors: mailboxes, time in handlers, crashes and waits, summed by kind of actor.

use std::collections::BTreeMap;

use volvox_actors::host::CellInfo;

use super::sheet::{Sheet, bare, row};

/// What all actors of one kind did together.
#[derive(Default)]
struct Kind {
    alive: u32,
    waiting: usize,
    handled: u64,
    refused: u64,
    waited: f64,
    busy: f64,
    crashes: u32,
}

pub(super) fn write(sheet: &mut Sheet, cells: &[CellInfo], waits: usize, cycle: bool) {
    let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
    for cell in cells {
        let kind = kinds.entry(kind(&cell.name)).or_default();
        kind.alive += 1;
        kind.waiting += cell.waiting;
        kind.handled += cell.handled;
        kind.refused += cell.refused;
        kind.waited += cell.waited.as_secs_f64();
        kind.busy += cell.busy.as_secs_f64();
        kind.crashes += cell.crashes;
    }
    let rows = |value: fn(&Kind) -> f64| -> Vec<_> {
        kinds.iter().map(|(name, kind)| row([("actor", name)], value(kind))).collect()
    };
    sheet.gauge("volvox_actors", "Actors alive", rows(|kind| f64::from(kind.alive)));
    let help = "Messages that wait in mailboxes";
    sheet.gauge("volvox_actor_mailbox_messages", help, rows(|kind| kind.waiting as f64));
    // Of the actors alive: those of an endpoint go with it.
    let help = "Messages handled by the actors alive";
    sheet.gauge("volvox_actor_messages_handled", help, rows(|kind| kind.handled as f64));
    let help = "Messages refused by full mailboxes of the actors alive";
    sheet.gauge("volvox_actor_messages_refused", help, rows(|kind| kind.refused as f64));
    let help = "Time that messages of the actors alive spent in mailboxes";
    sheet.gauge("volvox_actor_waiting_seconds", help, rows(|kind| kind.waited));
    let help = "Time that the actors alive spent in handlers";
    sheet.gauge("volvox_actor_handling_seconds", help, rows(|kind| kind.busy));
    let help = "Restarts of the actors alive, after crashes";
    sheet.gauge("volvox_actor_restarts", help, rows(|kind| f64::from(kind.crashes)));
    sheet.gauge("volvox_waits", "Questions without an answer yet", bare(waits as f64));
    let help = "Whether actors wait for each other in a ring";
    sheet.gauge("volvox_wait_cycles", help, bare(f64::from(u8::from(cycle))));
}

/// The name of an actor without its number: `endpoint 42 (shop/web)` is an `endpoint`.
fn kind(name: &str) -> &str {
    let name = name.split_once(" (").map_or(name, |(name, _)| name);
    match name.rsplit_once(' ') {
        Some((kind, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => kind,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::kind;

    #[test]
    fn endpoints_count_together() {
        assert_eq!(kind("endpoint 42"), "endpoint");
        assert_eq!(kind("endpoint 42 (shop/web)"), "endpoint");
        assert_eq!(kind("build queue"), "build queue");
    }
}
