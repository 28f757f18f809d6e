//! Maps that somebody else wrote to.

use std::time::Duration;

use volvox_actors::{host::Time, node::auditor::AuditView};

use super::Trouble;

/// How long rows that somebody else had changed are told, since they were found.
const MEMORY: Duration = Duration::from_secs(600);

/// Maps that somebody else wrote to lately.
pub(super) fn troubles(audit: &AuditView, now: Time) -> impl Iterator<Item = Trouble> {
    let recent = audit.drift.iter().filter(move |(_, it)| now.since(it.last) < MEMORY);
    recent.map(move |(map, it)| {
        let rows = it.missing + it.changed + it.foreign;
        let text = format!(
            "somebody else changed rows of {map}, found and put right {} s ago: {}; {rows} since \
             the agent's start: see who else writes to its maps",
            now.since(it.last).as_secs(),
            it.text
        );
        Trouble::new(format!("drift-{map}"), 0, text)
    })
}

#[cfg(test)]
mod tests {
    use volvox_actors::node::auditor::Drifted;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn maps_that_somebody_else_wrote_to_are_named_for_a_while() {
        let text = "cilium_lxc: 1 missing (10.0.0.1)".to_owned();
        let it = Drifted { missing: 3, changed: 1, last: at(100), text, ..Drifted::default() };
        let audit =
            AuditView { drift: [("cilium_lxc".to_owned(), it)].into(), ..AuditView::default() };
        let said: Vec<_> = troubles(&audit, at(130)).map(|trouble| trouble.text).collect();
        let expected = "somebody else changed rows of cilium_lxc, found and put right 30 s ago: \
                      cilium_lxc: 1 missing (10.0.0.1); 4 since the agent's start: see who else \
                      writes to its maps";
        assert_eq!(said, [expected]);
        assert_eq!(troubles(&audit, at(701)).count(), 0, "long ago");
    }
}
