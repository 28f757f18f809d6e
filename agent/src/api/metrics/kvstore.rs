//! Metrics of the kvstore: whether it answers, and what this node reads and announces there.

use super::sheet::{Sheet, bare, row};
use crate::api::sharing::Sharing;

pub(super) fn write(sheet: &mut Sheet, report: &Sharing) {
    let Sharing { session: Some(session), addresses, identities } = report else { return };
    let scope = |scope: &str, done: bool| row([("scope", scope)], f64::from(u8::from(done)));
    let help = "Whether all that the store has was read once";
    let rows = [scope("ipcache", addresses.synced), scope("identities", identities.listed)];
    sheet.gauge("cilium_kvstore_initial_sync_completed", help, rows);
    let help = "How often in a row the store did not show a majority";
    sheet.gauge("cilium_kvstore_quorum_errors", help, bare(session.quorum_errors.into()));
    let help = "Whether the store answers";
    let answers = session.unreachable.is_none() && session.lease.is_some();
    sheet.gauge("volvox_kvstore_up", help, bare(f64::from(u8::from(answers))));
    let help = "Leases that the store granted";
    sheet.counter("volvox_kvstore_leases", help, bare(session.leases as f64));
    let help = "Keys that this node announces in the store";
    let rows = [
        row([("written", "yes")], session.written as f64),
        row([("written", "no")], session.announced.saturating_sub(session.written) as f64),
    ];
    sheet.gauge("volvox_kvstore_announced", help, rows);
    let help = "Addresses of other nodes' endpoints";
    let rows = [
        row([("state", "in-force")], addresses.mapped as f64),
        row([("state", "waiting")], addresses.waiting as f64),
    ];
    sheet.gauge("volvox_kvstore_addresses", help, rows);
}
