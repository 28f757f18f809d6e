//! Sources of news, in a few lines.

use std::collections::BTreeMap;

use volvox_rest::models::Source;

use super::output::count;

/// A line for each side that has some; and which are other ones than before.
pub(super) fn lines(all: &[Source]) -> String {
    let mut by_side = BTreeMap::<&str, Vec<&Source>>::new();
    all.iter().for_each(|source| by_side.entry(&source.of).or_default().push(source));
    let lines = by_side.into_iter().flat_map(|(of, sources)| {
        let replaced = sources.iter().filter_map(|source| {
            Some(format!("{of}: {} is {}", source.name, source.replaced.as_ref()?))
        });
        [line(of, &sources)].into_iter().chain(replaced.collect::<Vec<_>>())
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn line(of: &str, sources: &[&Source]) -> String {
    let connected = sources.iter().filter(|it| it.connected_seconds.is_some()).count();
    let objects: usize = sources.iter().filter_map(|it| it.objects).sum();
    let silence = |it: &&&Source| it.silent_seconds.map(|seconds| (seconds, it.name.clone()));
    let silences = || sources.iter().filter_map(|it| silence(&it));
    let by_seconds = |a: &(f64, String), b: &(f64, String)| a.0.total_cmp(&b.0);
    let heard = match silences().min_by(by_seconds).zip(silences().max_by(by_seconds)) {
        Some(((least, _), (most, name))) => {
            format!("last heard {least:.0} s ago, {name} {most:.0} s ago")
        }
        None => "nothing heard".to_owned(),
    };
    let listed = match objects {
        0 => String::new(),
        objects => format!(", {} listed", count(objects, "object")),
    };
    format!("{of}: {connected} of {} connected{listed}; {heard}", sources.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_has_a_line_and_another_one_is_named() {
        let source = |of: &str, name: &str, silent| Source {
            of: of.to_owned(),
            name: name.to_owned(),
            connected_seconds: Some(60.0),
            silent_seconds: silent,
            objects: Some(2),
            ..Source::default()
        };
        let mut server = source("kubernetes", "server", Some(3.0));
        server.replaced = Some("another one since 10:02 UTC: its version is 1".to_owned());
        let all = [server, source("kubernetes", "pods", Some(17.4)), source("node", "links", None)];
        let expected = "kubernetes: 2 of 2 connected, 4 objects listed; last heard 3 s ago, pods 17 s ago\n\
                      kubernetes: server is another one since 10:02 UTC: its version is 1\n\
                      node: 1 of 1 connected, 2 objects listed; nothing heard";
        assert_eq!(lines(&all), expected);
    }
}
