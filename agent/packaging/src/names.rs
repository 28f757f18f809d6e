//! Values by their names, and what was probably meant by a name that none has.

use crate::settings::{SETTINGS, Setting};

/// The setting of that name.
pub(crate) fn named(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// The name that is most like that one, if one is like it.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let group = format!("{name}.");
    if let Some(member) = SETTINGS.iter().find(|it| it.name.starts_with(&group)) {
        return Some(member.name);
    }
    let distance = |it: &Setting| distance(&it.name.to_lowercase(), &name.to_lowercase());
    let best = SETTINGS.iter().min_by_key(|it| distance(it))?;
    let like = distance(best) <= name.len() / 3;
    like.then_some(best.name)
}

/// How many letters have to be changed, added or removed.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, b) in other.chars().enumerate() {
            let kept = before + usize::from(a != b);
            before = row[j + 1];
            row[j + 1] = kept.min(before + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_has_a_neighbour() {
        assert_eq!(nearest("ipam.mod"), Some("ipam.mode"));
        assert_eq!(nearest("ipv6.enable"), Some("ipv6.enabled"));
        assert_eq!(nearest("K8SserviceHost"), Some("k8sServiceHost"));
        assert_eq!(nearest("ipv6"), Some("ipv6.enabled"));
        assert_eq!(nearest("hubble.relay.rollOutPods"), None);
    }
}
