//! Metrics of the container runtime: what it says of endpoints' containers, and what came of it.

use volvox_actors::cluster::container_runtime::RuntimeFollowerView;

use super::sheet::{Sheet, bare, row};

pub(super) fn write(sheet: &mut Sheet, view: &RuntimeFollowerView) {
    let state = |state: &str, count: usize| row([("state", state)], count as f64);
    let help = "Containers of endpoints, as the container runtime says";
    let rows = [
        state("running", view.containers),
        state("gone", view.gone),
        state("not-its-own", view.strangers),
    ];
    sheet.gauge("volvox_runtime_containers", help, rows);
    let help = "Endpoints whose container is gone and whose interface lives";
    sheet.gauge("volvox_runtime_endpoints_kept", help, bare(view.living as f64));
    let help = "Endpoints removed because container and interface were gone and nobody said DEL";
    sheet.counter("volvox_runtime_endpoints_removed", help, bare(view.removed as f64));
    let help = "Changes of containers that the runtime told of";
    sheet.counter("volvox_runtime_changes", help, bare(view.changes as f64));
    let help = "How often the runtime's containers were listed";
    sheet.counter("volvox_runtime_lists", help, bare(view.lists as f64));
}
